// @ts-check
// Training on finitely many sequences that the page draws: exact descent on their averages (moments.mjs).

import { format } from "../ui/format.mjs";
import { descendMoments, floor, pairIndex, widen } from "./moments.mjs";
import { drawSequences, secondMoments } from "./training.mjs";

/** @import { MomentWeights, Settings, Weights } from "../types.d.ts" */

export const DRAWN = 2000;
const POINTS = 320;

// ⟨φφᵀ⟩, ⟨yφ⟩ and ⟨y²⟩ of φ[d, {a, b}] = x_q[d] S[a, b], where S is the sum over a sequence's tokens by N.
export function average(data) {
  const { dim, length, sequences, tokens, answers } = data, size = dim + 1, index = pairIndex(dim);
  const features = (dim * size * (size + 1)) / 2,
    gram = new Float64Array(features * features),
    cross = new Float64Array(features);
  const mean = secondMoments(data), phi = new Float64Array(features), scale = length / (length - 1);
  let power = 0;
  for (let p = 0; p < sequences; p++) {
    const query = (p * length + length - 1) * size;
    for (let d = 0; d < dim; d++) {
      for (let a = 0; a < size; a++) {
        for (let b = a; b < size; b++) {
          phi[index[(d * size + a) * size + b]] = scale * tokens[query + d] *
            mean[(p * size + a) * size + b];
        }
      }
    }
    for (let i = 0; i < features; i++) {
      const each = phi[i] / sequences, from = i * features;
      cross[i] += answers[p] * each;
      for (let j = 0; j <= i; j++) gram[from + j] += each * phi[j];
    }
    power += (answers[p] * answers[p]) / sequences;
  }
  for (let i = 0; i < features; i++) {
    for (let j = 0; j < i; j++) gram[j * features + i] = gram[i * features + j];
  }
  return { gram, cross, power };
}

// Weights of separate key and query for moments.mjs, with W_h = Σ_r q_r k_rᵀ. A key reads the label too.
/** @returns {MomentWeights} */
export function factored(/** @type {Weights} */ { dim, heads, rank, v, k, q }) {
  const size = dim + 1,
    query = q.slice(),
    key = new Float64Array(heads * rank * size),
    value = new Float64Array(heads * size);
  for (let h = 0; h < heads; h++) value[h * size + dim] = v[h];
  for (let i = 0; i < k.length; i++) key[Math.floor(i / dim) * size + (i % dim)] = k[i];
  const w = new Float64Array(heads * dim * size), old = new Float64Array(size);
  const all = (visit) => {
    for (let h = 0; h < heads; h++) {
      for (let r = h * rank; r < (h + 1) * rank; r++) visit(r, h * dim * size);
    }
  };
  const form = () => {
    w.fill(0);
    all((r, from) => {
      for (let d = 0; d < dim; d++) {
        for (let a = 0; a < size; a++) {
          w[from + d * size + a] += query[r * dim + d] * key[r * size + a];
        }
      }
    });
  };
  const move = (dw, rate) =>
    all((r, from) => {
      old.set(key.subarray(r * size, (r + 1) * size));
      for (let d = 0; d < dim; d++) {
        const each = query[r * dim + d];
        let total = 0;
        for (let a = 0; a < size; a++) {
          total += old[a] * dw[from + d * size + a];
          key[r * size + a] -= rate * each * dw[from + d * size + a];
        }
        query[r * dim + d] -= rate * total;
      }
    });
  return { dim, heads, w, v: value, form, move };
}

// The run on finite data of an explorer: from the same start, drawn over its first panel.
export function onSequences(
  /** @type {Settings} */ { eigenvalues, context, seed, steps, lr },
  /** @type {Weights} */ weights,
) {
  const train = average(drawSequences({ eigenvalues, context, seed, sequences: DRAWN }));
  const wide = weights.kind === "merged" ? widen(weights) : factored(weights);
  const { step, loss, left } = descendMoments(train, wide, {
    steps,
    lr,
    stride: Math.ceil(steps / POINTS),
  });
  const ending = left === null
    ? `the loss ends at ${format(loss.at(-1))}`
    : `at step ${format(left)} the run leaves`;
  return {
    overlay: [{ panel: 0, name: `P = ${format(DRAWN)}`, color: 3, x: step, y: loss }],
    note: `Trained here on ${
      format(DRAWN)
    } drawn sequences: ${ending}; the least that linear attention can reach on them is ${
      format(floor(train))
    }.`,
  };
}
