// @ts-check
// Multi-head softmax on several tasks: how the heads divide the tasks, by the ODE of the gradient flow.

import { format } from "./ui/format.mjs";
import { triples, withPoint } from "./ui/values.mjs";
import { normals } from "./maths/engine.mjs";
import { flow, multiTask, oneHead } from "./maths/multihead.mjs";
import { explorer } from "./ui/explorer.mjs";

/** @import { Colour, Drawing, Panel, Series } from "./types.d.ts" */

const TIMES = 120, MOST = 5; // recorded times, and the most heads and tasks
const OMEGA = { label: "ω", min: 0.002, max: 1, log: true };
const MU = { label: "μ", min: 0.005, max: 10, log: true }; // what decays further leaves the picture

// A start where head i leans to task i: its μ there is 1 + lean times as large. Each number is multiplied by a
// random one.
export function begin({ heads, tasks, spread, lean, seed, moved: byHand = [] }) {
  const size = heads * tasks, draws = normals(seed, 2 * size);
  const omega = new Float64Array(size), mu = new Float64Array(size);
  for (let i = 0; i < size; i++) {
    const own = Math.floor(i / tasks) === i % tasks;
    omega[i] = 0.01 * Math.exp((spread / 2) * draws[i]);
    mu[i] = 0.05 * (own ? 1 + lean : 1) * Math.exp((spread / 2) * draws[size + i]);
  }
  for (const [point, x, y] of there({ heads, tasks, moved: byHand })) {
    const at = (Math.floor(point / 10) - 1) * tasks + (point % 10) - 1;
    [omega[at], mu[at]] = [x, y];
  }
  return [omega, mu];
}

// The starts that were moved by hand, of the heads and tasks there are. Point 10 h + i is head h on task i.
const there = ({ heads, tasks, moved: byHand }) =>
  triples(byHand)
    .filter(([point]) =>
      point > 10 && point < 10 * (heads + 1) && point % 10 > 0 && point % 10 <= tasks
    );
export const fits = (state) => ({ moved: there(state).flat() });

const pair = (h, i) => `head ${h + 1}, task ${i + 1}`,
  tagsOf = (h, i) => [pair(h, i), `head ${h + 1}`, `task ${i + 1}`];

// The path of each head in the plane of ω and μ, a curve for each task. Its start is a handle.
/** @returns {Panel} */
function plane(path, owner, { heads, tasks, moved: byHand }, row) {
  const ways = Array.from({ length: heads * tasks }, (_, i) => {
    const h = Math.floor(i / tasks),
      task = i % tasks,
      own = owner[task] === h,
      column = (rows) => rows.map((each) => each[i]);
    return {
      tags: tagsOf(h, task),
      name: pair(h, task),
      own,
      color: /** @type {Colour} */ (own ? task : "quiet"),
      code: 10 * (h + 1) + task + 1,
      x: column(path.omega),
      y: column(path.mu),
    };
  });
  return {
    title: "From start to end; drag a start",
    plane: true,
    x: OMEGA,
    y: MU,
    series: [
      ...ways.map((each) => ({ ...each, label: false })).sort((a, b) =>
        Number(a.own) - Number(b.own)
      ),
      {
        name: "now",
        label: false,
        color: "ink",
        ring: true,
        dots: 4.5,
        x: ways.map(({ x }) => x[row]),
        y: ways.map(({ y }) => y[row]),
      },
    ],
    handles: ways.map(({ name, tags, color, code, x, y }) => ({
      name: `start of ${name}`,
      tags,
      color,
      x: x[0],
      y: y[0],
      to: (omega, mu) => ({ moved: withPoint(byHand, code, omega, mu) }),
    })),
  };
}

const total = (losses) => losses.reduce((a, b) => a + b, 0);

// A rough estimate: an interval takes some tens of slopes, and more if it is longer.
export const effort = ({ heads, tasks, horizon }) => 1e4 * horizon * heads * heads * tasks;

export function compute(state) {
  const { heads, tasks, dim, context, noise, horizon } = state;
  const task = multiTask(Array(tasks).fill(dim), context, { noise });
  const time = Array.from({ length: TIMES + 1 }, (_, i) => (i / TIMES) * horizon);
  const path = flow(task, heads, ...begin(state), time);
  const last = path.omega.length - 1, losses = path.loss.map(total);
  // the head that does most of each task, and where these heads end if they do nothing else
  const done = task.dims.map((_, i) =>
    Array.from(
      { length: heads },
      (_, h) => path.omega[last][h * tasks + i] * path.mu[last][h * tasks + i],
    )
  );
  const owner = done.map((each) => each.indexOf(Math.max(...each)));
  const ends = [...new Set(owner)].flatMap((head) =>
    oneHead(task, owner.flatMap((each, i) => (each === head ? [i] : [])))
  );
  const limit = ends.reduce((sum, each) => sum + each.loss, 0);
  // Which heads finish each task: by the end Σ_h μω is above half of its limit, which is 0 for a task that
  // is given up.
  const goal = new Map(ends.map((each) => [each.task, each.omega * each.mu]));
  const isDone = (each, i) => goal.get(i) > 0 && total(each) >= goal.get(i) / 2;
  const finished = done.map((each, i) =>
    isDone(each, i) ? each.flatMap((share, h) => share >= each[owner[i]] / 2 ? [h + 1] : []) : []
  );
  const crossing = (share) => {
    const level = losses[0] + share * (limit - losses[0]),
      row = losses.findIndex((each) => each < level);
    return row < 1 ? null : time[row - 1] +
      ((losses[row - 1] - level) / (losses[row - 1] - losses[row])) * (time[row] - time[row - 1]);
  };
  return {
    step: time.slice(0, last + 1),
    unit: "time",
    path,
    losses,
    owner,
    ends,
    finished,
    limit,
    phases: [crossing(0.05), crossing(0.95)],
  };
}

// Which heads do each task at the end of the run. Only tasks that are done are named.
function account(finished, horizon) {
  const said = finished.flatMap((by, i) =>
    by.length ? [`task ${i + 1} by head${by.length > 1 ? "s" : ""} ${by.join(" and ")}`] : []
  );
  return `By time ${format(horizon)}, ${said.length} of ${finished.length} ${
    finished.length > 1 ? "tasks" : "task"
  } ` +
    `${said.length === 1 ? "is" : "are"} done (Σ μω past half of its limit)${
      said.length ? `: ${said.join(", ")}` : ""
    }.`;
}

/** @returns {Drawing} */
export function show({ step, path, losses, owner, ends, finished, limit, phases }, state, row) {
  const { heads, tasks, horizon } = state;
  const x = { label: "time (sum of learning rates)", min: 0, max: horizon }, cursor = step[row];
  const names = ["emergence", "convergence"];
  const marks = phases.flatMap((at, i) => at === null ? [] : [{ x: at, name: names[i] }]);
  /** @returns {Series[]} */
  const lines = (rows, name) =>
    Array.from({ length: heads * tasks }, (_, i) => {
      const head = Math.floor(i / tasks), task = i % tasks, own = owner[task] === head;
      return {
        tags: tagsOf(head, task),
        name: `${name} ${pair(head, task)}`,
        label: own ? `task ${task + 1}, head ${head + 1}` : false,
        color: /** @type {Colour} */ (own ? task : "quiet"),
        x: step,
        y: rows.map((each) => each[i]),
      };
    }).sort((a, b) => (a.color === "quiet" ? -1 : 1) - (b.color === "quiet" ? -1 : 1));
  /** @returns {Panel["levels"]} */
  const levels = (key) =>
    [...new Set(ends.map((each) => each[key].toFixed(9)))].map((each) => ({
      y: Number(each),
      name: `limit of ${{ mu: "μ", omega: "ω", loss: "a loss" }[key]}`,
      label: false,
    }));
  const peak = (rows) => 1.1 * Math.max(...rows.map((each) => Math.max(...each)));
  const share = path.omega[row].map((each, i) => each * path.mu[row][i]);
  const all = finished.every((by) => by.length), tied = finished.some((by) => by.length > 1);
  return {
    summary:
      `At time ${format(Number(cursor.toFixed(2)))} the loss is ${format(losses[row])}. ${
        account(finished, horizon)
      } ` +
      `The limit of the loss is ${format(limit)} by formula${
        all ? "" : ", if the heads that lead now win the rest"
      }${tied ? ", if one head wins each task" : ""}.` +
      (phases[0] === null ? "" : ` Warm-up ends at ${format(Number(phases[0].toFixed(2)))}.`),
    which: {
      moved: there(state).map(([point]) => pair(Math.floor(point / 10) - 1, (point % 10) - 1)).join(
        "; ",
      ),
    },
    panels: [
      {
        title: "Loss, all tasks together",
        x,
        cursor,
        marks,
        y: { label: "loss", min: 0, max: 1.06 * losses[0] },
        levels: [{ y: limit, name: "limit" }],
        series: [{ name: "loss", label: false, color: "ink", x: step, y: losses }],
      },
      plane(path, owner, state, row),
      {
        title: "Loss of each task",
        x,
        cursor,
        y: { label: "loss", min: 0, max: 1.06 * Math.max(...path.loss[0]) },
        levels: levels("loss"),
        series: owner.map((_, i) => ({
          name: `task ${i + 1}`,
          color: i,
          x: step,
          y: path.loss.map((each) => each[i]),
        })),
      },
      {
        title: "Who does what: μω",
        x: { label: "task" },
        y: { label: "head" },
        heat: {
          rows: Array.from({ length: heads }, (_, h) => h + 1),
          columns: owner.map((_, i) => i + 1),
          values: share,
          max: 1,
        },
      },
      {
        title: "ω: how sharply a head attends",
        x,
        cursor,
        y: { label: "ω", min: 0, max: peak(path.omega) },
        levels: levels("omega"),
        series: lines(path.omega, "ω"),
      },
      {
        title: "μ: how much it adds",
        x,
        cursor,
        y: { label: "μ", min: 0, max: peak(path.mu) },
        levels: levels("mu"),
        series: lines(path.mu, "μ"),
      },
    ],
  };
}

const points = { min: [11, OMEGA.min, MU.min], max: [11 * MOST, OMEGA.max, MU.max] };
export const render = explorer({ name: "task_allocation", compute, show, fits, effort, points });
