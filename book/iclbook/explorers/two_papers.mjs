// @ts-check
// From linear attention to softmax: weights (1 − s)·linear + s·softmax, by the gradient flow of many heads.

import { format } from "./ui/format.mjs";
import { flow, multiTask } from "./maths/multihead.mjs";
import { explorer } from "./ui/explorer.mjs";
import { sum } from "./maths/theory.mjs";

/** @import { Drawing } from "./types.d.ts" */

const TIMES = 160, SHARES = Array.from({ length: 51 }, (_, i) => i / 50);

const setting = ({ tasks, dim, context, share }) =>
  multiTask(Array(tasks).fill(dim), context, {
    signal: Array.from({ length: tasks }, (_, i) => 2 ** (tasks - i)),
    soft: share * share,
  });

// The loss at which each task ends with a head of its own, s ρ/(1+ρ). The least of B/x is at x = dω² = 1.
export const ends = ({ dims, signal, phi, context, soft }) =>
  dims.map((d, i) => {
    const noise = d * phi[i] * (1 - soft + soft * Math.E) + 1 - soft;
    return (signal[i] * noise) / (context + noise);
  });

// The strongest signal, 2^tasks, decides how small the steps of the flow are.
export const effort = ({ tasks, horizon }) => 150 * horizon * 2 ** tasks * tasks ** 3;

export function compute(state) {
  const { tasks, init, horizon } = state, task = setting(state), size = tasks * tasks;
  const mu = Float64Array.from({ length: size }, (_, i) => (i % (tasks + 1) ? 5 : 10) * init);
  const time = Array.from({ length: TIMES + 1 }, (_, i) => (i / TIMES) * horizon);
  const path = flow(task, tasks, new Float64Array(size).fill(init), mu, time),
    rows = path.omega.length;
  const own = path.omega.map((each) => task.dims.map((_, i) => each[i * (tasks + 1)]));
  const done = path.omega.map((each, row) =>
    task.dims.map((_, i) =>
      sum(task.dims.map((_, h) => each[h * tasks + i] * path.mu[row][h * tasks + i]))
    )
  );
  const least = ends(task), level = [sum(task.signal)];
  least.forEach((each, i) => level.push(level[i] - task.signal[i] + each));
  // when half of each task is done
  const times = least.map((each, i) => {
    const half = (1 - each / task.signal[i]) / 2, row = done.findIndex((all) => all[i] > half);
    return row < 1 ? null : time[row - 1] +
      ((half - done[row - 1][i]) / (done[row][i] - done[row - 1][i])) *
        (time[row] - time[row - 1]);
  });
  return {
    task,
    step: time.slice(0, rows),
    unit: "time",
    losses: path.loss.map(sum),
    own,
    done,
    level,
    times,
    byShare: SHARES.map((share) => sum(ends({ ...task, soft: share * share }))),
  };
}

/** @returns {Drawing} */
export function show(
  { task, step, losses, own, done, level, times, byShare },
  { share, dim, horizon },
  row,
) {
  const x = { label: "time (sum of learning rates)", min: 0, max: horizon }, cursor = step[row];
  const lines = (rows) =>
    task.dims.map((_, i) => ({
      name: `task ${i + 1}`,
      color: i,
      x: step,
      y: rows.map((each) => each[i]),
    }));
  const reach = 1.1 * Math.max(dim ** -0.5, ...own.map((each) => Math.max(...each)));
  const sharp = Array.from({ length: 41 }, (_, i) => (i / 40) * 2),
    now = own[row].map((each) => dim * each * each);
  const mixed = (each) => (1 - share * share) * each + share * share * Math.exp(each);
  const said = times.flatMap((each, i) =>
    each === null ? [] : [`task ${i + 1} at ${format(Number(each.toFixed(1)))}`]
  );
  return {
    summary:
      `${
        share === 0
          ? "Linear attention"
          : share === 1
          ? "Softmax"
          : `Weights with a share of ${
            format(share)
          } softmax; noise is a product of two weights, so ${
            format(Number((share * share).toPrecision(3)))
          } of it is softmax's`
      }: ` +
      `${said.length ? `half done ${said.join(", ")}` : "no task is half done by then"}. At time ${
        format(Number(cursor.toFixed(1)))
      } the loss is ${format(losses[row])}; ` +
      `with a head each it ends at ${format(level.at(-1))}, between ${
        format(byShare[0])
      } for linear attention and ${format(byShare.at(-1))} for softmax.`,
    panels: [
      {
        title: "Loss of all tasks",
        x,
        cursor,
        y: { label: "loss", min: 0, max: 1.06 * losses[0] },
        levels: level.map((y, m) => ({ y, name: `${m} learned` })),
        series: [{ name: "loss", label: false, color: "ink", x: step, y: losses }],
      },
      {
        title: "Where it ends, by share; drag it",
        cursor: share,
        moves: "share",
        x: { label: "share of softmax r", min: 0, max: 1 },
        y: { label: "loss at the end", min: 0, max: 1.2 * byShare.at(-1) },
        series: [{ name: "end", color: "theory", x: SHARES, y: byShare }],
      },
      {
        title: "ω of each task's head",
        x,
        cursor,
        y: { label: "ω", min: 0, max: reach },
        levels: share ? [{ y: dim ** -0.5, name: "1/√d" }] : [],
        series: lines(own),
      },
      {
        title: "How much of each task is done",
        x,
        cursor,
        y: { label: "Σ μω", min: 0, max: 1.1 },
        levels: [{ y: 1, name: "all" }],
        series: lines(done),
      },
      {
        title: "Noise B of a head of sharpness x; dots: the heads",
        x: { label: "x = dω²", min: 0, max: 2 },
        y: { label: "B", min: 0, max: 7.5 },
        series: [
          { name: "linear", color: "theory", dashed: true, x: sharp, y: sharp },
          { name: "softmax", color: "theory", dashed: true, x: sharp, y: sharp.map(Math.exp) },
          { name: "this", color: "ink", x: sharp, y: sharp.map(mixed) },
          ...now.map((each, i) => ({
            name: `task ${i + 1}`,
            label: false,
            color: i,
            dots: 5,
            x: [each],
            y: [mixed(each)],
          })),
        ],
      },
    ],
  };
}

export const render = explorer({ name: "two_papers", compute, show, effort });
