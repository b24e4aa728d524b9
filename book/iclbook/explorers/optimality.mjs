// @ts-check
// One head on three unequal tasks: where it attends, which task it gives up, and what other methods lose.

import { count, format } from "./ui/format.mjs";
import { multiTask, oneHead } from "./maths/multihead.mjs";
import { bayes, bound, ownHead, ridge } from "./maths/risks.mjs";
import { explorer } from "./ui/explorer.mjs";

/** @import { Drawing } from "./types.d.ts" */

const OWN = [0, 1, 2], SIGNALS = [0.05, 50], CONTEXTS = [10, 1000];
const range = (/** @type {number[]} */ [from, to], count) =>
  Array.from({ length: count + 1 }, (_, i) => from * (to / from) ** (i / count));
const total = (losses) => losses.reduce((a, b) => a + b, 0);

export function setting({ d1, d2, d3, s1, s2, s3, noise, context }) {
  return multiTask([d1, d2, d3], context, { signal: [s1, s2, s3], noise });
}

// The loss of each task by each method.
export function methods(task, { heads, penalty, noise }) {
  const each = (rule) => task.dims.map((d, i) => rule(d / task.context, task.signal[i]));
  return {
    "one head": oneHead(task, OWN).map(({ loss }) => loss),
    "a head each": ownHead(task),
    bound: bound(task, heads),
    ridge: each((ratio, signal) => ridge(ratio, penalty * ratio, signal, noise)),
    Bayes: each((ratio, signal) => bayes(ratio, signal, noise)),
  };
}

export function compute(state) {
  const signals = range(SIGNALS, 120), contexts = range(CONTEXTS, 80);
  const shares = signals.map((s3) =>
    oneHead(setting({ ...state, s3 }), OWN).map(({ m }) => Math.E * m)
  );
  const losses = contexts.map((context) => methods(setting({ ...state, context }), state));
  const task = setting(state);
  return {
    signals,
    shares,
    contexts,
    losses,
    task,
    head: oneHead(task, OWN),
    now: methods(task, state),
  };
}

/** @returns {Drawing} */
export function show(
  { signals, shares, contexts, losses, task, head, now },
  { s3, heads, context },
) {
  const rows = OWN.map((i) => `task ${i + 1}`),
    names = Object.keys(now),
    power = total(task.signal);
  const lost = head.flatMap(({ m }, i) => (m === 0 ? [i + 1] : []));
  const looks = head.map(({ m }) => format(Number((Math.E * m).toPrecision(3)))),
    adds = head.map(({ mu }) => format(Number(mu.toPrecision(3))));
  const said = names.map((name) => `${name} ${format(total(now[name]))}`).join(", ");
  const tones = /** @type {const} */ ([0, 1, 2, 3, "theory"]);
  const [own, least] = [total(now["one head"]), total(now.Bayes)],
    three = (value) => Number(value.toPrecision(3));
  return {
    ends: [{ name: "loss of one head", value: own }, { name: "of Bayes", value: least }, {
      name: "one head / Bayes",
      value: own / least,
    }, { name: "one head − Bayes", value: own - least }],
    summary:
      `One head spends ${looks.join(", ")} of its attention on the three tasks, with μ ${
        adds.join(", ")
      }: ` +
      `${
        lost.length ? `it gives up task ${lost.join(" and ")}` : "it keeps all three"
      }. Losses at ${count(context, "example")}: ${said}; the bound is that of ` +
      `${count(heads, "head")}. One head loses ${format(three(own - least))} more than Bayes${
        least > 0 ? `, ${format(three(own / least))} times as much` : ""
      }.`,
    panels: [
      {
        title: "Loss of all tasks, as the context grows",
        cursor: context,
        moves: "context",
        x: { label: "context L", min: CONTEXTS[0], max: CONTEXTS[1], log: true },
        y: { label: "loss", min: 0, max: 1.2 * power },
        series: names.map((name, i) => ({
          name,
          color: tones[i],
          dashed: name === "Bayes",
          x: contexts,
          y: losses.map((each) => total(each[name])),
        })),
      },
      {
        title: "Where one head looks, by the third task's signal",
        cursor: s3,
        moves: "s3",
        x: { label: "signal of task 3", min: SIGNALS[0], max: SIGNALS[1], log: true },
        y: { label: "share dω²", min: 0, max: 1.05 },
        series: OWN.map((i) => ({
          name: rows[i],
          color: i,
          x: signals,
          y: shares.map((each) => each[i]),
        })),
      },
      {
        title: "The best single head",
        x: { label: "its numbers" },
        y: { label: "" },
        heat: {
          rows,
          columns: ["dω²", "ω", "μω"],
          max: 1,
          values: head.flatMap(({ m, omega, mu }) => [Math.E * m, omega, mu * omega]),
        },
      },
      {
        title: "Loss of each task, in units of its signal",
        x: { label: "method" },
        y: { label: "" },
        heat: {
          rows,
          columns: names.map((name) => name.replace("a head ", "").split(" ")[0]),
          max: 1,
          values: OWN.flatMap((i) => names.map((name) => now[name][i] / task.signal[i])),
        },
      },
    ],
  };
}

export const render = explorer({ name: "optimality", compute, show });
