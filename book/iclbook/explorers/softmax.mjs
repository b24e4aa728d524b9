// @ts-check
// Softmax and linear attention, trained live side by side on sequences that the page draws.

import { startWorker } from "./ui/worker.mjs";
import { count, format, subscript } from "./ui/format.mjs";
import { passes } from "./ui/panels.mjs";
import { explorer } from "./ui/explorer.mjs";
import { plateaus, population, sum } from "./maths/theory.mjs";
import { drawSequences, tokenWeights, trainee, work } from "./maths/training.mjs";

/** @import { Drawing, Panel } from "./types.d.ts" */

const NAMES = ["softmax", "linear"], three = (each) => format(Number(each.toPrecision(3)));

// What the worker runs.
export const train = () => work();

export function live(state, report) {
  const rows = [];
  const told = (at) => `step ${format(at)} of ${format(state.steps)}`;
  report({ rows, done: false, left: null, rises: [0, 0], clock: told(0) });
  let worker;
  const fail = (event) =>
    report({
      rows,
      done: true,
      left: null,
      rises: [0, 0],
      clock: "",
      failed: event.message || "the browser refuses a worker",
    });
  try {
    worker = startWorker((all) => all.train());
  } catch (error) {
    fail(error);
    return { stop() {}, pause() {}, step() {} };
  }
  worker.onerror = fail;
  worker.onmessage = ({ data: { rows: more, at, edges, ...rest } }) => {
    rows.push(...more);
    report({
      rows,
      ...rest,
      edges,
      edge: edges && { lr: Math.min(...edges) },
      clock: told(rest.left ?? at),
    });
  };
  worker.postMessage({ begin: { ...state } });
  return {
    stop: () => worker.terminate(),
    pause: (still) => worker.postMessage(still ? { pause: true } : {}),
    step: () => worker.postMessage({ step: true }),
  };
}

function notes({ left, rises, failed }, { lr }) {
  if (failed) return `Training could not run here: ${failed}.`;
  if (left !== null) {
    return `At step ${format(left)} a run leaves: the learning rate ${
      format(lr)
    } is past the edge of stability.`;
  }
  const up = NAMES.flatMap((name, i) => rises[i] ? [`${name} in ${count(rises[i], "step")}`] : []);
  return up.length
    ? `The loss rises, of ${up.join(", of ")}: the learning rate ${
      format(lr)
    } is past the edge of stability there.`
    : "";
}

// Before training: what the drawn weights make of the first sequence, and how similar its tokens are to its query.
export function untrained({ eigenvalues, context, kind, heads, init, seed }) {
  const data = drawSequences({ eigenvalues, context, seed, sequences: 1 }),
    { dim, length, tokens } = data,
    size = dim + 1;
  const model = { kind, dim, heads, rank: 1, init, seed };
  const like = Array.from(
    { length },
    (_, n) =>
      eigenvalues.reduce(
        (total, _, d) => total + tokens[n * size + d] * tokens[(length - 1) * size + d],
        0,
      ),
  );
  return {
    like,
    answer: data.answers[0],
    tokens: [true, false].map((softmax) =>
      tokenWeights(softmax, heads, trainee(softmax, model, data, 0), data)
    ),
  };
}

// The head whose tokens are shown: the chosen one, or the one whose weights are furthest from all equal.
function shownHead({ look, heads }, { looks }) {
  if (look && look <= heads) return look - 1;
  const sharp = looks.map((each) => sum(each.map((share) => share * share)));
  return Math.max(0, sharp.indexOf(Math.max(...sharp)));
}

// The tokens of one sequence as bars, from the one least similar to the query to the query itself. They
// are those of all heads together, or of the chosen one.
function tokenPanels(state, given) {
  const { like, answer, tokens } = untrained(state),
    [softmax, linear] = given ?? tokens,
    length = like.length;
  const order = like.map((_, n) => n).sort((a, b) =>
    Number(a === length - 1) - Number(b === length - 1) || like[a] - like[b]
  );
  const x = { label: "tokens by likeness; the query is last", min: 0, max: length + 1 },
    place = order.map((_, i) => i + 1);
  const lead = shownHead(state, softmax),
    chosen = state.look === lead + 1,
    look = order.map((n) => softmax.looks[lead][n]);
  const adds = [softmax, linear].map((of) =>
    order.map((n) => (chosen ? of.adds[lead][n] : sum(of.adds.map((each) => each[n]))))
  );
  const reach = 1.1 * Math.max(0.02, ...adds.flat().map(Math.abs).filter(Number.isFinite));
  const words = given ? "" : ", before training";
  // before training no head reads labels
  const kind = given ? `reads mostly ${softmax.labels[lead] > 0.5 ? "labels" : "inputs"} and ` : "";
  const said = `Head ${lead + 1}${chosen ? "" : ", the sharpest,"} ${kind}gives one token ${
    three(Math.max(...look))
  } of its weight, ${three(length * Math.max(...look))} times its share.`;
  /** @type {Panel[]} */
  const panels = [
    {
      title: `Softmax of head ${lead + 1}${chosen ? "" : ", the sharpest"}${words}`,
      x,
      y: { label: "weight p", min: 0, max: 1.15 * Math.max(2 / length, ...look) },
      levels: [{ y: 1 / length, name: "all equal" }],
      series: [{
        name: `head ${lead + 1}`,
        label: false,
        color: lead,
        bars: 0.8,
        x: place,
        y: look,
      }],
    },
    {
      title: `What each token adds to the answer${chosen ? `, by head ${lead + 1}` : ""}${words}`,
      x,
      y: { label: `added; ${three(answer)} is right`, min: -reach, max: reach },
      series: NAMES.map((name, i) => ({
        name,
        color: [1, 0][i],
        bars: 0.4,
        x: place.map((each) => each + [-0.2, 0.2][i]),
        y: adds[i],
      })),
    },
  ];
  return { said, panels };
}

// When each model is halfway from one level of linear attention to the next. Merged weights make one drop.
function halves(rows, levels) {
  const run = { step: rows.map(({ at }) => at) };
  return NAMES.map((name, i) => {
    const fallen = rows.map(({ losses }) => -losses[i]),
      at = levels.slice(1).map((each, m) => passes(run, fallen, -(levels[m] + each) / 2));
    return `${name} at step ${
      at.map((each) => (each === null ? "–" : format(Math.round(each)))).join(", ")
    }`;
  }).join("; ");
}

/** @returns {Drawing} */
export function show(result, state) {
  const { rows, done, left, clock, edges } = result ?? { rows: [], left: null, rises: [0, 0] };
  const { eigenvalues, context, kind, heads, steps } = state;
  const x = { label: "step", min: 0, max: steps },
    step = rows.map(({ at }) => at),
    last = rows.at(-1)?.losses ?? [NaN, NaN];
  const levels = plateaus(population(eigenvalues, context)),
    top = 1.15 * sum(eigenvalues),
    merged = kind === "merged";
  const isCrossed = (m) => merged && m > 0 && m < levels.length - 1;
  const plateausShown = levels.flatMap((y, m) =>
    isCrossed(m) ? [] : [{ y, name: `L(M${subscript(m)})` }]
  );
  const values = rows.flatMap(({ value }) => value.flat()).map(Math.abs).filter((each) =>
    each < 20
  );
  const reach = 1.1 * values.reduce((most, each) => Math.max(most, each), 0.5);
  const [softmax, linear] = last.map(three);
  const { said, panels: bars } = tokenPanels(state, result?.tokens);
  const word = left !== null ? "A run left" : done ? "Trained" : "In training";
  return {
    note: notes(result ?? { left: null, rises: [0, 0] }, state),
    summary: rows.length
      ? `${word}, ${clock}: loss ${softmax} with softmax, ${linear} with linear attention; ` +
        `linear theory ends at ${format(levels.at(-1))}. Halfway ${
          merged || levels.length === 2
            ? "to there"
            : "from each level of linear theory to the next"
        }: ${halves(rows, merged ? [levels[0], levels.at(-1)] : levels)}. ${said}${
          edges
            ? ` Past a learning rate of ${
              three(edges[0])
            } softmax could not stay where it ended, linear attention past ${three(edges[1])}.`
            : ""
        }`
      : `Untrained, every token weighs nearly the same. ${said} Press Play: both models train here, on the same sequences from the same weights.`,
    offers: { look: heads + 1 },
    ends: NAMES.map((name, i) => ({ name: `${name} at the end`, value: last[i] })),
    panels: !rows.length ? bars : [
      {
        title: `Loss of ${kind} attention`,
        x,
        y: { label: "mean squared error", min: 0, max: top },
        levels: plateausShown,
        series: NAMES.map((name, i) => ({
          name,
          color: [1, 0][i],
          x: step,
          y: rows.map(({ losses }) => losses[i]),
        })),
      },
      bars[0],
      ...NAMES.map((name, i) => ({
        title: `Value of each head, ${name}`,
        x,
        y: { label: "v", min: -reach, max: reach },
        series: Array.from({ length: heads }, (_, h) => ({
          name: `head ${h + 1}`,
          color: h,
          x: step,
          y: rows.map(({ value }) => value[i][h]),
        })),
      })),
      bars[1],
    ],
  };
}

export const render = explorer({ name: "softmax", live, show });
