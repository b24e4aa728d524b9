// @ts-check
// Closed forms for linear attention: iclcore.theory.linear, in the eigenbasis.
//
// Everything follows from a_d = g λ_d² and b_d = g₂ λ_d³ + h λ_d² (λ_d + tr Λ), where over the context
// lengths n and with the divisor of the sum over tokens g = ⟨n/divisor⟩, g₂ = ⟨(n/divisor)²⟩ and
// h = ⟨n/divisor²⟩. Time is learning rate times steps.

/** @import { LinearModel, Problem, Weights } from "../types.d.ts" */

export const sum = (array) => array.reduce((total, each) => total + each, 0);

// The divisor of the sum over n examples and the query.
export const divideBy = { one: () => 1, context: (n) => n, tokens: (n) => n + 1 };

// The loss as engine.mjs takes it, for one context length or for all lengths up to it.
/** @returns {Problem} */
export function population(
  eigenvalues,
  context,
  { divisor = "context", everyLength = false } = {},
) {
  let gain = 0, square = 0, spread = 0;
  const first = everyLength ? 1 : context;
  for (let n = first; n <= context; n++) {
    const share = n / divideBy[divisor](n);
    gain += share;
    square += share * share;
    spread += (share * share) / n;
  }
  const count = context - first + 1, trace = sum(eigenvalues);
  const a = Float64Array.from(eigenvalues, (l) => (gain / count) * l * l);
  const b = Float64Array.from(
    eigenvalues,
    (l) => (square / count) * l ** 3 + (spread / count) * l * l * (l + trace),
  );
  const dim = eigenvalues.length, stiff = new Float64Array(dim * dim);
  for (let i = 0; i < dim; i++) {
    for (let j = 0; j < dim; j++) stiff[i * dim + j] = (b[i] / eigenvalues[i]) * eigenvalues[j];
  }
  return { eigenvalues: Float64Array.from(eigenvalues), trace, a, b, stiff };
}

export const learned = ({ a, b }) => a.map((each, d) => each / b[d]);

// L(M_0) … L(M_D), the eigenvectors learned from the largest eigenvalue down.
export function plateaus({ eigenvalues, trace, a, b }) {
  const order = [...a.keys()].sort((i, j) => eigenvalues[j] - eigenvalues[i]);
  const losses = [trace];
  for (const d of order) losses.push(losses.at(-1) - (a[d] * a[d]) / b[d]);
  return losses;
}

// Merged, white: L(t) = tr Λ − 2ac + bc² with c rising as a logistic function from c₀.
export const whiteStart = (/** @type {Weights} */ { v, u, heads, dim }) => {
  let c0 = 0;
  for (let h = 0; h < heads; h++) {
    let trace = 0;
    for (let d = 0; d < dim; d++) trace += u[h * dim * dim + d * dim + d];
    c0 += (v[h] + trace / Math.sqrt(dim)) ** 2 / 4;
  }
  return c0;
};
const white = ({ a, b }) => [a[0] * Math.sqrt(a.length), b[0]];
export function whiteCourse(problem, c0, time) {
  const [a, b] = white(problem);
  const c = a / b / (1 + (a / (b * c0) - 1) * Math.exp(-4 * a * time));
  return problem.trace - 2 * a * c + b * c * c;
}
// The time when the loss has done half of its fall: c has reached 1 − 1/√2 of its limit a/b.
export function dropTime(problem, c0) {
  const [a, b] = white(problem);
  return Math.log((Math.SQRT2 - 1) * (a / (b * c0) - 1)) / (4 * a);
}
// The rate at which small merged weights grow, for any spectrum: as exp(2|a|t).
export const growthRate = ({ a }) => 2 * Math.hypot(...a);

// Separate, one head on eigenvector d: ds/dt = 2(a s² − b s⁵). With x = s/s* it separates,
// 2 a s* t = F(x) − F(x₀), so the course is drawn as t(x), through s = s*/2 at time `half`.
export const headLimit = ({ a, b }, d) => Math.cbrt(a[d] / b[d]);
export const escapeIntegral = (x) =>
  -1 / x - Math.log1p(-x) / 3 + Math.log(x * x + x + 1) / 6 -
  Math.atan((2 * x + 1) / Math.sqrt(3)) / Math.sqrt(3);
export function headCourse(problem, d, half, from, until, points = 120) {
  const end = headLimit(problem, d), pace = 2 * problem.a[d] * end, middle = escapeIntegral(0.5);
  const course = [];
  // evenly in log(x/(1 − x)), so that points are close where the curve bends
  for (let i = 0; i <= points; i++) {
    const x = 1 / (1 + Math.exp(-(-7 + (25 * i) / points)));
    const time = half + (escapeIntegral(x) - middle) / pace;
    if (time >= from && time <= until) course.push([time, end * x]);
  }
  if (course.length && course.at(-1)[0] < until) course.push([until, course.at(-1)[1]]);
  return course;
}

// Separate, rank one, from saddle to saddle (iclcore.theory.saddles). Small heads do not feel one another:
//   v̇ = 2 Σ_d a_d k_d q_d,  k̇_d = 2 a_d v q_d,  q̇_d = 2 a_d v k_d   with a_d = 0 for what is learned.
// Returns the times at which each eigenvector that is not in `done` is half learned, from these weights. A
// time is null if no head is free. All are null if two eigenvectors that wait have eigenvalues so close
// that a head takes a mixture of both.
export function comingDrops(
  /** @type {Problem} */ { a, b },
  /** @type {Weights} */ { v, k, q, heads, dim },
  done,
) {
  const force = a.map((each, d) => (done[d] ? 0 : each)), times = done.map(() => null);
  const waiting = force.filter((each) => each > 0).sort((x, y) => y - x);
  if (waiting.some((each, i) => each > 0.9 * waiting[i - 1])) return times;
  let free = Array.from(
    { length: heads },
    (_, h) => [v[h], ...k.subarray(h * dim, (h + 1) * dim), ...q.subarray(h * dim, (h + 1) * dim)],
  );
  const share = (w, d) => (w[0] * w[1 + d] * w[1 + dim + d] * b[d]) / a[d],
    best = (d) => free.reduce((x, y) => (share(x, d) > share(y, d) ? x : y));
  const leave = (d) => {
    const gone = best(d);
    free = free.filter((each) => each !== gone);
  };
  done.forEach((each, d) => {
    if (each && free.length) leave(d);
  });
  const slope = (w) =>
    w.map((_, i) =>
      i === 0
        ? 2 * sum(force.map((each, d) => each * w[1 + d] * w[1 + dim + d]))
        : 2 * force[(i - 1) % dim] * w[0] * w[i <= dim ? i + dim : i - dim]
    );
  for (let time = 0, n = 0; n < 5000 && free.length && force.some((each) => each > 0); n++) {
    const dt = 0.01 / (Math.max(...force) * Math.max(...free.flat().map(Math.abs)));
    free = free.map((w) => {
      const half = slope(w), middle = slope(w.map((each, i) => each + (dt / 2) * half[i]));
      return w.map((each, i) => each + dt * middle[i]);
    });
    time += dt;
    for (let d = 0; d < dim; d++) {
      if (force[d] > 0 && free.length && share(best(d), d) > 0.5) {
        times[d] = time;
        force[d] = 0;
        leave(d);
      }
    }
  }
  return times;
}

// The largest learning rate at which a run can stay where training from small weights ends: 2/sharpness.
// The Hessian there is 2 JᵀGJ with G = (b_i/λ_i) λ_j and J = ∂M/∂weights at balanced weights. Merged:
// JJᵀ = m(1 + uuᵀ), m = |M|, u = M/m. Separate: a head takes R eigenvectors with v³ = Σ_d M_d; the value
// moves M along M/v, key and query move (i, d) and (d, i) by v M_d each. Power iteration finds its
// largest eigenvalue.
export function stableRate(
  /** @type {Problem} */ { eigenvalues, a, b },
  /** @type {LinearModel} */ { kind, heads, rank },
) {
  const order = [...a.keys()].sort((i, j) => eigenvalues[j] - eigenvalues[i]);
  const dim = a.length, end = order.map((d) => a[d] / b[d]);
  const force = order.flatMap((i) =>
    order.map((j) => Math.sqrt((b[i] / eigenvalues[i]) * eigenvalues[j]))
  );
  // An entry of M off the diagonal moves by itself; the lines tie the D entries of the diagonal together.
  const own = new Float64Array(dim * dim), lines = [];
  const line = (group, scale) =>
    lines.push(Float64Array.from(group, (each, d) => (force[d * dim + d] * each) / scale));
  if (kind === "merged") {
    const size = Math.hypot(...end);
    own.fill(size);
    line(end, Math.sqrt(size));
  } else {
    for (let first = 0; first < Math.min(dim, heads * rank); first += rank) {
      const group = end.map((each, d) => (d >= first && d < first + rank ? each : 0));
      const value = Math.cbrt(sum(group));
      for (let i = 0; i < dim; i++) {
        for (let j = 0; j < dim; j++) own[i * dim + j] += value * (group[i] + group[j]);
      }
      line(group, value);
    }
  }
  const entries = own.map((each, i) => force[i] * force[i] * each),
    diagonal = end.map((_, d) => entries[d * dim + d]);
  // a start that is not orthogonal to any eigenvector
  let x = diagonal.map((_, i) => 1 + Math.sin(i + 1) / 2), size = 0;
  for (let round = 0; round < 5000; round++) {
    const y = diagonal.map((each, i) => each * x[i]);
    for (const move of lines) {
      const dot = sum(move.map((each, i) => each * x[i]));
      for (let i = 0; i < dim; i++) y[i] += move[i] * dot;
    }
    const before = size;
    size = Math.hypot(...y);
    x = y.map((each) => each / size);
    if (Math.abs(size - before) <= 1e-14 * size) break;
  }
  return 1 / Math.max(size, ...entries);
}
