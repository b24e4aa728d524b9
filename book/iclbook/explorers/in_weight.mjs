// @ts-check
// Training on a mixture: some sequences have a task of their own, the others share one.
//
// The moments of both kinds come from Python with the page. Those of a mixture are the weighted mean.

import { format } from "./ui/format.mjs";
import { start } from "./maths/engine.mjs";
import {
  byHead,
  descendMoments,
  floor,
  lossOf,
  mix,
  pairIndex,
  unpack,
  widen,
} from "./maths/moments.mjs";
import { passes } from "./ui/panels.mjs";
import { explorer } from "./ui/explorer.mjs";

/** @import { Drawing } from "./types.d.ts" */

const DIM = 4, POINTS = 160;
// Without any in-context sequence the moments would be other ones (see mixture), so none is 0.
const SHARES = Array.from({ length: 26 }, (_, i) => Math.max(0.004, i / 25));
const KINDS = ["own", "shared", "noise", "in_weight", "in_context"];
export const data = (model) =>
  Object.fromEntries(KINDS.map((kind) => [kind, unpack(model.get("moments")[kind])]));

// Without in-context sequences the published context is noise, which has moments of its own.
export const mixture = (kinds, share) =>
  share === 0 ? kinds.noise : mix([[share, kinds.own], [1 - share, kinds.shared]]);

// The multiply-adds of a run: gram times c, and each head's part.
export const effort = ({ steps, heads }) => steps * (60 * 60 + 3 * heads * DIM * (DIM + 1) ** 2);

export function compute({ share, heads, init, seed, lr, steps }, kinds) {
  const train = mixture(kinds, share);
  const weights = widen(start({ kind: "merged", dim: DIM, heads, init, seed }));
  const { step, loss, left, c, kept } = descendMoments(train, weights, {
    steps,
    lr,
    stride: Math.ceil(steps / POINTS),
    keep: (now, index) => byHead(now, index, train.cross.length).map(parts),
  });
  const errors = ["in_weight", "in_context"].map((kind) =>
    c.map((each) => lossOf(kinds[kind], each))
  );
  return {
    step,
    loss,
    left,
    errors,
    split: c.map(parts),
    heads: kept,
    least: floor(train),
    floors: floors(kinds),
  };
}

// The least loss of each share, computed once for the data of a page.
const known = new WeakMap();
function floors(kinds) {
  if (!known.has(kinds)) known.set(kinds, SHARES.map((share) => floor(mixture(kinds, share))));
  return known.get(kinds);
}

// The sizes of the predictor's two parts: on β x_qᵀ, pairs of x and y, and on all other pairs.
const INDEX = pairIndex(DIM),
  CONTEXT = new Set(
    Array.from(
      { length: DIM * DIM },
      (_, i) => INDEX[((i % DIM) * (DIM + 1) + Math.floor(i / DIM)) * (DIM + 1) + DIM],
    ),
  );
function parts(c) {
  let inside = 0, outside = 0;
  c.forEach((each, f) => {
    if (CONTEXT.has(f)) inside += each * each;
    else outside += each * each;
  });
  return [Math.sqrt(inside), Math.sqrt(outside)];
}

/** @returns {Drawing} */
export function show(
  { step, loss, left, errors, split, heads, least, floors: leasts },
  { share, steps, lr },
  row,
) {
  const x = { label: "step", min: 0, max: steps },
    [inWeight, inContext] = errors,
    cursor = step[row];
  // a quarter, as in the chapter, since the in-context error may dip a little before it rises
  const falls = (errors) => {
    const at = passes({ step }, errors.map((each) => -each), -0.75 * errors[0]),
      least = errors.indexOf(Math.min(...errors));
    return at === null
      ? `never loses a quarter (least ${format(errors[least])}, at step ${format(step[least])})`
      : `has lost a quarter at step ${format(Math.round(at))}`;
  };
  const own = heads[row], ends = heads.at(-1), top = 1.1 * Math.max(...split.flat(), 1e-9);
  return {
    note: left === null
      ? ""
      : `At step ${format(left)} the run leaves: the learning rate ${
        format(lr)
      } is past the edge of stability.`,
    summary:
      `With ${format(100 * share)}% in-context sequences, at step ${
        format(cursor)
      }: training loss ${format(loss[row])} ` +
      `(floor ${format(least)}), in-weight test error ${
        format(inWeight[row])
      }, in-context test error ${format(inContext[row])}. ` +
      `The in-weight error ${falls(inWeight)}, the in-context error ${falls(inContext)}.`,
    panels: [
      {
        title: "Loss and test errors",
        x,
        cursor,
        y: { label: "mean squared error", min: 0, max: share === 0 ? 2.6 : 1.4 },
        levels: [{ y: least, name: "floor" }],
        series: [
          { name: "training", color: "ink", x: step, y: loss },
          { name: "in-weight", color: 1, x: step, y: inWeight },
          { name: "in-context", color: 0, x: step, y: inContext },
        ],
      },
      {
        title: "Lowest reachable error, by share; drag the line",
        cursor: share,
        moves: "share",
        x: { label: "share in context", min: 0, max: 1 },
        y: { label: "training error", min: 0, max: 1.4 * Math.max(...leasts, 0.1) },
        series: [
          { name: "floor", color: "theory", x: SHARES, y: leasts },
          {
            name: "this run's end",
            label: "this run",
            color: "ink",
            dots: 6,
            x: [share],
            y: [loss.at(-1)],
          },
        ],
      },
      {
        title: "Which head reads what",
        x: { label: "reads" },
        y: { label: "head" },
        heat: {
          rows: own.map((_, h) => h + 1),
          columns: ["labels", "inputs"],
          values: own.flat(),
          max: Math.max(1e-9, ...ends.flat()),
        },
      },
      {
        title: "What the predictor reads",
        x,
        cursor,
        y: { label: "size of its coefficients", min: 0, max: top },
        series: [
          { name: "labels", color: 0, x: step, y: split.map(([each]) => each) },
          { name: "inputs", color: 1, x: step, y: split.map(([, each]) => each) },
        ],
      },
    ],
  };
}

export const render = explorer({ name: "in_weight", compute, show, effort, data });
