// @ts-check
// Exact gradient descent on the population loss, in the eigenbasis of the covariance.
//
// Started in the paper's subspace the model is ŷ = βᵀ M x_q and the loss a function of D² numbers,
//   L(M) = tr Λ − 2 Σ_d a_d M_dd + Σ_ij M_ij² (b_i/λ_i) λ_j        (theory.mjs has a_d and b_d),
// with M = Σ_h v_h U_h (merged) or M = Σ_h v_h K_hᵀ Q_h (separate, K_h and Q_h of R rows).
// Row i of M belongs to β, column j to the query. All numbers are float64, as in Python.

/** @import { LinearModel, Problem, Weights } from "../types.d.ts" */

// sfc32 by Chris Doty-Humphrey: four 32-bit words, set by the seed. Its first twelve numbers are not used.
export function random(seed) {
  let a = 0, b = 0, c = seed >>> 0, d = 1;
  const next = () => {
    const t = (((a + b) | 0) + d) | 0;
    d = (d + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = (c << 21) | (c >>> 11);
    c = (c + t) | 0;
    return t >>> 0;
  };
  for (let i = 0; i < 12; i++) next();
  return next;
}

// Standard normal numbers by Box and Muller: two from each two uniform numbers in (0, 1).
export function normals(seed, count) {
  const next = random(seed);
  const out = new Float64Array(count);
  for (let i = 0; i < count; i += 2) {
    const radius = Math.sqrt(-2 * Math.log((next() + 0.5) / 4294967296));
    const angle = (2 * Math.PI * (next() + 0.5)) / 4294967296;
    out[i] = radius * Math.cos(angle);
    if (i + 1 < count) out[i + 1] = radius * Math.sin(angle);
  }
  return out;
}

// Gaussian weights, head after head: v, then U (D x D), or v, K (R x D), Q (R x D).
// The scales are those of iclcore.models: init for v and U, init/√(R(D + 1)) for K and Q.
export function start(/** @type {LinearModel} */ { kind, dim, heads, rank = 1, init, seed }) {
  const inner = kind === "merged" ? dim * dim : 2 * rank * dim;
  const std = kind === "merged" ? init : init / Math.sqrt(rank * (dim + 1));
  const draws = normals(seed, heads * (1 + inner));
  /** @type {Weights} */
  const weights = { kind, dim, heads, rank, v: new Float64Array(heads) };
  const part = () => new Float64Array((heads * inner) / (kind === "merged" ? 1 : 2));
  if (kind === "merged") weights.u = part();
  else [weights.k, weights.q] = [part(), part()];
  const half = rank * dim;
  for (let h = 0; h < heads; h++) {
    const from = h * (1 + inner);
    weights.v[h] = init * draws[from];
    for (let i = 0; i < inner; i++) {
      const value = std * draws[from + 1 + i];
      if (kind === "merged") weights.u[h * inner + i] = value;
      else if (i < half) weights.k[h * half + i] = value;
      else weights.q[h * half + i - half] = value;
    }
  }
  return weights;
}

// Writes M of these weights into `m`.
export function predictor(/** @type {Weights} */ { kind, dim, heads, rank, v, u, k, q }, m) {
  m.fill(0);
  const size = dim * dim;
  for (let h = 0; h < heads; h++) {
    const value = v[h];
    if (kind === "merged") {
      const from = h * size;
      for (let i = 0; i < size; i++) m[i] += value * u[from + i];
      continue;
    }
    for (let r = 0; r < rank; r++) {
      const row = (h * rank + r) * dim;
      for (let i = 0; i < dim; i++) {
        const scale = value * k[row + i];
        const to = i * dim;
        for (let j = 0; j < dim; j++) m[to + j] += scale * q[row + j];
      }
    }
  }
  return m;
}

// Returns the loss of M, and writes half of its gradient into `g`.
export function pull(/** @type {Problem} */ { trace, a, stiff }, m, g) {
  let loss = trace;
  const dim = a.length;
  for (let i = 0; i < m.length; i++) {
    g[i] = stiff[i] * m[i];
    loss += g[i] * m[i];
  }
  for (let d = 0; d < dim; d++) {
    const diagonal = d * dim + d;
    loss -= 2 * a[d] * m[diagonal];
    g[diagonal] -= a[d];
  }
  return loss;
}

function stepMerged(/** @type {Weights} */ { dim, heads, v, u }, g, twice) {
  const size = dim * dim;
  for (let h = 0; h < heads; h++) {
    const from = h * size, scale = twice * v[h];
    let slope = 0;
    for (let i = 0; i < size; i++) {
      slope += u[from + i] * g[i];
      u[from + i] -= scale * g[i];
    }
    v[h] -= twice * slope;
  }
}

function stepSeparate(/** @type {Weights} */ { dim, heads, rank, v, k, q }, g, twice, dk, dq) {
  for (let h = 0; h < heads; h++) {
    const scale = twice * v[h];
    let slope = 0;
    for (let r = 0; r < rank; r++) {
      const row = (h * rank + r) * dim;
      for (let j = 0; j < dim; j++) dq[j] = 0;
      for (let i = 0; i < dim; i++) {
        const key = k[row + i], from = i * dim;
        let total = 0;
        for (let j = 0; j < dim; j++) {
          total += g[from + j] * q[row + j];
          dq[j] += key * g[from + j];
        }
        dk[i] = total;
        slope += key * total;
      }
      for (let i = 0; i < dim; i++) {
        k[row + i] -= scale * dk[i];
        q[row + i] -= scale * dq[i];
      }
    }
    v[h] -= twice * slope;
  }
}

// How long each U is along a diagonal of length one.
export const projections = (/** @type {Weights} */ { dim, heads, u }, along) =>
  Float64Array.from(
    { length: heads },
    (_, h) => along.reduce((total, each, d) => total + each * u[(h * dim + d) * dim + d], 0),
  );

// Gradient descent for `steps` steps, in place. About `points` times and at the end it records what is
// there before the step: the loss, v and M, with `keep` the keys, and with `along` how long each U is along
// that diagonal. A run whose loss rises above a thousand times its start, or is no number, ends there, and
// `left` is that step. `half` are the steps at which each M_dd passes half of its limit, and `fallen` the one
// at which the loss falls through `level`: interpolated between two steps, NaN if it does not happen. With
// `stop` the run ends when the loss has fallen.
export function descend(
  /** @type {Problem} */ problem,
  /** @type {Weights} */ weights,
  { steps, lr, points = 320, keep = false, along = null, level = -Infinity, stop = false },
) {
  const { dim, heads } = weights;
  const stride = Math.max(1, Math.ceil(steps / points));
  const rows = Math.ceil(steps / stride) + 1;
  const keys = keep ? heads * weights.rank * dim : 0;
  const out = {
    stride,
    left: null,
    half: new Float64Array(dim).fill(NaN),
    fallen: NaN,
    step: new Float64Array(rows),
    loss: new Float64Array(rows),
    v: new Float64Array(rows * heads),
    m: new Float64Array(rows * dim * dim),
    k: new Float64Array(rows * keys),
    u: new Float64Array(along ? rows * heads : 0),
  };
  const m = new Float64Array(dim * dim), g = new Float64Array(dim * dim);
  const dk = new Float64Array(dim), dq = new Float64Array(dim);
  const halfway = problem.a.map((each, d) => each / problem.b[d] / 2),
    before = new Float64Array(dim);
  // the step at which a number passes a value, if it was `from` one step ago and is `to` now
  const passed = (step, from, to, value) => (step === 0 ? 0 : step - (to - value) / (to - from));
  let bound = Infinity, row = 0, last = Infinity;
  for (let step = 0; step <= steps; step++) {
    predictor(weights, m);
    const loss = pull(problem, m, g);
    if (step === 0) bound = 1000 * Math.max(loss, problem.trace);
    const leaves = !(loss <= bound);
    if (leaves) out.left = step;
    for (let d = 0; d < dim; d++) {
      const now = m[d * dim + d];
      if (now >= halfway[d] && Number.isNaN(out.half[d])) {
        out.half[d] = passed(step, before[d], now, halfway[d]);
      }
      before[d] = now;
    }
    if (loss <= level && Number.isNaN(out.fallen)) out.fallen = passed(step, last, loss, level);
    last = loss;
    if ((step % stride === 0 || step === steps) && !leaves) {
      out.step[row] = step;
      out.loss[row] = loss;
      out.v.set(weights.v, row * heads);
      out.m.set(m, row * dim * dim);
      if (keep) out.k.set(weights.k, row * keys);
      if (along) out.u.set(projections(weights, along), row * heads);
      row++;
    }
    if (leaves || step === steps || (stop && !Number.isNaN(out.fallen))) break;
    if (weights.kind === "merged") stepMerged(weights, g, 2 * lr);
    else stepSeparate(weights, g, 2 * lr, dk, dq);
  }
  const widths = { step: 1, loss: 1, v: heads, m: dim * dim, k: keys, u: along ? heads : 0 };
  for (const [name, width] of Object.entries(widths)) {
    out[name] = out[name].subarray(0, row * width);
  }
  return { ...out, rows: row };
}
