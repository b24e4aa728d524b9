// @ts-check
// One model is trained on contexts of one length and one on all lengths up to it. Both are tested on others.

import { count, format } from "./ui/format.mjs";
import { descend, start } from "./maths/engine.mjs";
import { passes } from "./ui/panels.mjs";
import { explorer } from "./ui/explorer.mjs";
import { plateaus, population, stableRate } from "./maths/theory.mjs";

/** @import { Drawing } from "./types.d.ts" */

const LONGEST = 100;

// The loss if the sum over the context is divided by a fixed number, whatever the length.
function summed(eigenvalues, context, everyLength, fixed) {
  const problem = population(eigenvalues, context, { divisor: "one", everyLength });
  const by = (array, power) => array.map((each) => each / fixed ** power);
  return { ...problem, a: by(problem.a, 1), b: by(problem.b, 2), stiff: by(problem.stiff, 2) };
}
const problemOf = (isSum, eigenvalues, context, everyLength, fixed) =>
  isSum
    ? summed(eigenvalues, context, everyLength, fixed)
    : population(eigenvalues, context, { everyLength });

export function lossAt({ trace, a, stiff }, m) {
  let loss = trace;
  for (let i = 0; i < m.length; i++) loss += stiff[i] * m[i] * m[i];
  for (let d = 0; d < a.length; d++) loss -= 2 * a[d] * m[d * a.length + d];
  return loss;
}

export const effort = ({ eigenvalues, heads, steps }) =>
  8 * steps * heads * eigenvalues.length ** 2;

export function compute({ eigenvalues, context, pooling, heads, init, seed, lr, steps }) {
  const isSum = pooling === "sum", dim = eigenvalues.length;
  const model = { kind: "merged", dim, heads, init, seed };
  const problems = [false, true].map((every) =>
    problemOf(isSum, eigenvalues, context, every, context)
  );
  const runs = problems.map((problem) =>
    descend(problem, start(model), { steps, lr, points: 200 })
  );
  const lengths = Array.from({ length: LONGEST }, (_, n) => n + 1);
  const tests = lengths.map((n) => problemOf(isSum, eigenvalues, n, false, context));
  // the rate at which the first of the two runs leaves
  const edge = { lr: Math.min(...problems.map((problem) => stableRate(problem, model))) };
  return {
    runs,
    edge,
    step: runs[0].step,
    lengths,
    tests,
    best: lengths.map((n) => plateaus(population(eigenvalues, n)).at(-1)),
  };
}

/** @returns {Drawing} */
export function show(
  { runs, edge, lengths, tests, best },
  { eigenvalues, context, test, lr, steps },
  row,
) {
  const size = eigenvalues.length ** 2, names = ["one length", "every length"];
  const at = (run, r) =>
    run.m.subarray(Math.min(r, run.rows - 1) * size, (Math.min(r, run.rows - 1) + 1) * size);
  const curves = runs.map((run, i) => ({
    name: names[i],
    color: i,
    x: lengths,
    y: tests.map((each) => lossAt(each, at(run, row))),
  }));
  const courses = runs.map((run, i) => ({
    name: names[i],
    color: i,
    x: run.step,
    y: Array.from(run.step, (_, r) => lossAt(tests[test - 1], at(run, r))),
  }));
  const [one, every] = curves.map(({ y }) => y[test - 1]), top = 1.5 * best[0];
  // when the error has done half of its fall
  const half = courses.map(({ x, y }) =>
    passes({ step: x }, y.map((each) => -each), -(y[0] + y.at(-1)) / 2)
  )
    .map((each) => (each === null ? "no step" : `step ${format(Math.round(each))}`));
  const left = runs.find((run) => run.left !== null);
  return {
    note: left
      ? `At step ${format(left.left)} a run leaves: its learning rate ${
        format(lr)
      } is past the edge of stability; where training would end, no rate above ${
        format(edge.lr)
      } can stay.`
      : "",
    summary:
      `At step ${format(runs[0].step[row])}, tested on ${
        count(test, "example")
      }: trained on ${context} the error is ${format(one)}, ` +
      `trained on ${context > 1 ? `1 to ${context}` : "1"} it is ${
        format(every)
      }; the best for that length is ${format(best[test - 1])}. ` +
      `Half of the way down is at ${half[0]} and ${half[1]}.`,
    panels: [
      {
        title: "Error on contexts of other lengths",
        cursor: test,
        moves: "test",
        x: { label: "examples in the test context", min: 1, max: LONGEST },
        y: { label: "mean squared error", min: 0, max: top },
        marks: [{ x: context, name: "trained" }],
        series: [...curves, { name: "best", color: "theory", dashed: true, x: lengths, y: best }],
      },
      {
        title: `Error on ${count(test, "example")}, while training`,
        cursor: runs[0].step[row],
        x: { label: "step", min: 0, max: steps },
        y: { label: "mean squared error", min: 0, max: top },
        levels: [{ y: best[test - 1], name: "best" }],
        series: courses,
      },
    ],
  };
}

export const render = explorer({ name: "context_length", compute, show, effort });
