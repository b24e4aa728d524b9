"""Softmax attention: when its loss falls, what it answers and attends to, small scores."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from iclcore import History, Sequences
from iclcore.models import Weights


def falls(run: History) -> Int[np.ndarray, " drops"]:
    """Steps at which the loss falls fastest: peaks of its speed that stand out by 5% of the highest."""
    window = max(5, len(run.loss) // 100)
    if len(run.loss) < 2 * window:
        return np.arange(0)
    from scipy.signal import find_peaks  # with all of scipy.stats: for chapters that ask

    speed = -np.diff(np.convolve(run.loss, np.ones(window) / window, "valid"))
    return find_peaks(speed, prominence=0.05 * speed.max())[0] + window // 2


# -- what kept weights do with sequences ----------------------------------------------------------


def weights_at(run: History, kept: int) -> Weights:
    return {name: stack[kept] for name, stack in run.snapshots.items()}


def answers(run: History, data: Sequences, at: Sequence[int]) -> Float[np.ndarray, "at P"]:
    """ŷ_q of each of the sequences, at the chosen of the kept steps."""
    tokens = _tokens(data)
    return np.stack([_module(run, kept)(tokens).detach().numpy()[:, 0] for kept in at])


def errors(run: History, data: Sequences) -> Float[np.ndarray, " kept"]:
    """Mean squared error on the sequences, at every kept step."""
    ((_, target),) = data.prefixes()
    found = answers(run, data, range(len(run.kept)))
    return np.mean((found - target[:, 0]) ** 2, axis=1)


def attention(run: History, data: Sequences, kept: int) -> Float[np.ndarray, "P H T"]:
    """How much the query's row of each head gives to each token, at a kept step."""
    return _module(run, kept).scores(_tokens(data)).softmax(2).detach().numpy()


def _module(run: History, kept: int):
    from iclcore.modules import module  # torch: loaded when first used

    return module(run.model, weights_at(run, kept), 1)


def _tokens(data: Sequences):
    import torch

    ((tokens, _),) = data.prefixes()
    return torch.tensor(tokens).double()


# -- heads of separate key and query, rank one ----------------------------------------------------


def strengths(run: History, kept: int) -> tuple[Float[np.ndarray, " H"], Float[np.ndarray, " H"]]:
    """How strongly each head reads inputs and passes labels, with its value's sign, and the reverse.

    To first order in the score a head multiplies Cov(x, y) by v_y k_x q + v_x k_y q: it matters only
    in sum which of key and value looks at the inputs, and which at the labels.
    """
    factors = run.model.factors(weights_at(run, kept), run.task.dim)
    key, query, v = (part[:, 0] for part in factors)
    size = np.linalg.norm(query, axis=1)
    inputs = size * v[:, -1] * np.linalg.norm(key[:, :-1], axis=1)
    labels = size * np.linalg.norm(v[:, :-1], axis=1) * np.abs(key[:, -1])
    return inputs, labels


def label_share(run: History, kept: int) -> float:
    """The share of all heads' strength that reads labels."""
    inputs, labels = strengths(run, kept)
    return float(labels.sum() / (labels.sum() + np.abs(inputs).sum()))


@dataclass(frozen=True)
class Reading:
    """What two heads of a run give to each token at a few kept steps: all sequences, and one of them.

    ``reads`` is what a head's key measures of a token of the one, k·x_m/|k| or y_m.
    """

    kind: str
    learned: int
    value: Float[np.ndarray, " heads"]
    reads: Float[np.ndarray, "moments heads T"]
    attention: Float[np.ndarray, "moments heads T"]
    spread: Float[np.ndarray, "moments heads P"]
    one: int

    @property
    def sharper(self) -> tuple[float, float]:
        """Tokens of the sharper head when they were chosen: a mean over sequences, and of the one."""
        return float(self.spread[1].mean(axis=1).min()), float(self.spread[1, :, self.one].min())


def reading(run: History, data: Sequences, kind: str, middle: list[int], one: int) -> Reading:
    """Of the two heads that are strongest on the plateau of two eigenvectors, or on the last before it.

    ``inputs``: of most positive and of most negative value among those whose keys read them;
    ``labels``: values pass inputs and have no sign of their own. The spread of attention over T tokens
    is 1/Σ_m p_m².
    """
    learned = min(2, len(middle) - 1)
    inputs, labels = strengths(run, middle[learned])
    if kind == "inputs":
        two = list(dict.fromkeys([int(np.argmax(inputs)), int(np.argmin(inputs))]))
    else:
        two = [int(h) for h in np.argsort(labels)[:-3:-1]]
    ((tokens, _),) = data[one : one + 1].prefixes()
    reads, given, spread, values = [], [], [], []
    for kept in (0, middle[learned], len(run.kept) - 1):
        p = attention(run, data, kept)[:, two]
        key, _, v = run.model.factors(weights_at(run, kept), run.task.dim)
        looks = key[two, 0]
        if kind == "inputs":
            size = np.linalg.norm(looks[:, :-1], axis=1)[:, None]
            reads.append(looks[:, :-1] / size @ tokens[0, :, :-1].T)
        else:
            reads.append(np.stack([tokens[0, :, -1]] * len(two)))
        given.append(p[one])
        spread.append(1 / np.sum(p**2, axis=2).T)
        values.append(v[two, 0, -1])
    return Reading(kind, learned, values[1], *map(np.array, (reads, given, spread)), one)


# -- small scores ---------------------------------------------------------------------------------


def mirrored(data: Sequences) -> Sequences:
    """Each sequence four times: with ±x_q and with ±w.

    Averages that are zero in the population because they are odd in x_q or w are zero here too, so
    that small weights stand on a saddle, as in the population.
    """
    x, y = (np.concatenate([part] * 4) for part in (data.x, data.y))
    sign_q, sign_w = (np.repeat(each, len(data)) for each in ([1, -1, 1, -1], [1, 1, -1, -1]))
    x[:, -1] *= sign_q[:, None]
    y[:, -1] *= sign_q[:, None]
    return Sequences(x, y * sign_w[:, None, None])


def small_scores(data: Sequences) -> tuple[Float[np.ndarray, "D D"], float, float]:
    """A, κ and the power, ⟨y_q²⟩, of a data set; ``softmax.small_scores`` is their population mean."""
    ((tokens, target),) = data.prefixes()
    x, y = tokens[..., :-1], tokens[..., -1]
    mean = y.mean(axis=1)
    cov = (x * y[..., None]).mean(axis=1) - x.mean(axis=1) * mean[:, None]
    drive = np.einsum("p,pd,pa->da", target[:, 0], x[:, -1], cov) / len(data)
    return drive, float(np.mean(mean**2)), float(np.mean(target**2))
