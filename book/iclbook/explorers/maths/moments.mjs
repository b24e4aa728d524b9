// @ts-check
// Gradient descent of merged linear attention on the moments of finite data, as in iclcore.engines.linear.
//
// ŷ = cᵀφ, c[d, {a, b}] = Σ_h W_h[d, a] v_h[b] over symmetric pairs {a, b} of the E = D + 1 token entries,
// loss = power − 2 crossᵀc + cᵀ gram c. A mixture's moments are the weighted mean of its kinds'.

/** @import { MomentWeights, Weights } from "../types.d.ts" */

// The page has only the lower triangle of gram, row after row. Numbers are "float32:" and the base64 of
// little-endian float32.
export function unpack({ gram, cross, power }) {
  const numbers = (text) => {
    const bytes = Uint8Array.from(atob(text.split(":")[1]), (each) => each.charCodeAt(0));
    return Float64Array.from(new Float32Array(bytes.buffer));
  };
  const lower = numbers(gram), vector = numbers(cross), size = vector.length;
  const full = new Float64Array(size * size);
  for (let i = 0, from = 0; i < size; i++) {
    for (let j = 0; j <= i; j++, from++) full[i * size + j] = full[j * size + i] = lower[from];
  }
  return { gram: full, cross: vector, power: numbers(power)[0] };
}

export function mix(parts) {
  const [{ gram, cross }] = parts.map(([, each]) => each);
  const mixed = {
    gram: new Float64Array(gram.length),
    cross: new Float64Array(cross.length),
    power: 0,
  };
  for (const [share, each] of parts) {
    for (let i = 0; i < gram.length; i++) mixed.gram[i] += share * each.gram[i];
    for (let i = 0; i < cross.length; i++) mixed.cross[i] += share * each.cross[i];
    mixed.power += share * each.power;
  }
  return mixed;
}

export function lossOf({ gram, cross, power }, c) {
  const size = cross.length;
  let loss = power;
  for (let i = 0; i < size; i++) {
    let row = 0;
    for (let j = 0; j < size; j++) row += gram[i * size + j] * c[j];
    loss += c[i] * (row - 2 * cross[i]);
  }
  return loss;
}

// The least loss that any c has, power − crossᵀ gram⁻¹ cross, by Cholesky.
export function floor({ gram, cross, power }) {
  const size = cross.length, l = gram.slice(), x = cross.slice();
  let least = power;
  for (let i = 0; i < size; i++) {
    for (let j = 0; j <= i; j++) {
      let s = l[i * size + j];
      for (let k = 0; k < j; k++) s -= l[i * size + k] * l[j * size + k];
      l[i * size + j] = i === j ? Math.sqrt(s) : s / l[j * size + j];
    }
    for (let k = 0; k < i; k++) x[i] -= l[i * size + k] * x[k];
    x[i] /= l[i * size + i];
    least -= x[i] * x[i];
  }
  return least;
}

// The index of c[d, {a, b}], for every (d, a, b).
export function pairIndex(dim) {
  const size = dim + 1, pairs = (size * (size + 1)) / 2, index = new Int32Array(dim * size * size);
  let p = 0;
  for (let a = 0; a < size; a++) {
    for (let b = a; b < size; b++, p++) {
      for (let d = 0; d < dim; d++) {
        index[(d * size + a) * size + b] = index[(d * size + b) * size + a] = d * pairs + p;
      }
    }
  }
  return index;
}

// W (H, D, E) and v (H, E) from the weights of engine.mjs. Outside the paper's subspace they are 0.
/** @returns {MomentWeights} */
export function widen(/** @type {Weights} */ { dim, heads, v, u }) {
  const size = dim + 1,
    w = new Float64Array(heads * dim * size),
    value = new Float64Array(heads * size);
  for (let h = 0; h < heads; h++) {
    value[h * size + dim] = v[h];
    for (let d = 0; d < dim; d++) {
      for (let a = 0; a < dim; a++) w[(h * dim + d) * size + a] = u[(h * dim + a) * dim + d];
    }
  }
  return { dim, heads, w, v: value };
}

export function collect({ dim, heads, w, v }, index, c, each = new Float64Array(index.length)) {
  const size = dim + 1, rows = dim * size;
  each.fill(0);
  for (let h = 0; h < heads; h++) {
    for (let k = 0; k < rows; k++) {
      const weight = w[h * rows + k];
      for (let b = 0; b < size; b++) each[k * size + b] += weight * v[h * size + b];
    }
  }
  c.fill(0);
  for (let i = 0; i < each.length; i++) c[index[i]] += each[i];
}

// The c of each head.
export function byHead({ dim, heads, w, v }, index, features) {
  const size = dim + 1, rows = dim * size;
  return Array.from({ length: heads }, (_, h) => {
    const c = new Float64Array(features);
    collect(
      {
        dim,
        heads: 1,
        w: w.subarray(h * rows, (h + 1) * rows),
        v: v.subarray(h * size, (h + 1) * size),
      },
      index,
      c,
    );
    return c;
  });
}

// Gradient descent for `steps` steps, in place. Every `stride` steps and at the end it records what is there
// before the step: the loss, c and what `keep(weights, index)` returns. If W is made of other weights
// (sample.mjs), `form` makes it and `move` moves those.
export function descendMoments(
  train,
  /** @type {MomentWeights} */ weights,
  { steps, lr, stride, keep = (/** @type {any[]} */ ..._) => null },
) {
  const { dim, heads, w, v, form = () => {}, move = own } = weights;
  const size = dim + 1, rows = dim * size, index = pairIndex(dim), dw = new Float64Array(w.length);
  function own(by, rate) {
    for (let i = 0; i < w.length; i++) w[i] -= rate * by[i];
  }
  const { gram, cross, power } = train, features = cross.length;
  const c = new Float64Array(features),
    slope = new Float64Array(features),
    spread = new Float64Array(rows * size);
  const dv = new Float64Array(size);
  const out = { step: [], loss: [], c: [], kept: [], left: null };
  for (let step = 0; step <= steps; step++) {
    form();
    collect(weights, index, c, spread);
    let loss = power;
    for (let i = 0; i < features; i++) {
      let s0 = 0, s1 = 0;
      const from = i * features;
      for (let j = 0; j + 1 < features; j += 2) {
        s0 += gram[from + j] * c[j];
        s1 += gram[from + j + 1] * c[j + 1];
      }
      if (features % 2) s0 += gram[from + features - 1] * c[features - 1];
      slope[i] = s0 + s1 - cross[i];
      loss += c[i] * (slope[i] - cross[i]);
    }
    if (!(loss <= 1000 * power)) {
      out.left = step;
      break;
    }
    if (step % stride === 0 || step === steps) {
      out.step.push(step);
      out.loss.push(loss);
      out.c.push(c.slice());
      out.kept.push(keep(weights, index));
    }
    if (step === steps) break;
    for (let i = 0; i < spread.length; i++) spread[i] = slope[index[i]];
    for (let h = 0; h < heads; h++) {
      const from = h * size;
      dv.fill(0);
      for (let k = 0; k < rows; k++) {
        const weight = w[h * rows + k];
        let total = 0;
        for (let b = 0; b < size; b++) {
          const each = spread[k * size + b];
          total += each * v[from + b];
          dv[b] += each * weight;
        }
        dw[h * rows + k] = total;
      }
      for (let b = 0; b < size; b++) v[from + b] -= 2 * lr * dv[b];
    }
    move(dw, 2 * lr);
  }
  return out;
}
