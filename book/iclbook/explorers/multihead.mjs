// Gradient flow of multi-head softmax attention on several tasks: iclcore.theory.multihead.
//
// Loss_i = s_i [(1 − Σ_h μ_i^h ω_i^h)² + (φ_i/L) μ_iᵀ B μ_i],  B_hh' = exp(x), x = Σ_j d_j ω_j^h ω_j^h'.
// Where softmax is mixed with linear attention (mixed.py), `soft` is its share squared: B = (1 − soft) x + soft exp(x),
// and linear attention's own term (1 − soft)(Σ_h μω)²/L comes to the loss.
// ω and μ are (H x I), head after head, and positive: the flow runs in their logarithms, where no
// decayed weight can cross zero by round-off.

export function multiTask(dims, context, { signal = dims, noise = 0, soft = 1 } = {}) {
  const phi = signal.map((s) => 1 + noise / s);
  return { dims, context, signal, phi, soft, width: dims.reduce((a, b) => a + b, 0) };
}

// B into `b`, and its slope dB/dx into `slope`.
function overlap({ dims, soft }, heads, omega, b, slope) {
  const tasks = dims.length;
  for (let h = 0; h < heads; h++)
    for (let g = 0; g <= h; g++) {
      let exponent = 0;
      for (let i = 0; i < tasks; i++) exponent += dims[i] * omega[h * tasks + i] * omega[g * tasks + i];
      const power = soft * Math.exp(exponent);
      b[h * heads + g] = b[g * heads + h] = (1 - soft) * exponent + power;
      slope[h * heads + g] = slope[g * heads + h] = 1 - soft + power;
    }
}

// Each task's loss.
export function losses(task, heads, omega, mu) {
  const { dims, signal, phi, context } = task, tasks = dims.length;
  const b = new Float64Array(heads * heads), rest = (1 - task.soft) / context;
  overlap(task, heads, omega, b, b.slice());
  return dims.map((_, i) => {
    let bias = 1, variance = 0;
    for (let h = 0; h < heads; h++) {
      bias -= mu[h * tasks + i] * omega[h * tasks + i];
      for (let g = 0; g < heads; g++) variance += mu[h * tasks + i] * b[h * heads + g] * mu[g * tasks + i];
    }
    return signal[i] * (bias * bias + rest * (1 - bias) ** 2 + (phi[i] / context) * variance);
  });
}

// d(log ω, log μ)/dt, time being the sum of learning rates.
function speed(task, heads) {
  const { dims, signal, phi, context, width } = task, tasks = dims.length, size = heads * tasks;
  const omega = new Float64Array(size), mu = new Float64Array(size);
  const b = new Float64Array(heads * heads), slope = b.slice(), m = b.slice(), rest = 1 + (1 - task.soft) / context;
  const load = signal.map((s, i) => (s * phi[i]) / context);
  return (u, out) => {
    for (let i = 0; i < size; i++) {
      omega[i] = Math.exp(u[i]);
      mu[i] = Math.exp(u[size + i]);
    }
    overlap(task, heads, omega, b, slope);
    for (let h = 0; h < heads; h++)
      for (let g = 0; g <= h; g++) {
        let total = 0;
        for (let i = 0; i < tasks; i++) total += load[i] * mu[h * tasks + i] * mu[g * tasks + i];
        m[h * heads + g] = m[g * heads + h] = total * slope[h * heads + g];
      }
    for (let i = 0; i < tasks; i++) {
      let residual = 1;
      for (let h = 0; h < heads; h++) residual -= rest * mu[h * tasks + i] * omega[h * tasks + i];
      residual *= signal[i];
      const rate = 2 / (Math.sqrt(width) * dims[i]);
      for (let h = 0; h < heads; h++) {
        let spread = 0, weight = 0;
        for (let g = 0; g < heads; g++) {
          spread += m[h * heads + g] * omega[g * tasks + i];
          weight += b[h * heads + g] * mu[g * tasks + i];
        }
        const at = h * tasks + i;
        out[at] = -rate * 2 * (dims[i] * spread - residual * mu[at]);
        out[size + at] = -4 * (load[i] * weight - residual * omega[at]);
      }
    }
  };
}

// One step of Gragg, Bulirsch and Stoer: the modified midpoint rule with 2, 4, 6 … substeps,
// extrapolated to none, until two columns agree to `tolerance`. False if they do not.
function extrapolate(f, y, length, tolerance, next) {
  const n = y.length, first = new Float64Array(n), z0 = new Float64Array(n), z1 = new Float64Array(n);
  const slope = new Float64Array(n), table = [];
  f(y, first);
  for (let k = 1; k <= 9; k++) {
    const count = 2 * k, h = length / count;
    for (let i = 0; i < n; i++) {
      z0[i] = y[i];
      z1[i] = y[i] + h * first[i];
    }
    for (let s = 1; s < count; s++) {
      f(z1, slope);
      for (let i = 0; i < n; i++) {
        const z = z0[i] + 2 * h * slope[i];
        z0[i] = z1[i];
        z1[i] = z;
      }
    }
    f(z1, slope);
    const row = [new Float64Array(n)];
    for (let i = 0; i < n; i++) row[0][i] = (z0[i] + z1[i] + h * slope[i]) / 2;
    for (let j = 1; j < k; j++) {
      const ratio = (k / (k - j)) ** 2 - 1, better = row[j - 1], other = table[j - 1];
      row.push(better.map((each, i) => each + (each - other[i]) / ratio));
    }
    if (k > 1) {
      let error = 0;
      for (let i = 0; i < n; i++) error = Math.max(error, Math.abs(row[k - 1][i] - row[k - 2][i]));
      if (error < tolerance) {
        next.set(row[k - 1]);
        return true;
      }
      if (!(error < 1e3)) return false;
    }
    table.splice(0, table.length, ...row);
  }
  return false;
}

// (ω, μ) at increasing times, the first being the start's.
export function flow(task, heads, omega0, mu0, times, tolerance = 1e-11) {
  const size = heads * task.dims.length, f = speed(task, heads);
  let y = Float64Array.from([...omega0, ...mu0], Math.log), t = times[0];
  const next = new Float64Array(2 * size), omega = [], mu = [], loss = [];
  let length = times[1] - times[0];
  for (const until of times) {
    while (t < until) {
      const step = Math.min(length, until - t);
      if (extrapolate(f, y, step, tolerance, next)) {
        y.set(next);
        t = step === until - t ? until : t + step;
        length = Math.max(length, 2 * step);
      } else {
        length = step / 2;
        if (length < 1e-9) return { omega, mu, loss };
      }
    }
    omega.push(y.slice(0, size).map(Math.exp));
    mu.push(y.slice(size).map(Math.exp));
    loss.push(losses(task, heads, omega.at(-1), mu.at(-1)));
  }
  return { omega, mu, loss };
}

// The shares 0 ≤ m_i ≤ 1 of the tasks `own` with sum `budget` that leave the least Σ s_i / (1 + L m_i/(φ_i d_i)):
// what is filled grows piecewise linearly with the level.
export function waterFilling({ dims, context, signal, phi }, budget, own = dims.map((_, i) => i)) {
  const depth = own.map((i) => (phi[i] * dims[i]) / context), root = own.map((i, n) => Math.sqrt(signal[i] * depth[n]));
  const shares = (level) => depth.map((each, n) => Math.min(1, Math.max(0, level * root[n] - each)));
  const filled = (level) => shares(level).reduce((a, b) => a + b, 0);
  const levels = depth.flatMap((each, n) => [each / root[n], (1 + each) / root[n]]).sort((a, b) => a - b);
  const above = levels.findIndex((each) => filled(each) >= budget);
  if (above < 0) return own.map(() => 1);
  const [from, to] = [levels[above - 1], levels[above]], low = filled(from), high = filled(to);
  return shares(from + ((to - from) * (budget - low)) / (high - low));
}

// What is left of a task's loss with share m.
export const left = ({ dims, context, signal, phi }, i, m) => signal[i] / (1 + (context * m) / (phi[i] * dims[i]));

// The best single head for the tasks `own`: water filling with the budget 1/e, which is Σ_j d_j ω_j² = 1.
export function oneHead(task, own) {
  return waterFilling(task, 1 / Math.E, own).map((m, n) => {
    const i = own[n], omega = Math.sqrt((Math.E * m) / task.dims[i]);
    return { task: i, m, omega, mu: omega / (omega * omega + (Math.E * task.phi[i]) / task.context), loss: left(task, i, m) };
  });
}
