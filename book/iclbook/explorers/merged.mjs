// Merged key and query: one abrupt drop, from one fixed point to the other.

import { format } from "./chart.mjs";
import { descend, start } from "./engine.mjs";
import { course, edgeOf, leaving, lossPanel, passes, predictorPanel, sharePanel } from "./panels.mjs";
import { explorer } from "./shell.mjs";
import { dropTime, growthRate, plateaus, population, whiteCourse, whiteStart } from "./theory.mjs";

const DECADES = [-6, -5, -4, -3, -2, -1];

// The step at which half of the drop is done.
const dropStep = (run, levels) => passes(run, run.loss.map((each) => -each), -(levels[0] + levels.at(-1)) / 2);

// The drops of other initial weights, of which those of the reader's own are one.
let known = { key: "", drops: [] };
function dropsOf(problem, model, levels, { steps, lr }) {
  const key = JSON.stringify([[...problem.eigenvalues], [...problem.a], model.heads, model.seed, steps, lr]);
  if (known.key !== key) {
    const half = (levels[0] + levels.at(-1)) / 2;
    known = { key, drops: DECADES.map((power) => dropStep(descend(problem, start({ ...model, init: 10 ** power }), { steps, lr, until: half }), levels)) };
  }
  return known.drops;
}

export function compute({ eigenvalues, context, heads, init, seed, lr, steps }) {
  const problem = population(eigenvalues, context), all = plateaus(problem), levels = [all[0], all.at(-1)];
  const model = { kind: "merged", dim: eigenvalues.length, heads, init, seed };
  const weights = start(model), white = Math.max(...eigenvalues) - Math.min(...eigenvalues) < 1e-9;
  const c0 = white ? whiteStart(weights) : null;
  const drops = dropsOf(problem, model, levels, { steps, lr });
  const run = descend(problem, weights, { steps, lr });
  return { problem, model, run, step: run.step, levels, c0, drops, drop: dropStep(run, levels), edge: edgeOf(problem, model) };
}

export function show({ problem, run, levels, c0, drops, drop, edge }, { init, lr, steps }, row) {
  const loss = lossPanel(run, levels, steps, row);
  loss.levels[1].name = "L(ΛC⁻¹)";
  loss.levels[0].name = "L(0)";
  const inits = DECADES.map((power) => 10 ** power), reached = inits.filter((_, i) => drops[i] !== null);
  const times = {
    title: "When the drop comes, against initial weights", cursor: init, moves: "init",
    x: { label: "initial weights", min: 5e-7, max: 0.2, log: true }, y: { label: "step of the drop", min: 0, max: steps },
    series: [
      { name: "simulation", label: false, dots: 4, color: 0, x: reached, y: drops.filter((each) => each !== null) },
      { name: "this run", label: false, dots: 6, color: 1, x: drop === null ? [] : [init], y: drop === null ? [] : [drop] },
    ],
  };
  let law = "";
  const dashed = (name, y) => times.series.push({ name, label: false, dashed: true, x: inits, y });
  if (c0 !== null) {
    loss.series.push({ name: "closed form", label: false, dashed: true, x: run.step,
                       y: run.step.map((step) => whiteCourse(problem, c0, lr * step)) });
    dashed("theory", inits.map((each) => dropTime(problem, c0 * (each / init) ** 2) / lr));
    law = ` White input: the closed form puts the drop at step ${format(Math.round(dropTime(problem, c0) / lr))}.`;
  } else if (drops[0] !== null) {
    // no closed form, but small weights grow as exp(2|a|t): a line of known slope through the first dot
    const slope = 1 / (growthRate(problem) * lr);
    dashed("theory's slope", inits.map((each) => drops[0] - Math.log(each / inits[0]) * slope));
    law = ` Theory adds ${format(Math.round(Math.LN10 * slope))} steps for each decade of smaller weights.`;
  }
  const when = drop === null ? "The drop does not come in these steps." : `The drop comes at step ${format(Math.round(drop))}.`;
  return {
    note: leaving(run, lr, edge),
    summary: `${when}${law} ${course(problem, run, row)}`,
    panels: [loss, sharePanel(problem, run, steps, row), times, predictorPanel(problem, run, row)],
  };
}

export const render = explorer({ name: "merged", compute, show });
