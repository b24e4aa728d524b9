// @ts-check
// Separate key and query of rank R: a head learns R eigenvectors before the next long plateau.

import { count, format, subscript } from "./ui/format.mjs";
import { descend, start } from "./maths/engine.mjs";
import {
  axis,
  column,
  course,
  edgeOf,
  leaving,
  lossPanel,
  sharePanel,
  went,
} from "./ui/panels.mjs";
import { onSequences } from "./maths/sample.mjs";
import { explorer } from "./ui/explorer.mjs";
import { plateaus, population } from "./maths/theory.mjs";

/** @import { Drawing } from "./types.d.ts" */

const modelOf = ({ eigenvalues, heads, rank, init, seed }) => ({
  kind: "separate",
  dim: eigenvalues.length,
  heads,
  rank,
  init,
  seed,
});
export const finite = (state) => onSequences(state, start(modelOf(state)));

export const effort = ({ eigenvalues, heads, rank, steps }) =>
  6 * steps * heads * rank * eigenvalues.length ** 2;

export function compute({ eigenvalues, context, heads, rank, init, seed, lr, steps }) {
  const problem = population(eigenvalues, context);
  const model = modelOf({ eigenvalues, heads, rank, init, seed });
  const run = descend(problem, start(model), { steps, lr, keep: true });
  return {
    problem,
    model,
    run,
    step: run.step,
    levels: plateaus(problem),
    edge: edgeOf(problem, model),
  };
}

/** @returns {Drawing} */
export function show({ problem, run, levels, edge }, { heads, rank, steps, lr }, row) {
  const dim = problem.a.length, e = axis(dim), sizes = new Float64Array(heads * dim);
  for (let h = 0; h < heads; h++) {
    for (let r = 0; r < rank; r++) {
      for (let d = 0; d < dim; d++) {
        sizes[h * dim + d] += run.k[((row * heads + h) * rank + r) * dim + d] ** 2;
      }
    }
  }
  // The run spends most steps near the long plateaus. The one where it ends does not count as a wait.
  const near = levels.map((level) =>
    [...run.loss.keys()].filter((i) => Math.abs(run.loss[i] - level) < 0.006)
  );
  const needsNewHead = (m) => m % rank === 0; // all heads that have begun are full
  const last = run.rows - 1;
  const wait = (rows, m) => `${format(rows.length * run.stride)} steps at L(M${subscript(m)})`;
  const waits = (forNewHead) =>
    near.flatMap((rows, m) =>
      forNewHead === needsNewHead(m) && rows.length && rows.at(-1) < last ? [wait(rows, m)] : []
    ).join(", ") || "none";
  const rests = near.flatMap((rows, m) => rows.at(-1) === last ? [`L(M${subscript(m)})`] : []);
  return {
    note: leaving(run, lr, edge),
    ends: went(run),
    summary:
      `Rank ${rank}, ${count(heads, "head")}. Waits for a new head: ${waits(true)}.${
        rank > 1 ? ` In a head with room: ${waits(false)}.` : ""
      }${rests.length ? ` At the end it is at ${rests.join(", ")}.` : ""} ` +
      `Theory's last loss is ${format(levels.at(-1))}. ${course(problem, run, row)}`,
    panels: [
      lossPanel(run, levels, steps, row),
      {
        title: "Keys: size along each eigenvector",
        x: { label: "eigenvector" },
        y: { label: "head" },
        heat: {
          rows: Array.from({ length: heads }, (_, h) => h + 1),
          columns: e,
          values: sizes.map(Math.sqrt),
          max: Math.max(1e-3, Math.sqrt(Math.max(...sizes))),
        },
      },
      sharePanel(problem, run, steps, row),
      {
        title: "Value of each head: who has begun",
        x: { label: "step", min: 0, max: steps },
        cursor: run.step[row],
        y: { label: "|v|", min: 0, max: 1.1 * Math.max(0.1, ...run.v.map(Math.abs)) },
        series: Array.from({ length: heads }, (_, h) => ({
          name: `head ${h + 1}`,
          color: h,
          x: run.step,
          y: column(run, run.v, heads, h).map(Math.abs),
        })),
      },
    ],
  };
}

export const render = explorer({ name: "low_rank", compute, show, effort, finite });
