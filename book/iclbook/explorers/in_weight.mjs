// A mixture of sequences with a task of their own and sequences that share one, moved continuously.
//
// The moments of both kinds come from Python with the page; those of a mixture are their weighted mean.

import { format } from "./chart.mjs";
import { start } from "./engine.mjs";
import { descendMoments, floor, lossOf, mix, pairIndex, unpack, widen } from "./moments.mjs";
import { explorer } from "./shell.mjs";

const DIM = 4, POINTS = 160, SHARES = Array.from({ length: 26 }, (_, i) => Math.max(0.004, i / 25));  // none is a kind of its own
const KINDS = ["own", "shared", "noise", "in_weight", "in_context"];
export const data = (model) => Object.fromEntries(KINDS.map((kind) => [kind, unpack(model.get("moments")[kind])]));

// Without in-context sequences the published context is noise; its moments are a kind of their own.
export const mixture = (kinds, share) =>
  (share === 0 ? kinds.noise : mix([[share, kinds.own], [1 - share, kinds.shared]]));

export function compute({ share, heads, init, seed, lr, steps }, kinds) {
  const train = mixture(kinds, share);
  const weights = widen(start({ kind: "merged", dim: DIM, heads, init, seed }));
  const run = descendMoments(train, weights, { steps, lr, stride: Math.ceil(steps / POINTS) });
  const errors = ["in_weight", "in_context"].map((kind) => run.c.map((c) => lossOf(kinds[kind], c)));
  return { run, step: run.step, errors, least: floor(train), floors: floors(kinds) };
}

// The least that each share leaves, once for the page's data.
const known = new WeakMap();
function floors(kinds) {
  if (!known.has(kinds)) known.set(kinds, SHARES.map((share) => floor(mixture(kinds, share))));
  return known.get(kinds);
}

// Sizes of the predictor's two parts: on β x_qᵀ (pairs of x and y) and on all other pairs.
function parts(c) {
  const index = pairIndex(DIM), size = DIM + 1, context = new Set();
  for (let d = 0; d < DIM; d++)
    for (let a = 0; a < DIM; a++) context.add(index[(d * size + a) * size + DIM]);
  let inside = 0, outside = 0;
  c.forEach((each, f) => { if (context.has(f)) inside += each * each; else outside += each * each; });
  return [Math.sqrt(inside), Math.sqrt(outside)];
}

export function show({ run, errors, least, floors: leasts }, { share, steps, lr }, row) {
  const split = run.c.map(parts), x = { label: "step", min: 0, max: steps };
  const [inWeight, inContext] = errors, cursor = run.step[row];
  const [own, ends] = [row, run.heads.length - 1].map((at) => run.heads[at].map(parts));
  const top = 1.1 * Math.max(...split.flat(), 1e-9);
  return {
    note: run.left === null ? "" : `At step ${format(run.left)} the run leaves: the learning rate ${format(lr)} is past the edge of stability.`,
    summary: `With ${format(100 * share)}% in-context sequences, at step ${format(cursor)}: training loss ${format(run.loss[row])} `
      + `(floor ${format(least)}), in-weight test error ${format(inWeight[row])}, in-context test error ${format(inContext[row])}.`,
    panels: [
      {
        title: "Loss and test errors", x, cursor, y: { label: "mean squared error", min: 0, max: share === 0 ? 2.6 : 1.4 },
        levels: [{ y: least, name: "floor" }],
        series: [
          { name: "training", color: "ink", x: run.step, y: run.loss },
          { name: "in-weight", color: 1, x: run.step, y: inWeight },
          { name: "in-context", color: 0, x: run.step, y: inContext },
        ],
      },
      {
        title: "What is left by the best, by share; drag it", cursor: share, moves: "share",
        x: { label: "share in context", min: 0, max: 1 }, y: { label: "training error", min: 0, max: 1.4 * Math.max(...leasts, 0.1) },
        series: [
          { name: "floor", color: "theory", x: SHARES, y: leasts },
          { name: "this run's end", label: false, color: "ink", dots: 6, x: [share], y: [run.loss.at(-1)] },
        ],
      },
      {
        title: "Which head reads what", x: { label: "reads" }, y: { label: "head" },
        heat: { rows: own.map((_, h) => h + 1), columns: ["labels", "inputs"], values: own.flat(), max: Math.max(1e-9, ...ends.flat()) },
      },
      {
        title: "What the predictor reads", x, cursor, y: { label: "size of its coefficients", min: 0, max: top },
        series: [
          { name: "labels", color: 0, x: run.step, y: split.map(([each]) => each) },
          { name: "inputs", color: 1, x: run.step, y: split.map(([, each]) => each) },
        ],
      },
    ],
  };
}

export const render = explorer({ name: "in_weight", compute, show, data });
