// @ts-check
// A trained head on other lengths, at other sharpness, on other targets.

import { format } from "./ui/format.mjs";
import { atLength, participation } from "./maths/risks.mjs";
import { explorer } from "./ui/explorer.mjs";

/** @import { Drawing } from "./types.d.ts" */

const LENGTHS = [10, 10_000], TRAINED = [10, 1000], SHARPEST = 8, DEGREES = [0, 1, 2, 3, 4, 5];
const range = (/** @type {number[]} */ [from, to], count) =>
  Array.from({ length: count + 1 }, (_, i) => from * (to / from) ** (i / count));
const sum = (/** @type {number[]} */ [bias, variance]) => bias + variance;
const betas = Array.from({ length: 33 }, (_, n) => (n * SHARPEST) / 32);

// E|p|² over β depends on L alone, and takes most of the time.
const known = new Map();
function concentration(context) {
  if (!known.has(context)) known.set(context, betas.map((beta) => participation(beta, context)));
  return known.get(context);
}

export function compute(state) {
  const { dim, context, noise, test, beta } = state;
  const lengths = range(LENGTHS, 90), trained = range(TRAINED, 60), omega = dim ** -0.5;
  const mu = omega / (omega ** 2 + (Math.E * (1 + noise)) / context);
  return {
    lengths,
    trained,
    omega,
    mu,
    here: atLength(state, test),
    power: participation(beta, context),
    exact: concentration(context),
    parts: lengths.map((each) => atLength(state, each)),
    best: lengths.map((each) => sum(atLength({ ...state, context: each }, each))),
    byTrained: trained.map((each) => atLength({ ...state, context: each }, test)),
  };
}

/** @returns {Drawing} */
export function show(
  { lengths, trained, omega, mu, here, power, exact, parts, best, byTrained },
  { dim, context, noise, test, beta },
) {
  const edge = Math.sqrt(Math.log(context) / 2),
    frozen = Math.sqrt(2 * Math.log(context)),
    few = 0.05 * SHARPEST;
  const y = { label: "loss / signal", min: 0, max: 1 },
    equal = context ** 2 / (Math.E * dim * (1 + noise));
  const three = (each) => format(Number(each.toPrecision(3)));
  const early = Array.from({ length: 41 }, (_, n) => (n / 40) * Math.sqrt(Math.log(1.1 * context)));
  const late = betas.filter((each) => each >= frozen), kept = DEGREES.map((k) => mu * omega ** k);
  const split = (them, x) =>
    ["loss", "bias", "variance"].map((name, i) => ({
      name,
      color: i,
      x,
      y: them.map((each) => [sum(each), ...each][i]),
    }));
  return {
    summary:
      `Trained on ${format(context)} and tested on ${format(test)} examples: bias ${
        three(here[0])
      }, variance ${three(here[1])}, loss ${three(sum(here))}; ` +
      `bias and variance are equal at ${format(Math.round(equal))}. At sharpness ${
        format(beta)
      } the squares of the weights sum to ${three(power)}, ` +
      `by e^β²/L to ${three(Math.exp(beta * beta) / context)}. A target's mean comes back ${
        three(kept[0])
      } times, its linear part ${three(kept[1])} times.`,
    panels: [
      {
        title: "Loss on contexts of other lengths",
        cursor: test,
        moves: "test",
        marks: [{ x: context, name: "trained" }],
        x: { label: "examples at test", min: LENGTHS[0], max: LENGTHS[1], log: true },
        y,
        series: [...split(parts, lengths), {
          name: "trained there",
          color: "theory",
          dashed: true,
          x: lengths,
          y: best,
        }],
      },
      {
        title: `Loss on ${format(test)} examples, by the length of training`,
        cursor: context,
        moves: "context",
        x: { label: "examples in training", min: TRAINED[0], max: TRAINED[1], log: true },
        y,
        series: split(byTrained, trained),
      },
      {
        title: "How concentrated softmax is",
        cursor: beta,
        moves: "beta",
        x: { label: "sharpness β of the scores", min: 0, max: SHARPEST },
        y: { label: "E |p|²", min: 0, max: 1 },
        marks: [{ x: 1, name: "limit of training" }, { x: edge, name: "β² = ½ ln L" }, {
          x: frozen,
          name: "β² = 2 ln L",
        }],
        series: [
          { name: "exact", color: 0, x: betas, y: exact },
          {
            name: "e^β²/L",
            color: "theory",
            dashed: true,
            x: early,
            y: early.map((each) => Math.exp(each * each) / context),
          },
          {
            name: "frozen",
            color: "theory",
            dashed: true,
            x: late,
            y: late.map((each) => 1 - frozen / each),
          },
        ],
      },
      {
        title: "How much of degree k comes back",
        x: { label: "Hermite degree k", min: -few, max: DEGREES.at(-1) + few },
        y: { label: "μωᵏ", min: 0, max: 1.1 * Math.max(1, kept[0]) },
        levels: [{ y: 1, name: "all" }],
        series: [{ name: "answered", label: false, color: 0, dots: 5, x: DEGREES, y: kept }],
      },
    ],
  };
}

export const render = explorer({ name: "beyond", compute, show });
