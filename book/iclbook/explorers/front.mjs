// @ts-check
// The book in one picture: the loss of merged and of separate key and query on one axis of time.
//
// The axis is logarithmic, since one loss waits for log(1/init) and the other for 1/init. The runs are
// recorded so that their points are equally dense everywhere on it.

import { format, subscript } from "./ui/format.mjs";
import { descend, start } from "./maths/engine.mjs";
import { explorer } from "./ui/explorer.mjs";
import { plateaus, population } from "./maths/theory.mjs";

/** @import { Drawing } from "./types.d.ts" */

export const EIGENVALUES = [0.4, 0.3, 0.2, 0.1];
export const CONTEXT = 31;
const HEADS = 4, SEED = 1, FROM = 1, UNTIL = 1e5, ROWS = 240, SETTLED = 1e-6;
// learning rates below the edges of stability, .158 and .407
const RATES = { merged: 0.1, separate: 0.4 };

// One run until its loss rests. Its stretches grow with the time that has passed.
export function course(problem, kind, init) {
  const model = { kind, dim: EIGENVALUES.length, heads: HEADS, rank: 1, init, seed: SEED };
  const weights = start(model), lr = RATES[kind];
  const end = plateaus(problem).at(-1), step = [], loss = [];
  for (
    let done = 0, ahead = 16;
    done * lr < UNTIL;
    done += ahead, ahead = Math.max(16, Math.floor(0.25 * done))
  ) {
    const run = descend(problem, weights, { steps: ahead, lr, points: 16 });
    for (let i = 0; i < run.rows - 1; i++) { // the last point is the first of the next stretch
      step.push(done + run.step[i]);
      loss.push(run.loss[i]);
    }
    if (loss.at(-1) - end < SETTLED) break;
  }
  return { kind, lr, step, time: step.map((each) => lr * each), loss };
}

// The times at which the loss falls through the middle of each two levels, between recorded steps.
function drops({ time, loss }, levels) {
  return levels.slice(1).map((level, m) => {
    const half = (level + levels[m]) / 2, i = loss.findIndex((each) => each <= half);
    return i < 1
      ? null
      : time[i - 1] + ((loss[i - 1] - half) / (loss[i - 1] - loss[i])) * (time[i] - time[i - 1]);
  });
}

export function compute({ init }) {
  const problem = population(EIGENVALUES, CONTEXT), levels = plateaus(problem);
  const runs = Object.keys(RATES).map((kind) => course(problem, kind, init));
  const step = Float64Array.from(
    { length: ROWS },
    (_, i) => FROM * (UNTIL / FROM) ** (i / (ROWS - 1)),
  );
  const [merged] = runs.map((run) => drops(run, [levels[0], levels.at(-1)])),
    stairs = drops(runs[1], levels);
  return { levels, runs, step, unit: "time", merged: merged[0], stairs };
}

// A loss up to a time, and after it. After its last point it stays where it is.
function parts({ time, loss }, now) {
  const last = loss.at(-1), x = [...time, UNTIL], y = [...loss, last];
  let i = x.findIndex((each) => each > now);
  if (i < 0) i = x.length;
  if (i === 0 || i === x.length) {
    return [{ x: x.slice(0, i), y: y.slice(0, i) }, { x: x.slice(i), y: y.slice(i) }];
  }
  const here = y[i - 1] + ((now - x[i - 1]) / (x[i] - x[i - 1])) * (y[i] - y[i - 1]);
  return [{ x: [...x.slice(0, i), now], y: [...y.slice(0, i), here] }, {
    x: [now, ...x.slice(i)],
    y: [here, ...y.slice(i)],
  }];
}

/** @returns {Drawing} */
export function show({ levels, runs, step, merged, stairs }, { init, at }, row) {
  const now = at >= 1 ? UNTIL : step[row];
  const rounded = (each) => format(Number(each.toPrecision(2)));
  const series = runs.flatMap((run, i) => {
    const [past, future] = parts(run, now), color = [1, 0][i];
    return [
      { name: `${run.kind}, to come`, label: false, color: "quiet", ...future },
      { name: run.kind, label: false, color, ...past },
    ];
  });
  const here = (/** @type {{ y: number[] }[]} */ [{ y }]) =>
    format(Number(y.at(-1).toPrecision(3)));
  const [first, second] = runs.map((run) => here(parts(run, now)));
  return {
    ends: [{ name: "merged, half done at time", value: rounded(merged) }, {
      name: "separate, at times",
      value: stairs.map((each) => (each === null ? "–" : rounded(each))).join(", "),
    }],
    summary:
      `From initial weights of ${
        format(init)
      }, merged key and query make one drop, half done at time ${rounded(merged)}. ` +
      `Separate ones learn an eigenvector with each stair, half done at times ${
        stairs.filter((each) => each !== null).map(rounded).join(", ")
      }. ` +
      `At time ${rounded(now)} the losses are ${first} and ${second}.`,
    panels: [{
      title: "Loss: key and query merged (orange), separate (blue)",
      wide: true,
      x: { label: "time, learning rate × steps", min: FROM, max: UNTIL, log: true },
      cursor: at >= 1 ? null : now,
      y: { label: "mean squared error", min: 0, max: 1.06 * levels[0] },
      levels: levels.map((y, m) => ({ y, name: `L(M${subscript(m)})` })),
      series,
    }],
  };
}

export const render = explorer({ name: "front", compute, show });
