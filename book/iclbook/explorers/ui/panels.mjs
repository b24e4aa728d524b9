// @ts-check
// Panels that several explorers of linear attention share.

import { format, subscript } from "./format.mjs";
import { learned, stableRate } from "../maths/theory.mjs";

/** @import { Panel } from "../types.d.ts" */

export const axis = (dim) => Array.from({ length: dim }, (_, d) => `e${subscript(d + 1)}`);

/** Column i of an array with rows of `width` numbers. */
export const column = ({ step }, array, width, i) =>
  Float64Array.from(step, (_, r) => array[r * width + i]);

/** @returns {Panel} */
export const lossPanel = (run, levels, steps, row) => ({
  title: "Loss",
  x: { label: "step", min: 0, max: steps },
  cursor: run.step[row],
  y: { label: "mean squared error", min: 0, max: 1.06 * levels[0] },
  levels: levels.map((y, m) => ({ y, name: `L(M${subscript(m)})` })),
  series: [{ name: "loss", label: false, color: "ink", x: run.step, y: run.loss }],
});

/** @returns {Panel} */
export function predictorPanel(problem, run, row) {
  const dim = problem.a.length, names = axis(dim);
  return {
    title: "The in-context predictor M",
    x: { label: "query" },
    y: { label: "context" },
    heat: {
      rows: names,
      columns: names,
      values: run.m.subarray(row * dim * dim, (row + 1) * dim * dim),
      max: Math.max(...learned(problem)),
      signed: true,
    },
  };
}

/**
 * How much of each eigenvector is learned, M_dd in units of a_d/b_d.
 * @returns {Panel}
 */
export function sharePanel(problem, run, steps, row) {
  const dim = problem.a.length, ends = learned(problem);
  return {
    title: "How much of each eigenvector is learned",
    x: { label: "step", min: 0, max: steps },
    cursor: run.step[row],
    y: { label: "share of its limit", min: -0.05, max: 1.12 },
    levels: [{ y: 1, name: "limit", label: false }],
    series: axis(dim).map((name, d) => ({
      name,
      color: d,
      x: run.step,
      y: column(run, run.m, dim * dim, d * dim + d).map((each) => each / ends[d]),
    })),
  };
}

/** The step at which a series first passes a level, between the recorded steps; null if it never does. */
export function passes({ step }, series, level) {
  const row = series.findIndex((each) => each > level);
  if (row < 1) return null;
  return step[row - 1] +
    ((level - series[row - 1]) / (series[row] - series[row - 1])) * (step[row] - step[row - 1]);
}

/** How the run ended, for the table of pinned curves. */
export const went = (run) => [
  {
    name: "eigenvectors half learned at step",
    value: Array.from(run.half, (at) => (Number.isNaN(at) ? "–" : format(Math.round(at)))).join(
      ", ",
    ),
  },
  { name: "loss at the end", value: run.loss.at(-1) },
];

/** The run in words. `coming` are the steps at which theory expects what is not yet half learned. */
export function course(problem, run, row, coming = []) {
  const names = axis(problem.a.length);
  const drops = names.map((name, d) => ({ name, at: run.half[d], coming: coming[d] }));
  const done = drops.filter(({ at }) => !Number.isNaN(at)).sort((a, b) => a.at - b.at);
  const isOneDrop = done.length === names.length && done.at(-1).at - done[0].at < 1;
  const reached = (isOneDrop ? [{ ...done[0], name: "all eigenvectors" }] : done)
    .map(({ name, at }) => `${name} at step ${format(Math.round(at))}`);
  const expected = (step) =>
    step ? ` (after about ${format(Number(step.toPrecision(3)))} steps by theory)` : "";
  const waiting = drops.filter(({ at }) => Number.isNaN(at))
    .map(({ name, coming }) => `${name}${expected(coming)}`);
  const later = reached.length && waiting.length ? `; not yet ${waiting.join(", ")}` : "";
  const from = format(run.loss[0]), to = format(run.loss.at(-1));
  const way = from === to ? `stays at ${to}` : `falls from ${from} to ${to}`;
  return `Half learned, in M: ${reached.join(", ") || "no eigenvector"}${later}. ` +
    `The loss ${way} in ${format(run.step.at(-1))} steps; ` +
    `at step ${format(run.step[row])} it is ${format(run.loss[row])}.`;
}

/** The learning rate past which a run cannot stay where training ends. Its slider has a mark there. */
export const edgeOf = (problem, model) => ({ lr: stableRate(problem, model) });

/** The warning for a run that has left. */
export const leaving = (run, lr, edge) =>
  run.left === null
    ? ""
    : `At step ${format(run.left)} the run leaves: its learning rate ${
      format(lr)
    } is past the edge of stability; ` +
      `where training would end, no rate above ${format(edge.lr)} can stay.`;
