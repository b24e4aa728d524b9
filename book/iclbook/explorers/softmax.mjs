// Softmax attention trained live on sequences drawn in the page, with linear attention beside it.

import { format } from "./chart.mjs";
import { normals, random, start } from "./engine.mjs";
import { explorer } from "./shell.mjs";
import { plateaus, population, sum } from "./theory.mjs";
import { attentionPass, drawSequences, secondMoments, trainee, work } from "./training.mjs";

const NAMES = ["softmax", "linear"];

// A worker from the functions' own text: a page on disk may load no other file.
function worker() {
  const parts = [random, normals, start, drawSequences, secondMoments, attentionPass, trainee, work];
  const address = URL.createObjectURL(new Blob([parts.join("\n"), "\nwork();"], { type: "text/javascript" }));
  const made = new Worker(address);
  URL.revokeObjectURL(address);
  return made;
}

export function live(state, report) {
  const hand = worker();
  const rows = [], values = [];
  hand.onmessage = ({ data }) => {
    rows.push(...data.rows);
    values.push({ at: data.at, value: data.value });
    const { at, done, left } = data;
    report({ rows, values, at, done, left, clock: `step ${format(Math.min(at, state.steps))} of ${format(state.steps)}` });
  };
  hand.postMessage({ begin: { ...state } });
  report({ rows, values, at: 0, done: false, left: null, clock: `step 0 of ${format(state.steps)}` });
  return {
    stop: () => hand.terminate(),
    pause: (still) => hand.postMessage(still ? { pause: true } : {}),
    step: () => hand.postMessage({ step: true }),
  };
}

export function show({ rows, values, done, left, clock }, { eigenvalues, context, kind, heads, steps, lr }) {
  const x = { label: "step", min: 0, max: steps }, step = rows.map(([at]) => at), last = rows.at(-1) ?? [0, NaN, NaN];
  const levels = plateaus(population(eigenvalues, context)), top = 1.15 * sum(eigenvalues);
  const reach = 1.1 * Math.max(0.5, ...values.flatMap(({ value }) => value.flat().map(Math.abs)));
  const [softmax, linear] = last.slice(1).map((each) => format(Number(each.toPrecision(3))));
  return {
    note: left === null ? "" : `At step ${format(left)} a run leaves: the learning rate ${format(lr)} is past the edge of stability.`,
    summary: values.length
      ? `${done ? "Trained" : "In training"}, ${clock}: loss ${softmax} with softmax, ${linear} with linear attention; `
      + `linear theory ends at ${format(levels.at(-1))}.` : "Press Play: both models train here, on the same sequences from the same weights.",
    panels: [
      {
        title: `Loss of ${kind} attention`, x, wide: true, y: { label: "mean squared error", min: 0, max: top },
        levels: (kind === "merged" ? [levels[0], levels.at(-1)] : levels).map((y) => ({ y, name: "" })),
        series: NAMES.map((name, i) => ({ name, color: [1, 0][i], x: step, y: rows.map((row) => row[i + 1]) })),
      },
      ...NAMES.map((name, i) => ({
        title: `Value of each head, ${name}`, x, y: { label: "v", min: -reach, max: reach },
        series: Array.from({ length: heads }, (_, h) => ({
          name: `head ${h + 1}`, label: false, color: h, x: values.map(({ at }) => at), y: values.map(({ value }) => value[i][h]),
        })),
      })),
    ],
  };
}

export const render = explorer({ name: "softmax", live, show });
