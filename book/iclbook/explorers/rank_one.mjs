// @ts-check
// Separate key and query of rank one: eigenvectors are learned one after another, a head each.

import { format } from "./ui/format.mjs";
import { descend, start } from "./maths/engine.mjs";
import {
  axis,
  column,
  course,
  edgeOf,
  leaving,
  lossPanel,
  passes,
  predictorPanel,
  went,
} from "./ui/panels.mjs";
import { onSequences } from "./maths/sample.mjs";
import { explorer } from "./ui/explorer.mjs";
import { comingDrops, headCourse, headLimit, plateaus, population } from "./maths/theory.mjs";

/** @import { Drawing } from "./types.d.ts" */

// Which eigenvector each head learns, with which sign, and when half of it is learned; null if it learns none.
function owners(problem, run, heads) {
  const dim = problem.a.length, last = run.rows - 1;
  return Array.from({ length: heads }, (_, h) => {
    const value = column(run, run.v, heads, h).map(Math.abs);
    const key = Array.from(
      run.k.subarray((last * heads + h) * dim, (last * heads + h + 1) * dim),
      Math.abs,
    );
    const d = key.indexOf(Math.max(...key)), half = headLimit(problem, d) / 2;
    const at = passes(run, value, half);
    return at === null ? null : { d, sign: Math.sign(run.v[last * heads + h]), half: at };
  });
}

const modelOf = ({ eigenvalues, heads, init, seed }) => ({
  kind: "separate",
  dim: eigenvalues.length,
  heads,
  rank: 1,
  init,
  seed,
});
export const finite = (state) => onSequences(state, start(modelOf(state)));

export const effort = ({ eigenvalues, heads, steps }) =>
  6 * steps * heads * eigenvalues.length ** 2;

export function compute({ eigenvalues, context, heads, init, seed, lr, steps }) {
  const problem = population(eigenvalues, context);
  const model = modelOf({ eigenvalues, heads, init, seed }), weights = start(model);
  const run = descend(problem, weights, { steps, lr, keep: true });
  const coming = run.left === null
    ? comingDrops(problem, weights, Array.from(run.half, (at) => !Number.isNaN(at)))
    : [];
  return {
    problem,
    model,
    run,
    coming: coming.map((each) => each && steps + each / lr),
    step: run.step,
    owner: owners(problem, run, heads),
    levels: plateaus(problem),
    edge: edgeOf(problem, model),
  };
}

/** @returns {Drawing} */
export function show({ problem, run, coming, owner, levels, edge }, { heads, steps, lr }, row) {
  const dim = problem.a.length,
    e = axis(dim),
    size = 1.12 * Math.max(...e.map((_, d) => headLimit(problem, d)));
  const keys = run.k.subarray(row * heads * dim, (row + 1) * heads * dim).map(Math.abs);
  // With both coefficients of the flow times the learning rate, time is in steps.
  const paced = { a: problem.a.map((each) => lr * each), b: problem.b.map((each) => lr * each) };
  const theory = owner.filter(Boolean).map(({ d, sign, half }) => {
    const points = headCourse(paced, d, half, 0, steps);
    return {
      name: `theory ${e[d]}`,
      label: false,
      color: "theory",
      dashed: true,
      x: points.map(([t]) => t),
      y: points.map(([, s]) => sign * s),
    };
  });
  const values = owner.map((each, h) => ({
    name: `head ${h + 1}`,
    label: each ? e[each.d] : false,
    color: each ? each.d : "quiet",
    x: run.step,
    y: column(run, run.v, heads, h),
  }));
  return {
    note: leaving(run, lr, edge),
    ends: went(run),
    summary: `Theory's plateaus are at ${levels.map(format).join(", ")}. ${
      course(problem, run, row, coming)
    }`,
    panels: [
      lossPanel(run, levels, steps, row),
      {
        title: "Value of each head",
        x: { label: "step", min: 0, max: steps },
        cursor: run.step[row],
        y: { label: "v", min: run.v.some((each) => each < -0.1 * size) ? -size : 0, max: size },
        series: [...values, ...theory],
      },
      {
        title: "Keys: size along each eigenvector",
        x: { label: "eigenvector" },
        y: { label: "head" },
        heat: {
          rows: owner.map((_, h) => h + 1),
          columns: e,
          values: keys,
          max: Math.max(1e-3, ...run.k.slice(-heads * dim).map(Math.abs)),
        },
      },
      predictorPanel(problem, run, row),
    ],
  };
}

export const render = explorer({ name: "rank_one", compute, show, effort, finite });
