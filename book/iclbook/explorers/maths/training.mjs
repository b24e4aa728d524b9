// @ts-check
// Full-batch gradient descent of softmax and linear attention on drawn sequences, for a worker.
//
// A head is W_h (D x E) and v_h (E). With u = W_hᵀ x_q, softmax predicts Σ_h v_h·Σ_m p_m token_m, where
// p = softmax(u·token_m). Linear attention predicts Σ_h u·S v_h, where S is the mean of token tokenᵀ over
// the context and the query.

import { normals, start } from "./engine.mjs";

// P sequences of T tokens (x, y) in the eigenbasis, and their answers. The query is the last token; its y is 0.
export function drawSequences({ eigenvalues, context, sequences, seed }) {
  const dim = eigenvalues.length, size = dim + 1, length = context + 1;
  const z = normals(seed + 1_000_000, sequences * dim * (length + 1));
  const tokens = new Float64Array(sequences * length * size), answers = new Float64Array(sequences);
  for (let p = 0, from = 0; p < sequences; p++) {
    const w = z.subarray(from, from += dim);
    for (let n = 0; n < length; n++, from += dim) {
      let y = 0;
      const at = (p * length + n) * size;
      for (let d = 0; d < dim; d++) {
        tokens[at + d] = Math.sqrt(eigenvalues[d]) * z[from + d];
        y += tokens[at + d] * w[d];
      }
      if (n < context) tokens[at + dim] = y;
      else answers[p] = y;
    }
  }
  return { dim, length, sequences, tokens, answers, mean: null };
}

// S of every sequence.
export function secondMoments({ dim, length, sequences, tokens }) {
  const size = dim + 1, mean = new Float64Array(sequences * size * size);
  for (let p = 0; p < sequences; p++) {
    for (let n = 0; n < length; n++) {
      const at = (p * length + n) * size;
      for (let a = 0; a < size; a++) {
        for (let b = 0; b < size; b++) {
          mean[(p * size + a) * size + b] += (tokens[at + a] * tokens[at + b]) / length;
        }
      }
    }
  }
  return mean;
}

// Returns the mean squared error, and writes its gradients into dw and dv.
export function attentionPass(softmax, heads, w, v, data, dw, dv) {
  const { dim, length, sequences, tokens, answers, mean } = data, size = dim + 1;
  const u = new Float64Array(heads * size), probability = new Float64Array(heads * length);
  const sums = new Float64Array(heads * size), turned = new Float64Array(size);
  let loss = 0;
  dw.fill(0);
  dv.fill(0);
  for (let p = 0; p < sequences; p++) {
    const from = p * length * size, query = from + (length - 1) * size;
    let residual = -answers[p];
    u.fill(0);
    for (let h = 0; h < heads; h++) {
      for (let d = 0; d < dim; d++) {
        for (let a = 0; a < size; a++) {
          u[h * size + a] += tokens[query + d] * w[(h * dim + d) * size + a];
        }
      }
      for (let a = 0; a < size; a++) sums[h * size + a] = 0;
      if (softmax) {
        let top = -Infinity, mass = 0;
        for (let n = 0; n < length; n++) {
          let score = 0;
          for (let a = 0; a < size; a++) score += u[h * size + a] * tokens[from + n * size + a];
          probability[h * length + n] = score;
          if (score > top) top = score;
        }
        for (let n = 0; n < length; n++) {
          mass += probability[h * length + n] = Math.exp(probability[h * length + n] - top);
        }
        for (let n = 0; n < length; n++) {
          const share = (probability[h * length + n] /= mass);
          for (let a = 0; a < size; a++) sums[h * size + a] += share * tokens[from + n * size + a];
        }
      } else {
        for (let a = 0; a < size; a++) {
          for (let b = 0; b < size; b++) {
            sums[h * size + b] += u[h * size + a] * mean[(p * size + a) * size + b];
          }
        }
      }
      for (let a = 0; a < size; a++) residual += v[h * size + a] * sums[h * size + a];
    }
    loss += residual * residual;
    for (let h = 0; h < heads; h++) {
      turned.fill(0);
      let slope = 0;
      for (let a = 0; a < size; a++) {
        dv[h * size + a] += residual * sums[h * size + a];
        slope += v[h * size + a] * sums[h * size + a];
      }
      if (softmax) {
        for (let n = 0; n < length; n++) {
          let each = -slope;
          for (let a = 0; a < size; a++) each += v[h * size + a] * tokens[from + n * size + a];
          each *= probability[h * length + n];
          for (let a = 0; a < size; a++) turned[a] += each * tokens[from + n * size + a];
        }
      } else {
        for (let a = 0; a < size; a++) {
          for (let b = 0; b < size; b++) {
            turned[a] += mean[(p * size + a) * size + b] * v[h * size + b];
          }
        }
      }
      for (let d = 0; d < dim; d++) {
        for (let a = 0; a < size; a++) {
          dw[(h * dim + d) * size + a] += residual * tokens[query + d] * turned[a];
        }
      }
    }
  }
  for (let i = 0; i < dw.length; i++) dw[i] *= 2 / sequences;
  for (let i = 0; i < dv.length; i++) dv[i] *= 2 / sequences;
  return loss / sequences;
}

// For the tokens of the first sequence and each head: their weights (of linear attention, score over T), what
// they add to the answer (weight times v_h·token), and how much of the head's score is read from labels.
export function tokenWeights(softmax, heads, { form, w, v }, { dim, length, tokens }) {
  const size = dim + 1, query = (length - 1) * size, adds = [], looks = [], labels = [];
  form();
  for (let h = 0; h < heads; h++) {
    const look = [], squares = [0, 0];
    for (let n = 0; n < length; n++) {
      let score = 0, label = 0;
      for (let d = 0; d < dim; d++) {
        for (let a = 0; a < size; a++) {
          const part = tokens[query + d] * w[(h * dim + d) * size + a] * tokens[n * size + a];
          score += part;
          if (a === dim) label += part;
        }
      }
      look.push(score);
      squares[0] += (score - label) ** 2;
      squares[1] += label ** 2;
    }
    labels.push(squares[1] / (squares[0] + squares[1]));
    const top = Math.max(...look),
      powers = look.map((each) => Math.exp(each - top)),
      mass = powers.reduce((total, each) => total + each);
    looks.push(softmax ? powers.map((each) => each / mass) : look.map((each) => each / length));
    adds.push(looks[h].map((share, n) => {
      let answer = 0;
      for (let a = 0; a < size; a++) answer += share * v[h * size + a] * tokens[n * size + a];
      return answer;
    }));
  }
  return { looks, adds, labels };
}

// One model. step() takes one step and returns the loss before it.
export function trainee(softmax, model, data, lr) {
  const { kind, dim, heads } = model, size = dim + 1, first = start(model);
  const w = new Float64Array(heads * dim * size), v = new Float64Array(heads * size);
  const dw = w.slice(),
    dv = v.slice(),
    key = new Float64Array(heads * size),
    { q: query, k, u } = first;
  for (let h = 0; h < heads; h++) {
    v[h * size + dim] = first.v[h];
    for (let a = 0; a < dim; a++) {
      if (kind === "separate") key[h * size + a] = k[h * dim + a];
      else for (let d = 0; d < dim; d++) w[(h * dim + d) * size + a] = u[(h * dim + a) * dim + d];
    }
  }
  const form = () => {
    if (kind === "separate") {
      for (let h = 0; h < heads; h++) {
        for (let d = 0; d < dim; d++) {
          for (let a = 0; a < size; a++) {
            w[(h * dim + d) * size + a] = query[h * dim + d] * key[h * size + a];
          }
        }
      }
    }
  };
  const step = () => {
    form();
    const loss = attentionPass(softmax, heads, w, v, data, dw, dv);
    for (let i = 0; i < v.length; i++) v[i] -= lr * dv[i];
    if (kind === "merged") { for (let i = 0; i < w.length; i++) w[i] -= lr * dw[i]; }
    else {
      for (let h = 0; h < heads; h++) {
        const old = key.slice(h * size, (h + 1) * size);
        for (let d = 0; d < dim; d++) {
          const each = query[h * dim + d];
          let total = 0;
          for (let a = 0; a < size; a++) {
            total += old[a] * dw[(h * dim + d) * size + a];
            key[h * size + a] -= lr * each * dw[(h * dim + d) * size + a];
          }
          query[h * dim + d] -= lr * total;
        }
      }
    }
    return loss;
  };
  return { step, form, w, v, key, query, lr, moved: kind === "merged" ? [v, w] : [v, key, query] };
}

// The largest learning rate at which a model can stay where it is, 2/sharpness. Power iteration on differences
// of the gradient, which steps from both sides show. It is shifted, so that it does not find the way down
// from a saddle.
export function edge({ step, moved, lr }) {
  const here = moved.map((each) => each.slice()), reach = 1e-4;
  const gradientAt = (x, sign) => {
    moved.forEach((each, k) =>
      each.forEach((_, i) => {
        each[i] = here[k][i] + sign * reach * x[k][i];
      })
    );
    const from = moved.map((each) => each.slice());
    step();
    return moved.map((each, k) => each.map((value, i) => (from[k][i] - value) / lr));
  };
  const dot = (a, b) =>
    a.reduce(
      (total, each, k) => total + each.reduce((sum, value, i) => sum + value * b[k][i], 0),
      0,
    );
  let x = here.map((each) => each.map((_, i) => Math.sin(i + 1))), size = 0, shift = 0;
  for (let round = 0; round < 300; round++) {
    const length = Math.sqrt(dot(x, x)), before = size;
    x = x.map((each) => each.map((value) => value / length));
    const [up, down] = [gradientAt(x, 1), gradientAt(x, -1)];
    const turned = up.map((each, k) => each.map((value, i) => (value - down[k][i]) / (2 * reach)));
    size = dot(turned, x);
    if (round === 20) shift = Math.sqrt(dot(turned, turned));
    else if (round > 20 && Math.abs(size - before) <= 1e-6 * Math.abs(size)) break;
    x = turned.map((each, k) => each.map((value, i) => value + shift * x[k][i]));
  }
  moved.forEach((each, k) => each.set(here[k]));
  return 2 / size;
}

// The worker. It trains both models, one slice of time after another, and reports after each.
export function work() {
  const SLICE = 60;
  let run = null, waiting = null;
  const seen = () =>
    [true, false].map((softmax, i) => tokenWeights(softmax, run.heads, run.models[i], run.data));
  const advance = (atMost) => {
    const until = performance.now() + SLICE;
    for (
      let n = 0;
      n < atMost && run.left === null && run.at <= run.steps && performance.now() < until;
      n++, run.at++
    ) {
      // the values before the step, which have this loss
      const value = run.models.map(({ v }) =>
        Array.from({ length: run.heads }, (_, h) => v[(h + 1) * (run.dim + 1) - 1])
      );
      if (run.at === run.steps) [run.tokens, run.edges] = [seen(), run.models.map(edge)];
      const losses = run.models.map((each) => each.step());
      if (!losses.every((each) => each < 1e3)) run.left = run.at;
      losses.forEach((each, i) => {
        run.rises[i] += each > run.last[i] * (1 + 1e-9);
      });
      run.last = losses;
      if (run.at % run.stride === 0 || run.at === run.steps || run.left !== null) {
        run.rows.push({ at: run.at, losses, value });
      }
    }
    const done = run.at > run.steps || run.left !== null;
    if (!done) run.tokens = seen();
    const { rises, left, rows, tokens, edges } = run;
    postMessage({
      rows: rows.splice(0),
      tokens,
      edges,
      at: Math.min(run.at, run.steps),
      done,
      left,
      rises,
    });
    return done;
  };
  const go = () => {
    waiting = advance(Infinity) ? null : setTimeout(go, 0);
  };
  onmessage = ({ data: { begin, pause, step } }) => {
    clearTimeout(waiting);
    if (begin) {
      const data = drawSequences(begin), { dim } = data;
      data.mean = secondMoments(data);
      const model = {
        kind: begin.kind,
        dim,
        heads: begin.heads,
        rank: 1,
        init: begin.init,
        seed: begin.seed,
      };
      const models = [true, false].map((softmax) => trainee(softmax, model, data, begin.lr));
      run = {
        models,
        data,
        dim,
        heads: begin.heads,
        at: 0,
        steps: begin.steps,
        rises: [0, 0],
        last: [Infinity, Infinity],
        stride: Math.max(1, Math.ceil(begin.steps / 400)),
        rows: [],
        left: null,
      };
    }
    if (step) advance(run.stride);
    else if (!pause && !begin) go();
  };
}
