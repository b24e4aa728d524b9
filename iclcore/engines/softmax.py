"""The softmax engine: full-batch gradient descent by a compiled pass over the query's row of attention.

No finite set of moments determines softmax attention, so each step has to visit the data. A step needs
neither the other rows of attention nor the value of each token, because Σ_m p_m V token_m =
V (Σ_m p_m token_m). Sequences are stored in blocks of WIDTH, and the last axis of every array is the number k
of a sequence within its block, so that each inner loop is a vector loop over k. Sums within a block are
float32, as in the published code, and sums over blocks are float64.
"""

import numpy as np
from numpy.polynomial import Chebyshev, Polynomial

from iclcore.engines.base import StepwiseEngine
from iclcore.loops import REASSOCIATE, njit
from iclcore.models import Factors, Model, scoring, scoring_gradients
from iclcore.task import Sequences, divide_by

WIDTH = 128  # sequences in a block: its arrays stay in the cache
FOUR = 4 * WIDTH  # four tokens at a time, so that one sum over the four is stored only once
POWERS = Chebyshev.interpolate(np.exp2, 5, [-0.5, 0.5]).convert(kind=Polynomial).coef  # to 2e-7
C0, C1, C2, C3, C4, C5 = POWERS.astype(np.float32)
ZERO, ONE, HALF, LOWEST = np.array([0, 1, 0.5, -126], dtype=np.float32)


class SoftmaxEngine(StepwiseEngine):
    """Train a softmax model on sequences by plain gradient descent."""

    def prepare(self, train: Sequences, tests: list[Sequences]) -> None:
        self.train, *self.tests = (QueryRow(self.model, data) for data in (train, *tests))

    def error(self, test: "QueryRow") -> float:
        return test.gradient(self.views)[0]

    def gradient(self) -> tuple[float, Factors]:
        return self.train.gradient(self.views)


class QueryRow:
    """A data set in blocks, on which the mean squared error of a model and its gradient are computed."""

    def __init__(self, model: Model, data: Sequences):
        self.count = len(data) * len(data.lengths) * data.outputs
        self.lengths = []
        for tokens, answers in data.prefixes():
            sequences, n, size = tokens.shape
            divisor, query = divide_by(model.divisor, n), tokens[:, -1, : data.dim]
            fours = np.pad(tokens, [(0, 0), (0, -n % 4), (0, 0)]).reshape(sequences, -1, 4, size)
            blocks = _blocks(fours.swapaxes(2, 3))  # (blocks, fours of tokens, E, 4, WIDTH)
            blocks = blocks.reshape(*blocks.shape[:3], FOUR)
            self.lengths.append((blocks, _blocks(query), _blocks(answers * divisor), n, divisor))

    @np.errstate(all="ignore")  # a number too large for float32 gives an error that is not finite
    def gradient(self, factors: Factors) -> tuple[float, Factors]:
        """Return the error of the model with the factors (W, v) or (K, Q, v), and its gradient in these."""
        w, v = scoring(factors).swapaxes(1, 2), factors[-1].swapaxes(0, 1)
        weights = [a.astype(np.float32, order="C") for a in (w / np.log(2), v)]  # e^x = 2^(x/ln 2)
        dw, dv = np.zeros(w.shape), np.zeros(v.shape)
        total = sum(query_row(*weights, *data, dw, dv) for data in self.lengths)
        dw, dv = 2 / self.count * dw.swapaxes(1, 2), 2 / self.count * dv.swapaxes(0, 1)
        return total / self.count, (*scoring_gradients(factors, dw), dv)


def _blocks(numbers: np.ndarray) -> np.ndarray:
    """Return sequences (P, …) as float32 blocks (blocks, …, WIDTH), with zeros at the end of the last one."""
    numbers = np.pad(numbers, [(0, -len(numbers) % WIDTH), *[(0, 0)] * (numbers.ndim - 1)])
    blocks = np.moveaxis(numbers.reshape(-1, WIDTH, *numbers.shape[1:]), 1, -1)
    aligned = zeros(blocks.shape)
    with np.errstate(over="ignore"):  # a number too large for float32 becomes infinite
        aligned[...] = blocks
    return aligned


# -- compiled: b is a block, k a sequence in a block, h a head, m a token, e an entry of a token ----


@njit(cache=True)
def zeros(shape):
    """Return float32 zeros that start at a cache line.

    The processor has to read a vector twice if it lies across two cache lines.
    """
    size = np.prod(np.array(shape))
    longer = np.zeros(size + 16, dtype=np.float32)
    first = -(longer.ctypes.data // 4) % 16
    return longer[first : first + size].reshape(shape)


@njit(cache=True, fastmath=REASSOCIATE)
def power_of_two(x):
    """Return 2^x for x ≤ 0: the nearest whole number sets the exponent bits; a polynomial does the rest."""
    x = LOWEST if x < LOWEST else x  # float32 has no lower exponent; nan stays nan
    n = np.int32(x - HALF)
    r = x - np.float32(n)
    series = ((((C5 * r + C4) * r + C3) * r + C2) * r + C1) * r + C0
    return series * np.int32((n + 127) << 23).view(np.float32)


@njit(cache=True, fastmath=REASSOCIATE)
def form_scores(tokens, x, p):
    """Set p_h(m) to x_h·token_m."""
    fours, size, _ = tokens.shape
    x, p = x.reshape((-1, size, WIDTH)), p.reshape((-1, fours, FOUR))
    for four in range(fours):
        for h in range(len(p)):
            p[h, four] = ZERO
            for e in range(size):
                for k in range(WIDTH):
                    for m in range(0, FOUR, WIDTH):
                        p[h, four, m + k] += x[h, e, k] * tokens[four, e, m + k]


@njit(cache=True, fastmath=REASSOCIATE)
def add_tokens(tokens, p, x):
    """Add Σ_m p_h(m) token_m to x_h."""
    fours, size, _ = tokens.shape
    x, p = x.reshape((-1, size, WIDTH)), p.reshape((-1, fours, FOUR))
    for four in range(fours):
        for h in range(len(p)):
            for e in range(size):
                for k in range(WIDTH):
                    for m in range(0, FOUR, WIDTH):
                        x[h, e, k] += p[h, four, m + k] * tokens[four, e, m + k]


@njit(cache=True, fastmath=REASSOCIATE)
def add_product(a, x, y):
    """Add the product a x to y. Both x and y have one column for each sequence."""
    for i in range(len(y)):
        for j in range(len(x)):
            for k in range(WIDTH):
                y[i, k] += a[i, j] * x[j, k]


@njit(cache=True, fastmath=REASSOCIATE)
def add_sums(x, y, sums):
    """Add x yᵀ, which is a sum over the sequences, to ``sums``."""
    for i in range(len(x)):
        for j in range(len(y)):
            total = ZERO
            for k in range(WIDTH):
                total += x[i, k] * y[j, k]
            sums[i, j] += total


@njit(cache=True, fastmath=REASSOCIATE, nogil=True)
def query_row(w, v, tokens, query, answers, n, divisor, dw, dv):
    """Return the sum of squared errors, and add half of its gradients in w and v to dw and dv.

    The shapes are w (H, E, D), v (O, H, E), tokens (blocks, fours, E, FOUR), query (blocks, D, WIDTH) and
    answers (blocks, O, WIDTH). The caller has multiplied the answers by the divisor, so that no prediction
    has to be divided.
    """
    heads, size, dim = w.shape
    rows, padded = heads * size, n + -n % 4
    w, dw = w.reshape((rows, dim)), dw.reshape((rows, dim))
    v, dv = v.reshape((-1, rows)), dv.reshape((-1, rows))
    u, context, pull = zeros((rows, WIDTH)), zeros((rows, WIDTH)), zeros((rows, WIDTH))
    p, slope = zeros((heads, padded, WIDTH)), zeros((heads, padded, WIDTH))
    error, top, mass = zeros((len(v), WIDTH)), zeros((WIDTH,)), zeros((WIDTH,))
    loss, weight = 0.0, np.float32(1 / divisor**2)
    for b in range(len(tokens)):
        u[:], context[:], pull[:], error[:] = ZERO, ZERO, ZERO, ZERO
        # score_h(m) = u_h·token_m with u_h = W_hᵀ x_q, and p is its softmax
        add_product(w, query[b], u)
        form_scores(tokens[b], u, p)
        for h in range(heads):
            top[:], mass[:] = p[h, 0], ZERO
            for m in range(1, n):
                for k in range(WIDTH):
                    top[k] = p[h, m, k] if p[h, m, k] > top[k] else top[k]
            for m in range(n):
                for k in range(WIDTH):
                    p[h, m, k] = power_of_two(p[h, m, k] - top[k])
                    mass[k] += p[h, m, k]
            inverse = ONE / mass
            for m in range(n):
                for k in range(WIDTH):
                    p[h, m, k] *= inverse[k]
        p[:, n:] = ZERO  # padding of the last four tokens
        # context_h = Σ_m p_h(m) token_m, and the prediction is Σ_h v_h·context_h
        add_tokens(tokens[b], p, context)
        add_product(v, context, error)
        error -= answers[b]
        loss += weight * np.sum(error.astype(np.float64) ** 2)
        error *= weight
        # ∂/∂context_h = error·v_h is the pull;  ∂/∂score_h(m) = p_h(m) (pull_h·token_m − its mean under p_h)
        add_sums(error, context, dv)
        add_product(v.T, error, pull)
        form_scores(tokens[b], pull, slope)
        for h in range(heads):
            mass[:] = ZERO
            for m in range(n):
                for k in range(WIDTH):
                    mass[k] += p[h, m, k] * slope[h, m, k]
            for m in range(n):
                for k in range(WIDTH):
                    slope[h, m, k] = p[h, m, k] * (slope[h, m, k] - mass[k])
        u[:] = ZERO
        add_tokens(tokens[b], slope, u)
        add_sums(u, query[b], dw)
    return loss
