"""The compiled loops of the linear engine: features of sequences, and steps on moments or on batches.

The loops of a step merge the indices (d, a) of W_h[d, a] and of c[d, a, b] into one axis, which is the last
one and contiguous, so that every inner loop is a vector loop. No loop may assume that numbers are finite,
because a run that diverges has to be noticed. REASSOCIATE therefore lists the transformations of float
arithmetic that the compiler may use.
"""

import numpy as np

from iclcore.extras import needs

with needs():
    from numba import njit

REASSOCIATE = {"reassoc", "contract", "arcp", "nsz"}


@njit(cache=True, fastmath=REASSOCIATE)
def fill_features(x, y, first, second, divisor, phi):
    """Set φ to x_q[d] S[a, b] / divisor for each sequence, where the query's own y counts as zero."""
    sequences, tokens, dim = x.shape
    outputs, pairs = y.shape[2], len(first)
    token, pair = np.zeros((dim + outputs, tokens)), np.empty(pairs)
    for s in range(sequences):
        token[:dim] = x[s].T
        token[dim:, :-1] = y[s, :-1].T
        for p in range(pairs):
            a, b, total = first[p], second[p], 0.0
            for m in range(tokens):
                total += token[a, m] * token[b, m]
            pair[p] = total / divisor
        for d in range(dim):
            for p in range(pairs):
                phi[s, d * pairs + p] = token[d, tokens - 1] * pair[p]


@njit(cache=True, fastmath=REASSOCIATE)
def symmetric_product(a, x, y):
    """Set y to a x for a symmetric matrix a; only its lower triangle is read, four rows at a time.

    Most of the time goes into reading ``a``. We read half of it, and so take half the time of BLAS, which
    reads all of it.
    """
    n = len(x)
    fours = n - n % 4
    y[:] = 0.0
    for i in range(0, fours, 4):
        a0, a1, a2, a3 = a[i], a[i + 1], a[i + 2], a[i + 3]
        x0, x1, x2, x3 = x[i], x[i + 1], x[i + 2], x[i + 3]
        s0 = s1 = s2 = s3 = 0.0
        for j in range(i):
            b0, b1, b2, b3, xj = a0[j], a1[j], a2[j], a3[j], x[j]
            s0 += b0 * xj
            s1 += b1 * xj
            s2 += b2 * xj
            s3 += b3 * xj
            y[j] += b0 * x0 + b1 * x1 + b2 * x2 + b3 * x3
        y[i] = s0 + a0[i] * x0 + a1[i] * x1 + a2[i] * x2 + a3[i] * x3
        y[i + 1] = s1 + a1[i] * x0 + a1[i + 1] * x1 + a2[i + 1] * x2 + a3[i + 1] * x3
        y[i + 2] = s2 + a2[i] * x0 + a2[i + 1] * x1 + a2[i + 2] * x2 + a3[i + 2] * x3
        y[i + 3] = s3 + a3[i] * x0 + a3[i + 1] * x1 + a3[i + 2] * x2 + a3[i + 3] * x3
    for i in range(fours, n):
        s, xi = 0.0, x[i]
        for j in range(i):
            s += a[i, j] * x[j]
            y[j] += a[i, j] * xi
        y[i] = s + a[i, i] * xi


@njit(cache=True, fastmath=REASSOCIATE)
def form_coefficients(w, v, o, pair, c):
    """Set the c of output o to v_h[b] w_h[d, a], summed over the heads and over equal features."""
    heads, rows = w.shape
    line = np.empty(rows)
    c[:] = 0.0
    for b in range(v.shape[2]):
        line[:] = 0.0
        for h in range(heads):
            scale = v[h, o, b]
            for k in range(rows):
                line[k] += scale * w[h, k]
        for k in range(rows):
            c[pair[b, k]] += line[k]


@njit(cache=True, fastmath=REASSOCIATE)
def add_factor_gradients(w, v, o, pair, dc, dw, dv):
    """Turn the gradient dc in the c of output o into gradients in w (added to dw) and in v_o (set in dv)."""
    heads, rows = w.shape
    line = np.empty(rows)
    for b in range(v.shape[2]):
        for k in range(rows):
            line[k] = dc[pair[b, k]]
        for h in range(heads):
            scale, total = v[h, o, b], 0.0
            for k in range(rows):
                dw[h, k] += scale * line[k]
                total += w[h, k] * line[k]
            dv[h, o, b] = total


@njit(cache=True, fastmath=REASSOCIATE)
def form_scoring(key, query, w):
    """Set w_h to Q_hᵀ K_h, with its entries in the order (d, a)."""
    heads, rank, size = key.shape
    w[:] = 0.0
    for h in range(heads):
        for r in range(rank):
            for d in range(query.shape[2]):
                scale = query[h, r, d]
                for a in range(size):
                    w[h, d * size + a] += scale * key[h, r, a]


@njit(cache=True, fastmath=REASSOCIATE)
def form_key_query_gradients(key, query, dw, dkey, dquery):
    """Set the gradients in K_h and Q_h to Q_h dW_h and K_h dW_hᵀ."""
    heads, rank, size = key.shape
    dkey[:] = 0.0
    for h in range(heads):
        for r in range(rank):
            for d in range(query.shape[2]):
                scale, total = query[h, r, d], 0.0
                for a in range(size):
                    dkey[h, r, a] += scale * dw[h, d * size + a]
                    total += key[h, r, a] * dw[h, d * size + a]
                dquery[h, r, d] = total


@njit(cache=True, fastmath=REASSOCIATE)
def optimizer_step(theta, slope, mean, square, lr, rule, step):
    """Change the weights ``theta`` by one step of an optimizer; ``step`` is its number, counted from 1.

    The optimizers and their ``rule`` are defined in ``optimisers``.
    """
    adam, beta1, beta2, eps, decay = rule
    if adam:
        rate, scale = lr / (1 - beta1**step), 1 / np.sqrt(1 - beta2**step)
        for i in range(len(theta)):
            g = slope[i] + decay * theta[i]
            mean[i] += (1 - beta1) * (g - mean[i])
            square[i] = beta2 * square[i] + (1 - beta2) * g * g
            theta[i] -= rate * mean[i] / (scale * np.sqrt(square[i]) + eps)
    elif beta1 or decay:
        for i in range(len(theta)):
            mean[i] = beta1 * mean[i] + slope[i] + decay * theta[i]
            theta[i] -= lr * mean[i]
    else:
        for i in range(len(theta)):
            theta[i] -= lr * slope[i]


@njit(cache=True, fastmath=REASSOCIATE)
def batch_error(phi, target, o, c, dc):
    """Return Σ r² over a batch, where r = cᵀφ − y for output o, and set dc to Σ r φ."""
    total = 0.0
    dc[:] = 0.0
    for s in range(len(phi)):
        r = -target[s, o]
        for f in range(len(c)):
            r += c[f] * phi[s, f]
        total += r * r
        for f in range(len(c)):
            dc[f] += r * phi[s, f]
    return total


@njit(cache=True, fastmath=REASSOCIATE, nogil=True)
def train_linear(weights, slopes, vectors, moments, batches, pair, lr, rule, done, errors, values):
    """Take ``len(errors)`` steps, and return the number of steps recorded.

    - ``vectors``: all weights, their gradient, and the two running means of the optimizer, each as one
      vector.
    - ``weights``, ``slopes``: W, K, Q and v as views of the first of these vectors, and their gradients as
      views of the second. If the model has K and Q, W is a separate array, in which Qᵀ K is computed.
    - ``moments``: gram, cross and power of several data sets. Without ``batches``, the first set is trained
      on. On the other sets, only the error is measured.
    - ``batches``: φ (steps, rows, F) and targets (steps, rows, O), with one batch for each step. If there are
      batches, they are trained on, and on all sets of ``moments`` only the error is measured.
    - ``done``: the number of earlier steps.

    The loop stops at the first loss that is not finite, which is the last one recorded.
    """
    w, key, query, v = weights
    dw, dkey, dquery, dv = slopes
    gram, cross, power = moments
    phi, target = batches
    outputs, size = v.shape[1], phi.shape[2]
    c, product, dc = np.empty((outputs, size)), np.empty(size), np.empty(size)
    separate, fresh = key.shape[2] > 0, len(phi) > 0
    for step in range(len(errors)):
        if separate:
            form_scoring(key, query, w)
        values[step] = v[:, -1, -1]
        dw[:] = 0.0
        for o in range(outputs):
            form_coefficients(w, v, o, pair, c[o])
        if fresh:
            total, mean = 0.0, 1 / (outputs * phi.shape[1])
            for o in range(outputs):
                total += batch_error(phi[step], target[step], o, c[o], dc)
                for f in range(size):
                    dc[f] *= 2 * mean
                add_factor_gradients(w, v, o, pair, dc, dw, dv)
            errors[step, 0] = total * mean
        for m in range(len(power)):
            total = 0.0
            for o in range(outputs):
                symmetric_product(gram[m], c[o], product)
                for f in range(size):
                    total += c[o, f] * (product[f] - 2 * cross[m, o, f])
                if m == 0 and not fresh:
                    for f in range(size):
                        dc[f] = 2 / outputs * (product[f] - cross[0, o, f])
                    add_factor_gradients(w, v, o, pair, dc, dw, dv)
            errors[step, m + fresh] = power[m] + total / outputs
        if not np.isfinite(errors[step, 0]):
            return step + 1
        if separate:
            form_key_query_gradients(key, query, dw, dkey, dquery)
        optimizer_step(*vectors, lr, rule, done + step + 1)
    return len(errors)
