// @ts-check
// The gradient flow of multi-head softmax attention on several tasks, as in iclcore.heads.theory.
//
// Loss_i = s_i [(1 − Σ_h μ_i^h ω_i^h)² + (φ_i/L) μ_iᵀ B μ_i],  B_hh' = exp(x), x = Σ_j d_j ω_j^h ω_j^h'.
// If softmax is mixed with linear attention (mixed.py), `soft` is its share squared: B = (1 − soft) x + soft exp(x),
// and the loss also has the term (1 − soft)(Σ_h μω)²/L of linear attention.
// ω and μ are (H x I), head after head, and positive. The flow runs in their logarithms, so that round-off
// cannot take a decayed weight across zero.

export function multiTask(dims, context, { signal = dims, noise = 0, soft = 1 } = {}) {
  const phi = signal.map((s) => 1 + noise / s);
  return { dims, context, signal, phi, soft, width: dims.reduce((a, b) => a + b, 0) };
}

// Writes B into `b` and its slope dB/dx into `slope`.
function overlap({ dims, soft }, heads, omega, b, slope) {
  const tasks = dims.length;
  for (let h = 0; h < heads; h++) {
    for (let g = 0; g <= h; g++) {
      let exponent = 0;
      for (let i = 0; i < tasks; i++) {
        exponent += dims[i] * omega[h * tasks + i] * omega[g * tasks + i];
      }
      const power = soft * Math.exp(exponent);
      b[h * heads + g] = b[g * heads + h] = (1 - soft) * exponent + power;
      slope[h * heads + g] = slope[g * heads + h] = 1 - soft + power;
    }
  }
}

// The loss of each task.
export function losses(task, heads, omega, mu) {
  const { dims, signal, phi, context } = task, tasks = dims.length;
  const b = new Float64Array(heads * heads), rest = (1 - task.soft) / context;
  overlap(task, heads, omega, b, b.slice());
  return dims.map((_, i) => {
    let bias = 1, variance = 0;
    for (let h = 0; h < heads; h++) {
      bias -= mu[h * tasks + i] * omega[h * tasks + i];
      for (let g = 0; g < heads; g++) {
        variance += mu[h * tasks + i] * b[h * heads + g] * mu[g * tasks + i];
      }
    }
    return signal[i] * (bias * bias + rest * (1 - bias) ** 2 + (phi[i] / context) * variance);
  });
}

// d(log ω, log μ)/dt, where time is the sum of learning rates.
function speed(task, heads) {
  const { dims, signal, phi, context, width } = task, tasks = dims.length, size = heads * tasks;
  const omega = new Float64Array(size), mu = new Float64Array(size);
  const b = new Float64Array(heads * heads),
    slope = b.slice(),
    m = b.slice(),
    rest = 1 + (1 - task.soft) / context;
  const load = signal.map((s, i) => (s * phi[i]) / context);
  return (u, out) => {
    for (let i = 0; i < size; i++) {
      omega[i] = Math.exp(u[i]);
      mu[i] = Math.exp(u[size + i]);
    }
    overlap(task, heads, omega, b, slope);
    for (let h = 0; h < heads; h++) {
      for (let g = 0; g <= h; g++) {
        let total = 0;
        for (let i = 0; i < tasks; i++) total += load[i] * mu[h * tasks + i] * mu[g * tasks + i];
        m[h * heads + g] = m[g * heads + h] = total * slope[h * heads + g];
      }
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

// Steps of Gragg, Bulirsch and Stoer: the modified midpoint rule with 2, 4, 6 … substeps, extrapolated to steps
// of length 0 until two columns agree to `tolerance`. A step returns how many columns it took, or 0 if they
// come no closer. The arrays are made once, since a run takes some hundred steps.
const COLUMNS = 9;
const CLOSER = Array.from(
  { length: COLUMNS + 1 },
  (_, k) => Array.from({ length: k }, (_, j) => 1 / ((k / (k - j)) ** 2 - 1)),
);
function stepper(f, n, tolerance) {
  const vector = () => new Float64Array(n),
    [first, z0, z1, slope] = [vector(), vector(), vector(), vector()];
  const row = Array.from({ length: COLUMNS }, vector); // the extrapolation so far
  return (y, length, next) => {
    f(y, first);
    let worst = Infinity;
    for (let k = 1; k <= COLUMNS; k++) {
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
      let error = 0;
      for (let i = 0; i < n; i++) {
        let value = (z0[i] + z1[i] + h * slope[i]) / 2, last = value;
        for (let j = 1; j < k; j++) {
          const before = row[j - 1][i];
          last = row[j - 1][i] = value;
          value += (value - before) * CLOSER[k][j];
        }
        row[k - 1][i] = value;
        const gap = Math.abs(value - last);
        if (!(gap <= error)) error = gap; // also if the gap is no number
      }
      if (k === 1) continue;
      if (error < tolerance) {
        next.set(row[k - 1]);
        return k;
      }
      if (!(error < 1e3) || (k > 2 && error > worst)) return 0;
      worst = error;
    }
    return 0;
  };
}

// How much longer the next step is, by the columns that this one took. Each costs more than the one before.
const GROW = [0, 0, 3, 2, 1.7, 1.4, 1.15, 1, 0.85, 0.7];

// ω, μ and the losses at increasing times, of which the first is the start's.
export function flow(task, heads, omega0, mu0, times, tolerance = 1e-10) {
  const size = heads * task.dims.length, go = stepper(speed(task, heads), 2 * size, tolerance);
  const y = Float64Array.from([...omega0, ...mu0], Math.log),
    next = y.slice(),
    omega = [],
    mu = [],
    loss = [];
  let t = times[0], length = times[1] - t;
  for (const until of times) {
    while (t < until) {
      const rest = until - t,
        step = rest / Math.ceil(rest / length - 1e-9),
        columns = go(y, step, next);
      if (columns) {
        y.set(next);
        t = step === rest ? until : t + step;
        const longer = step * GROW[columns];
        // A step that a time has cut short says little about how long the next can be.
        length = step < rest || longer < step ? longer : Math.max(length, longer);
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

// The shares 0 ≤ m_i ≤ 1 of the tasks `own`, with sum `budget`, for which Σ s_i / (1 + L m_i/(φ_i d_i)) is
// least. Their sum grows piecewise linearly with the water's level.
export function waterFilling({ dims, context, signal, phi }, budget, own = dims.map((_, i) => i)) {
  const depth = own.map((i) => (phi[i] * dims[i]) / context),
    root = own.map((i, n) => Math.sqrt(signal[i] * depth[n]));
  const shares = (level) =>
    depth.map((each, n) => Math.min(1, Math.max(0, level * root[n] - each)));
  const filled = (level) => shares(level).reduce((a, b) => a + b, 0);
  const levels = depth.flatMap((each, n) => [each / root[n], (1 + each) / root[n]]).sort((a, b) =>
    a - b
  );
  const above = levels.findIndex((each) => filled(each) >= budget);
  if (above < 0) return own.map(() => 1);
  const [from, to] = [levels[above - 1], levels[above]], low = filled(from), high = filled(to);
  return shares(from + ((to - from) * (budget - low)) / (high - low));
}

// The loss of a task that has share m.
export const left = ({ dims, context, signal, phi }, i, m) =>
  signal[i] / (1 + (context * m) / (phi[i] * dims[i]));

// The best single head for the tasks `own`: water filling with the budget 1/e, where Σ_j d_j ω_j² = 1.
export function oneHead(task, own) {
  return waterFilling(task, 1 / Math.E, own).map((m, n) => {
    const i = own[n], omega = Math.sqrt((Math.E * m) / task.dims[i]);
    return {
      task: i,
      m,
      omega,
      mu: omega / (omega * omega + (Math.E * task.phi[i]) / task.context),
      loss: left(task, i, m),
    };
  });
}
