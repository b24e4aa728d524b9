// @ts-check
// Merged key and query: one abrupt drop, from one fixed point to the other.

import { format } from "./ui/format.mjs";
import { descend, projections, start } from "./maths/engine.mjs";
import {
  column,
  course,
  edgeOf,
  leaving,
  lossPanel,
  predictorPanel,
  sharePanel,
} from "./ui/panels.mjs";
import { onSequences } from "./maths/sample.mjs";
import { explorer } from "./ui/explorer.mjs";
import {
  dropTime,
  growthRate,
  learned,
  plateaus,
  population,
  whiteCourse,
  whiteStart,
} from "./maths/theory.mjs";

/** @import { Drawing, Panel } from "./types.d.ts" */

const DECADES = [-6, -5, -4, -3, -2, -1];
const FARTHEST = 3; // how far the start of head 1 can be moved

// The loss at which half of the drop is done, and the step at which a run gets there; null if it does not.
const middle = (/** @type {number[]} */ [first, last]) => (first + last) / 2;
const dropStep = ({ fallen }) => (Number.isNaN(fallen) ? null : fallen);

// The direction of M*, where training ends. Along it U is one number u, and the strength of M is v u.
const direction = (problem) => {
  const ends = learned(problem), size = Math.hypot(...ends);
  return ends.map((each) => each / size);
};

// The drawn weights, with the reader's v and u added to those of head 1.
export function begin(problem, model, { v0, u0 }) {
  const weights = start(model), along = direction(problem);
  weights.v[0] += v0;
  along.forEach((each, d) => {
    weights.u[d * model.dim + d] += u0 * each;
  });
  return weights;
}

// The drops from other initial weights. They are kept while only the initial weights change.
let known = { key: "", drops: [] };
function dropsOf(problem, model, levels, { steps, lr, v0, u0 }) {
  const key = JSON.stringify([
    [...problem.eigenvalues],
    [...problem.a],
    model.heads,
    model.seed,
    steps,
    lr,
    v0,
    u0,
  ]);
  if (known.key !== key) {
    known = {
      key,
      drops: DECADES.map((power) =>
        dropStep(
          descend(problem, begin(problem, { ...model, init: 10 ** power }, { v0, u0 }), {
            steps,
            lr,
            level: middle(levels),
            stop: true,
          }),
        )
      ),
    };
  }
  return known.drops;
}

export const effort = ({ eigenvalues, heads, steps }) =>
  6 * steps * heads * eigenvalues.length ** 2;

export function compute({ eigenvalues, context, heads, init, seed, lr, steps, v0, u0 }) {
  const problem = population(eigenvalues, context),
    all = plateaus(problem),
    levels = [all[0], all.at(-1)];
  const model = { kind: "merged", dim: eigenvalues.length, heads, init, seed };
  const weights = begin(problem, model, { v0, u0 }), along = direction(problem);
  const white = Math.max(...eigenvalues) - Math.min(...eigenvalues) < 1e-9,
    small = v0 === 0 && u0 === 0;
  const c0 = white && small ? whiteStart(weights) : null; // the closed form needs small weights
  const at = [weights.v[0] - v0, projections(weights, along)[0] - u0];
  const drops = dropsOf(problem, model, levels, { steps, lr, v0, u0 });
  const run = descend(problem, weights, { steps, lr, along, level: middle(levels) });
  return {
    problem,
    model,
    run,
    step: run.step,
    levels,
    c0,
    small,
    drawn: at,
    drops,
    drop: dropStep(run),
    edge: edgeOf(problem, model),
  };
}

// The heads' paths in the plane of v and u, where M = 0 is a saddle. The start of head 1 is a handle.
/** @returns {Panel} */
function plane(problem, run, heads, drawn, row) {
  const strength = Math.hypot(...learned(problem)),
    reach = Math.max(1.3 * Math.sqrt(strength), 1.2 * FARTHEST);
  const arm = Array.from(
    { length: 61 },
    (_, i) => (strength / reach) * (reach * reach / strength) ** (i / 60),
  );
  const both = [...arm.map((each) => -each), NaN, ...arm],
    paths = Array.from(
      { length: heads },
      (_, h) => ({
        name: `head ${h + 1}`,
        label: false,
        color: h,
        x: column(run, run.v, heads, h),
        y: column(run, run.u, heads, h),
      }),
    );
  const evenly = Array.from({ length: 41 }, (_, i) => Math.round((i / 40) * (run.rows - 1)));
  return {
    title: `Each head's path; drag the start of head 1${
      heads > 1 ? ". Their v·u add up to the dashed curve" : ""
    }`,
    plane: true,
    x: { label: "value weight v", min: -reach, max: reach },
    y: { label: "key-query weight u", min: -reach, max: reach },
    series: [
      {
        name: "one head's minima",
        label: "one head ends",
        tags: [],
        dashed: true,
        x: both,
        y: both.map((each) => strength / each),
      },
      {
        name: "into the saddle",
        tags: [],
        color: "quiet",
        dashed: true,
        x: [-reach, reach],
        y: [reach, -reach],
      },
      { name: "saddle", label: false, color: "ink", ring: true, dots: 5, x: [0], y: [0] },
      ...paths.reverse(),
      {
        name: "head 1, at equal times",
        label: false,
        color: 0,
        tags: ["head 1"],
        dots: 2.4,
        x: evenly.map((i) => run.v[i * heads]),
        y: evenly.map((i) => run.u[i * heads]),
      },
      {
        name: "now",
        label: false,
        color: "ink",
        dots: 4.5,
        ring: true,
        x: run.v.subarray(row * heads, (row + 1) * heads),
        y: run.u.subarray(row * heads, (row + 1) * heads),
      },
    ],
    handles: [{
      x: run.v[0],
      y: run.u[0],
      name: "start of head 1",
      color: 0,
      tags: ["head 1"],
      to: (x, y) => ({ v0: x - drawn[0], u0: y - drawn[1] }),
    }],
  };
}

/** @returns {Drawing} */
export function show(
  { problem, run, levels, c0, small, drawn, drops, drop, edge },
  { heads, init, lr, steps },
  row,
) {
  const loss = lossPanel(run, levels, steps, row);
  loss.levels[1].name = "L(ΛC⁻¹)";
  loss.levels[0].name = "L(0)";
  const inits = DECADES.map((power) => 10 ** power),
    reached = inits.filter((_, i) => drops[i] !== null);
  /** @type {Panel} */
  const times = {
    title: "When the drop comes, against initial weights",
    cursor: init,
    moves: "init",
    x: { label: "initial weights", min: 5e-7, max: 0.2, log: true },
    y: { label: "step of the drop", min: 0, max: steps },
    series: [
      {
        name: "simulation",
        label: false,
        dots: 4,
        color: 0,
        x: reached,
        y: drops.filter((each) => each !== null),
      },
      {
        name: "this run",
        label: false,
        dots: 6,
        color: 1,
        x: drop === null ? [] : [init],
        y: drop === null ? [] : [drop],
      },
    ],
  };
  let law = "";
  const dashed = (name, y) => times.series.push({ name, label: false, dashed: true, x: inits, y });
  if (c0 !== null) {
    loss.series.push({
      name: "closed form",
      label: false,
      dashed: true,
      x: run.step,
      y: run.step.map((step) => whiteCourse(problem, c0, lr * step)),
    });
    dashed("theory", inits.map((each) => dropTime(problem, c0 * (each / init) ** 2) / lr));
    law = ` White input: the closed form puts it at step ${
      format(Math.round(dropTime(problem, c0) / lr))
    }.`;
  }
  if (small) { // weights grow as exp(2|a|t)
    const slope = 1 / (growthRate(problem) * lr);
    // Without a closed form, theory is a line of known slope through the first dot.
    if (c0 === null && drops[0] !== null) {
      dashed(
        "theory's slope",
        inits.map((each) => drops[0] - Math.log(each / inits[0]) * slope),
      );
    }
    law += ` Ten times smaller weights take ${
      format(Math.round(Math.LN10 * slope))
    } steps more, by theory.`;
  }
  const when = drop === null
    ? "The drop does not come in these steps."
    : `Half of the loss's drop is done at step ${format(Math.round(drop))}.`;
  return {
    note: leaving(run, lr, edge),
    ends: [{ name: "half of the drop at step", value: drop }, {
      name: "loss at the end",
      value: run.loss.at(-1),
    }],
    summary: `${when}${law} ${course(problem, run, row)}`,
    panels: [
      loss,
      plane(problem, run, heads, drawn, row),
      sharePanel(problem, run, steps, row),
      times,
      predictorPanel(problem, run, row),
    ],
  };
}

export const finite = (state) => {
  const { eigenvalues, context, heads, init, seed } = state;
  const model = { kind: "merged", dim: eigenvalues.length, heads, init, seed };
  return onSequences(state, begin(population(eigenvalues, context), model, state));
};

export const render = explorer({ name: "merged", compute, show, effort, finite });
