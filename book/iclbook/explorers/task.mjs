// @ts-check
// One context, and how least squares, ridge, principal components and attention answer from it.
//
// In the eigenbasis x = √λ z and y = wᵀx + noise. Trained attention answers with ŵ_d = β_d a_d/b_d
// in the directions it has learned.

import { count, format } from "./ui/format.mjs";
import { triples, withPoint } from "./ui/values.mjs";
import { normals } from "./maths/engine.mjs";
import { axis } from "./ui/panels.mjs";
import { explorer } from "./ui/explorer.mjs";
import { learned, plateaus, population } from "./maths/theory.mjs";

/** @import { Drawing, Panel } from "./types.d.ts" */

export const LONGEST = 40;
const QUERIES = 24;

export function draw({ eigenvalues, noise, seed, moved: byHand = [] }) {
  const dim = eigenvalues.length, z = normals(seed, dim + (LONGEST + QUERIES) * (dim + 1));
  const w = z.slice(0, dim), rows = [];
  for (let n = 0; n < LONGEST + QUERIES; n++) {
    const from = dim + n * (dim + 1), x = eigenvalues.map((l, d) => Math.sqrt(l) * z[from + d]);
    const clean = x.reduce((total, each, d) => total + each * w[d], 0);
    rows.push({ x, y: n < LONGEST ? clean + noise * z[from + dim] : clean });
  }
  for (const [n, x, y] of triples(byHand)) {
    if (n > 0 && n <= LONGEST) [rows[n - 1].x[0], rows[n - 1].y] = [x, y];
  }
  return { w, context: rows.slice(0, LONGEST), queries: rows.slice(LONGEST) };
}

// A symmetric positive system by Cholesky. Where a moved example leaves it singular, a pivot is 0 and
// so is that weight, as in the smallest solution.
function solve(a, b) {
  const n = b.length, l = a.map((row) => [...row]), x = [...b];
  const over = (value, pivot) => (pivot > 0 ? value / pivot : 0);
  for (let i = 0; i < n; i++) {
    for (let j = 0; j <= i; j++) {
      let s = l[i][j];
      for (let k = 0; k < j; k++) s -= l[i][k] * l[j][k];
      l[i][j] = i === j ? Math.sqrt(Math.max(0, s)) : over(s, l[j][j]);
    }
    for (let k = 0; k < i; k++) x[i] -= l[i][k] * x[k];
    x[i] = over(x[i], l[i][i]);
  }
  for (let i = n - 1; i >= 0; i--) {
    for (let k = i + 1; k < n; k++) x[i] -= l[k][i] * x[k];
    x[i] = over(x[i], l[i][i]);
  }
  return x;
}

// The w with the least Σ (y − wᵀx)² + penalty |w|², from the first m coordinates; the smallest if there are many.
export function regress(context, m, penalty = 0) {
  const dot = (p, q) => p.reduce((total, each, i) => total + each * q[i], 0);
  const x = context.map((each) => each.x.slice(0, m)), y = context.map((each) => each.y);
  if (m === 0) return [];
  if (penalty === 0 && context.length < m) {
    const dual = solve(x.map((p) => x.map((q) => dot(p, q))), y);
    return Array.from(
      { length: m },
      (_, d) => dual.reduce((total, each, n) => total + each * x[n][d], 0),
    );
  }
  const columns = Array.from({ length: m }, (_, d) => x.map((row) => row[d]));
  return solve(
    columns.map((p, i) => columns.map((q, j) => dot(p, q) + (i === j ? penalty : 0))),
    columns.map((p) => dot(p, y)),
  );
}

export function attend(eigenvalues, context, m) {
  const gains = learned(population(eigenvalues, context.length));
  return Array.from(
    { length: m },
    (_, d) =>
      (gains[d] / context.length) * context.reduce((total, each) => total + each.y * each.x[d], 0),
  );
}

const NAMES = ["least squares", "ridge", "components", "attention"];
export function estimates({ eigenvalues, components, ridge }, context) {
  const dim = eigenvalues.length, m = Math.min(components, dim);
  const pad = (w) => eigenvalues.map((_, d) => w[d] ?? 0);
  return [
    regress(context, dim),
    regress(context, dim, ridge),
    regress(context, m),
    attend(eigenvalues, context, m),
  ].map(pad);
}

export function compute(state) {
  const { eigenvalues } = state, drawn = draw(state);
  // The bars may be in any order, but components are counted from the largest eigenvalue.
  const order = eigenvalues.map((_, d) => d).sort((i, j) => eigenvalues[j] - eigenvalues[i]);
  const sorted = { ...state, eigenvalues: order.map((d) => eigenvalues[d]) };
  const turn = (row) => ({ ...row, x: order.map((d) => row.x[d]) });
  const context = drawn.context.map(turn),
    queries = drawn.queries.map(turn),
    w = order.map((d) => drawn.w[d]);
  const error = (guess) =>
    sorted.eigenvalues.reduce((total, l, d) => total + l * (guess[d] - w[d]) ** 2, 0);
  const all = context.map((_, n) => estimates(sorted, context.slice(0, n + 1)));
  return {
    w,
    context,
    queries,
    all,
    order,
    errors: all.map((each) => each.map(error)),
    expected: context.map((_, n) => plateaus(population(eigenvalues, n + 1))),
  };
}

const small = (value) => (value < 1e-12 ? "0" : format(Number(value.toPrecision(3))));

const MOVABLE = 9; // so many examples can be moved, as many as the token matrix shows
export const fits = ({ examples, moved: byHand }) => ({
  moved: triples(byHand).filter(([n]) => n > 0 && n <= examples).flat(),
});

// The context along e₁ against its labels, where examples can be moved, with a line for each method.
/** @returns {Panel} */
function along(order, { w, context }, now, names, { examples, eigenvalues, moved: byHand }) {
  const first = order.indexOf(0),
    power = order.reduce((total, d, i) => total + eigenvalues[d] * w[i] ** 2, 0);
  const wide = 3 * Math.sqrt(eigenvalues[0]), tall = 3 * Math.sqrt(power);
  const x = { label: "x₁", min: -wide, max: wide }, ends = [-wide, wide];
  const rest = context.slice(MOVABLE, Math.max(MOVABLE, examples));
  return {
    title: "The examples along e₁; drag one",
    plane: true,
    x,
    y: { label: "label y", min: -tall, max: tall },
    series: [
      {
        name: "true",
        label: false,
        color: "ink",
        dashed: true,
        x: ends,
        y: ends.map((each) => each * w[first]),
      },
      ...names.map((name, i) => ({
        name,
        label: false,
        color: i,
        x: ends,
        y: ends.map((each) => each * now[i][first]),
      })),
      {
        name: "further examples",
        label: false,
        color: "ink",
        dots: 3,
        x: rest.map((each) => each.x[first]),
        y: rest.map((each) => each.y),
      },
    ],
    handles: context.slice(0, Math.min(MOVABLE, examples)).map((each, n) => ({
      name: `example ${n + 1}`,
      x: each.x[first],
      y: each.y,
      color: "ink",
      to: (to, label) => ({ moved: withPoint(byHand, n + 1, to, label) }),
    })),
  };
}

/** @returns {Drawing} */
export function show({ w, context, queries, all, order, errors, expected }, state) {
  const { eigenvalues, examples, components, noise } = state, byHand = fits(state).moved.length / 3;
  const dim = w.length,
    m = Math.min(components, dim),
    now = all[examples - 1],
    e = axis(dim).map((_, i) => axis(dim)[order[i]]);
  const lengths = context.map((_, n) => n + 1),
    names = NAMES.map((name, i) => (i < 2 ? name : `${name} (${m})`));
  const dot = (guess, x) => x.reduce((total, each, d) => total + each * guess[d], 0);
  const truth = queries.map((each) => each.y),
    guesses = now.map((guess) => queries.map((each) => dot(guess, each.x)));
  const reach = 1.1 * Math.max(...truth.map(Math.abs), 0.5),
    top = 1.3 * Math.max(...errors[0].slice(3), expected[0][0]);
  const span = 1.15 * Math.max(...w.map(Math.abs), ...now[3].map(Math.abs));
  const shown = Math.min(examples, 9), tokens = [...context.slice(0, shown), queries[0]];
  const values = [
    ...e.map((_, d) => tokens.map((each) => each.x[d])),
    tokens.map((each, n) => (n < shown ? each.y : 0)),
  ].flat();
  return {
    summary:
      `${
        byHand ? `${count(byHand, "example")} set by hand, with labels that are no task's. ` : ""
      }After ${count(examples, "example")} the expected squared error at a query is ` +
      `${names.map((name, i) => `${small(errors[examples - 1][i])} for ${name}`).join(", ")}. ` +
      `Over all tasks attention with ${count(m, "component")} has ${
        format(expected[examples - 1][m])
      }${noise ? " without noise" : ""}.`,
    panels: [
      {
        title: "Error at a query, as the context grows",
        cursor: examples,
        moves: "examples",
        x: { label: "examples n", min: 1, max: LONGEST },
        y: { label: "squared error", min: 0, max: top },
        series: [
          ...names.map((name, i) => ({
            name,
            color: i,
            x: lengths,
            y: errors.map((each) => each[i]),
          })),
          {
            name: "attention, mean",
            label: "its mean",
            color: "theory",
            dashed: true,
            x: lengths,
            y: expected.map((each) => each[m]),
          },
        ],
      },
      along(order, { w, context }, now, names, state),
      {
        title: `Answers to ${QUERIES} queries`,
        x: { label: "true answer", min: -reach, max: reach },
        y: { label: "predicted", min: -reach, max: reach },
        series: [
          {
            name: "equal",
            label: false,
            color: "theory",
            dashed: true,
            x: [-reach, reach],
            y: [-reach, reach],
          },
          ...guesses.map((y, i) => ({
            name: names[i],
            label: false,
            dots: 3.2,
            color: i,
            x: truth,
            y,
          })),
        ],
      },
      {
        title: "The weights each sees in this context; ring: the true ones",
        x: { label: "direction d", min: 0.5, max: dim + 0.5, whole: true },
        y: { label: "weight", min: -span, max: span },
        series: [
          {
            name: "true",
            color: "ink",
            dots: 8,
            ring: true,
            label: false,
            x: w.map((_, d) => d + 1),
            y: w,
          },
          ...now.map((guess, i) => ({
            name: names[i],
            dots: 4,
            label: false,
            color: i,
            x: guess.map((_, d) => d + 0.85 + 0.1 * i),
            y: guess,
          })),
        ],
      },
      {
        title: `Token matrix: ${
          shown < examples ? `first ${shown} of ${examples} examples` : count(examples, "example")
        } and the query`,
        x: { label: "token" },
        y: { label: "entry" },
        heat: {
          rows: [...e.map((each) => each.replace("e", "x")), "y"],
          columns: [...lengths.slice(0, shown), "q"],
          values,
          max: 2.5 * Math.sqrt(Math.max(...eigenvalues)),
          signed: true,
        },
      },
    ],
  };
}

const points = { min: [1, -3, -30], max: [LONGEST, 3, 30] };
export const render = explorer({ name: "task", compute, show, fits, points });
