// @ts-check
// What a training run costs, sequence by sequence and on its moments.

import { count, format, superscript } from "./ui/format.mjs";
import { explorer } from "./ui/explorer.mjs";

/** @import { Drawing, Series } from "./types.d.ts" */

// Floating-point operations, two for a multiply-add. A naive step computes all rows of merged heads,
// forward and back to the weights. Scores and values take T²E each, products with weights TE² each; since
// the data need no gradient, these are five and four. On moments: S and the gram once, gram·c each step.
export function naive({ sequences, context, dim, heads, steps }) {
  const tokens = context + 1, size = dim + 1;
  return steps * sequences * heads * 2 * (5 * tokens ** 2 * size + 4 * tokens * size ** 2);
}
export function moments({ sequences, context, dim, heads, steps }) {
  const size = dim + 1, features = (dim * size * (size + 1)) / 2;
  const once = sequences * (2 * (context + 1) * size ** 2 + 2 * features ** 2);
  return once + steps * (2 * features ** 2 + 6 * heads * dim * size ** 2);
}

/** @type {[number, string][]} */
const UNITS = [
  [365.25 * 86400, "years"],
  [86400, "days"],
  [3600, "hours"],
  [60, "minutes"],
  [1, "seconds"],
  [1e-3, "ms"],
  [0, "µs"],
];
export function duration(seconds) {
  const [unit, name] = UNITS.find(([each]) => seconds >= each);
  return `${format(Number((seconds / (unit || 1e-6)).toPrecision(2)))} ${name}`;
}

const range = (from, to, count) =>
  Array.from({ length: count + 1 }, (_, i) => from * (to / from) ** (i / count));

export function compute(state) {
  const seconds = (cost, change) => cost({ ...state, ...change }) / (state.rate * 1e9);
  const sweep = (key, values) =>
    [naive, moments].map((cost) => values.map((each) => seconds(cost, { [key]: each })));
  const sequences = range(100, 1e6, 60), dims = Array.from({ length: 15 }, (_, i) => i + 2);
  return {
    sequences,
    bySequences: sweep("sequences", sequences),
    dims,
    byDims: sweep("dim", dims),
    now: [seconds(naive, {}), seconds(moments, {})],
  };
}

/** @returns {Drawing} */
export function show({ sequences, bySequences, dims, byDims, now }, state) {
  const all = [...bySequences, ...byDims].flat();
  const y = { label: "seconds", log: true, min: Math.min(...all) / 2, max: 2 * Math.max(...all) };
  /** @returns {Series[]} */
  const pair = (x, [slow, fast], at) => [
    { name: "naive", color: 1, x, y: slow },
    { name: "moments", color: 0, x, y: fast },
    ...now.map((each, i) => ({
      name: `${["naive", "moments"][i]}, here`,
      label: false,
      dots: 5,
      color: [1, 0][i],
      x: [at],
      y: [each],
    })),
  ];
  const ratio = now[0] / now[1], power = Math.floor(Math.log10(ratio));
  const less = power > 5 ? `about 10${superscript(power)}` : format(Number(ratio.toPrecision(2)));
  return {
    summary:
      `${format(state.steps)} steps on ${format(state.sequences)} sequences of ${
        count(state.context, "example")
      } in ${state.dim} dimensions: ` +
      `${duration(now[0])} sequence by sequence, ${
        duration(now[1])
      } on the moments, ${less} times less.`,
    panels: [
      {
        title: "Predicted time against sequences",
        x: { label: "sequences P", min: 100, max: 1e6, log: true },
        y,
        cursor: state.sequences,
        moves: "sequences",
        series: pair(sequences, bySequences, state.sequences),
      },
      {
        title: "Predicted time against dimension",
        x: { label: "dimension D", min: 2, max: 16, whole: true },
        y,
        cursor: state.dim,
        moves: "dim",
        series: pair(dims, byDims, state.dim),
      },
    ],
  };
}

export const render = explorer({ name: "speed", compute, show });
