"""The loops of the linear engine in plain NumPy, without a compiler.

The functions have the same arguments and results as those in ``loops``, and the tests compare the two
modules. A run uses these loops if numba is not installed, for instance in a browser.
"""

import numpy as np

from iclcore.models import scoring, scoring_gradients


def fill_features(x, y, first, second, divisor, phi):
    """Set φ to x_q[d] S[a, b] / divisor for each sequence. In S, the query's own y counts as zero."""
    token = np.concatenate([x, y], axis=2, dtype=float)
    token[:, -1, x.shape[2] :] = 0
    pair = (token.swapaxes(1, 2) @ token)[:, first, second] / divisor
    phi[:] = (x[:, -1, :, None] * pair[:, None]).reshape(phi.shape)


def form_coefficients(w, v, pair, size):
    """Return c (…, O, F): the sums of v_h[b] w_h[d, a] over the heads and over equal features."""
    terms = np.einsum("...hk,...hob->...obk", w, v)
    rows = [np.bincount(pair.flat, term.flat, size) for term in terms.reshape(-1, *pair.shape)]
    return np.reshape(rows, (*terms.shape[:-2], size))


def factor_gradients(w, v, pair, dc):
    """Return the gradients with respect to w and v, given the gradient ``dc`` with respect to c."""
    terms = dc[:, pair].reshape(-1, w.shape[1])
    return v.reshape(len(v), -1) @ terms, (w @ terms.T).reshape(v.shape)


def optimizer_step(theta, slope, mean, square, lr, rule, step):
    """Change the weights ``theta`` by one step of an optimizer. ``step`` counts the steps from 1."""
    adam, beta1, beta2, eps, decay = rule
    g = slope + decay * theta
    if adam:
        mean += (1 - beta1) * (g - mean)
        square += (1 - beta2) * (g * g - square)
        scale = np.sqrt(square / (1 - beta2**step)) + eps
        theta -= lr / (1 - beta1**step) * mean / scale
    else:
        mean[:] = beta1 * mean + g
        theta -= lr * mean


@np.errstate(all="ignore")  # no warnings, because a loss that is not finite ends the run
def train_linear(weights, slopes, vectors, moments, batches, pair, lr, rule, done, errors, values):
    """Take ``len(errors)`` steps, and return the number of steps recorded; see ``loops.train_linear``."""
    w, key, query, v = weights
    dw, dkey, dquery, dv = slopes
    gram, cross, power = moments
    phi, target = batches
    outputs, fresh, separate = v.shape[1], len(phi) > 0, key.size > 0
    for step in range(len(errors)):
        if separate:
            w[:] = scoring((key, query, v)).reshape(w.shape)
        values[step] = v[:, -1, -1]
        c = form_coefficients(w, v, pair, phi.shape[2])
        products = c @ gram
        errors[step, fresh:] = power + np.sum(c * (products - 2 * cross), axis=(1, 2)) / outputs
        if fresh:
            residual = phi[step] @ c.T - target[step]
            errors[step, 0] = np.mean(residual**2)
            dc = 2 / residual.size * residual.T @ phi[step]
        else:
            dc = 2 / outputs * (products[0] - cross[0])
        if not np.isfinite(errors[step, 0]):
            return step + 1
        dw[:], dv[:] = factor_gradients(w, v, pair, dc)
        if separate:
            dw_matrices = dw.reshape(len(dw), query.shape[2], key.shape[2])
            dkey[:], dquery[:] = scoring_gradients((key, query, v), dw_matrices)
        optimizer_step(*vectors, lr, rule, done + step + 1)
    return len(errors)
