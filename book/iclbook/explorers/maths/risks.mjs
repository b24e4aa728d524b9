// @ts-check
// The losses of heads and of other methods, and on other lengths, as in iclcore.heads.risk.

import { left, waterFilling } from "./multihead.mjs";

// The limit of each task with a head of its own, s ρ/(1+ρ), ρ = e d φ/L.
export const ownHead = (task) => task.dims.map((_, i) => left(task, i, 1 / Math.E));

// The least loss of `heads` equiangular heads, task by task. The budget is 1/e for one head, otherwise H − 1.
export const bound = (task, heads) =>
  waterFilling(task, heads === 1 ? 1 / Math.E : heads - 1).map((m, i) => left(task, i, m));

// E 1/(λ+z) and E 1/(λ+z)² over the law of Marchenko and Pastur for the ratio d/L.
export function stieltjes(ratio, z) {
  const b = 1 - ratio + z, root = Math.sqrt(b * b + 4 * ratio * z);
  const m = b > 0 ? 2 / (b + root) : (root - b) / (2 * ratio * z);
  return [m, (m * (1 + ratio * m)) / (2 * ratio * z * m + b)];
}

// Bayes in large dimensions: ridge with penalty r σ²/s on XXᵀ/L.
export function bayes(ratio, signal, noise) {
  if (noise === 0) return signal * Math.max(0, 1 - 1 / ratio);
  const z = (ratio * noise) / signal;
  return signal * z * stieltjes(ratio, z)[0];
}

export function ridge(ratio, z, signal, noise) {
  const [m, m2] = stieltjes(ratio, z);
  return signal * z * z * m2 + noise * ratio * (m - z * m2);
}

// The bias and the variance of a head trained at L and tested at L′, in units of the signal. The bias is the same.
export function atLength({ dim, context, noise }, test) {
  const load = Math.E * dim * (1 + noise), rho = load / context;
  return [(rho / (1 + rho)) ** 2, load / test / (1 + rho) ** 2];
}

const GRID = Array.from({ length: 401 }, (_, n) => -10 + 0.05 * n);
const WEIGHT = GRID.map((z) => (0.05 * Math.exp((-z * z) / 2)) / Math.sqrt(2 * Math.PI));

// E|p|² of softmax over L scores of standard deviation β: 1/S² = ∫ t e^{−tS} dt makes it an integral over
// t = e^{−x} of one token's averages. The rule's error at steps of .35 is e^{−π²/.35} = 6e-13.
export function participation(beta, context) {
  const step = 0.35, power = GRID.map((z) => Math.exp(beta * z));
  let total = 0;
  // S is between e^{−4β} and L e^{7β}, except for shares of 1e-12. Outside t e^{−tS} is smaller than that.
  for (let x = -4 * beta - 5; x < Math.log(context) + 7 * beta + 14; x += step) {
    const t = Math.exp(-x);
    let rest = 0, square = 0;
    for (let n = 0; n < power.length; n++) {
      const u = t * power[n];
      if (u > 700) break;
      const stays = WEIGHT[n] * Math.exp(-u);
      rest += stays;
      square += u * u * stays;
    }
    total += context * rest ** (context - 1) * square;
  }
  return step * total;
}
