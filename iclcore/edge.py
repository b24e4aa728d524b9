"""Where a run passed the edge of stability: from there rounding decides how it goes on; and a learning
rate at which none does.

Full-batch descent lowers the loss at every step while learning rate × sharpness (the largest
eigenvalue of the Hessian) stays below 2. Beyond, what rounding left along the steepest direction
grows at each step, and engines and processors part.
"""

from collections.abc import Callable

import numpy as np

from iclcore.checks import SINGLE, instance, whole
from iclcore.engines import MOST_FEATURES, choose
from iclcore.engines.base import flat, parted
from iclcore.history import History, thin
from iclcore.interrupts import noted
from iclcore.models import Factors, Model, Weights, feature_count, trainable
from iclcore.moments import Data, Moments, averages, of_sequences
from iclcore.task import RegressionTask, Sequences
from iclcore.trainer import descend

# A rise of the loss above this share of it is no rounding; whether it is the edge, sharpness says.
ROUNDING, IN_FLOAT32 = 1e-11, {"softmax": 1e-6, "published": 1e-6}
AT_A_TIME = 33  # weights looked at in one run
RISES = 6  # looked into, of those that are the largest so far
NUDGE = 3e-4  # of the norm of the weights: differences err by 1e-5 here, float32 by 5e-5

Gradient = Callable[[Factors], Factors]


def calm_rate(model: Model, data: Data, steps: int, seed: int = 0) -> float:
    """A learning rate at which training from that start stays below its edge for so many steps; at twice
    as much it does not.

    Found by training: 1 is halved, or doubled, as often as it takes. Of infinitely many sequences
    ``stability.stable_rate`` knows the edge from a formula. Of a finite set there is none: training goes on
    into what few sequences hold by chance, and the loss gets several times as sharp there.
    """
    trainable("model", model)
    instance("data", data, Sequences, RegressionTask, Moments)
    steps, sizes = int(whole("steps", steps)), (data.dim, data.outputs)
    kind = choose(model, "auto", sizes)
    if isinstance(data, Sequences) and not data.finite:
        raise ValueError("data takes finite numbers; there is one that is not")
    if kind == "moments":
        data = averages(data, model)
    instance("data", data, Moments if kind == "moments" else Sequences)
    start = model.start(*sizes, seed)
    gradient = _gradient(kind, model, data, start)
    with noted() as interrupted:

        def heed() -> None:
            if interrupted.is_set():
                raise KeyboardInterrupt

        def calm(lr: float) -> bool:
            run = descend(
                kind, model, start, {"loss": data}, steps, lr, settings={},
                seconds={"loading": 0.0}, progress=lambda _: None,
            )  # fmt: skip
            heed()
            if run.ended == "diverged" or past_edge(model, data, start, lr, run, heed) is not None:
                return False
            # it may be past it and not have risen yet; what has no sharpness is calm
            return not lr * sharpness(gradient, model.factors(run.final, data.dim)) > 2

        rate = 1.0
        if calm(rate):
            while calm(2 * rate):
                rate *= 2
                if rate > SINGLE:
                    raise ValueError("data takes sequences of which something can be learned")
            return rate
        while not calm(rate := rate / 2):
            if rate < 1 / SINGLE:
                raise ValueError("data takes smaller numbers: no learning rate is small enough")
        return rate


def past_edge(
    model: Model,
    data: Data,
    start: Weights,
    lr: float,
    run: History,
    heed: Callable[[], object] = lambda: None,
) -> int | None:
    """The first step of a run at which learning rate × sharpness exceeds 2; None if it does at no rise of
    its loss, and where a task has too many dimensions for moments.

    The run is repeated by the fast engine from rise to rise, up to one at which it does, and searched by
    halves: since the step that was looked at before, the product is taken to cross 2 once. ``heed`` may
    end that by an exception.
    """
    rises = _rises(run) if run.ended == "finished" else []
    if not rises:
        return None
    sizes = data.dim, data.outputs
    if isinstance(data, RegressionTask):
        if feature_count(model, *sizes) > MOST_FEATURES:
            return None
        data = averages(data, model)
    kind = choose(model, "auto", sizes)
    if kind == "moments" and isinstance(data, Sequences):
        data = of_sequences(data, model)
    gradient = _gradient(kind, model, data, start)

    def unstable(weights: Weights | None) -> bool:
        heed()
        return weights is None or lr * sharpness(gradient, model.factors(weights, data.dim)) > 2

    def weights_at(steps: list[int], start: Weights) -> list[Weights | None]:
        """Before each of ``steps``, counted from ``start``; None where the loss was no longer finite: past
        the edge a repeated run may go on otherwise."""
        history = descend(
            kind, model, start, {"loss": data}, max(1, steps[-1]), lr, snapshots=steps,
            settings={}, seconds={"loading": 0.0}, progress=lambda _: None,
        )  # fmt: skip
        heed()  # it may have been cut
        left = len(history.loss) - 1 if history.ended == "diverged" else np.inf
        return [
            {n: w[i] for n, w in history.snapshots.items()} if step < left else None
            for i, step in enumerate(steps)
        ]

    if unstable(start):
        return 0
    calm = 0
    for rise in rises:
        before, after = weights_at([rise - calm, rise + 1 - calm], start)
        if unstable(before):
            break
        if unstable(after):
            return rise + 1
        calm, start = rise + 1, after
    else:
        return None
    wild = rise
    while wild - calm > 1:
        steps = thin(wild - calm + 1, AT_A_TIME).tolist()
        kept = weights_at(steps, start)
        low, high = 0, len(steps) - 1
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if unstable(kept[middle]) else (middle, high)
        calm, wild, start = calm + steps[low], calm + steps[high], kept[low]
    return wild


def _rises(run: History) -> list[int]:
    """Steps of a run whose loss rises above rounding, and more than at any step before: noise that is no
    edge's sets few such records, the growth past the edge many. Of too many some are left out, but
    neither the first nor the largest."""
    rises = np.diff(run.loss)
    least = IN_FLOAT32.get(run.engine, ROUNDING) * np.maximum.accumulate(run.loss)[:-1]
    records = np.maximum.accumulate(np.maximum(rises, 0))
    found = np.flatnonzero((rises > least) & (np.diff(records, prepend=0) > 0))
    places = np.linspace(0, len(found) - 1, min(RISES, len(found))).astype(int)
    return found[places].tolist()


def sharpness(gradient: Gradient, factors: Factors) -> float:
    """The largest eigenvalue of the Hessian, by Lanczos on differences of gradients; nan where that does
    not settle: what is looked at after a run must not cost the run."""
    # which a refusal need not wait for
    from scipy.sparse.linalg import ArpackError, LinearOperator, eigsh

    at = flat(factors)
    size = NUDGE * np.linalg.norm(at)

    def slope(shift: np.ndarray) -> np.ndarray:
        return flat(gradient(tuple(parted(at + shift, factors))))

    def curve(direction: np.ndarray) -> np.ndarray:
        length = np.linalg.norm(direction)
        shift = size / length * direction.ravel()
        return (slope(shift) - slope(-shift)) * (length / (2 * size))

    hessian = LinearOperator((len(at), len(at)), matvec=curve, dtype=float)
    first = np.random.default_rng(0).standard_normal(len(at))
    try:
        found = eigsh(hessian, 1, which="LA", v0=first, tol=1e-3, return_eigenvectors=False)
    except ArpackError:
        return np.nan
    return float(found[0])


def _gradient(kind: str, model: Model, data: Sequences | Moments, start: Weights) -> Gradient:
    """∂L/∂factors by the engine's own pass."""
    if kind == "moments":
        from iclcore.engines.linear import gradient

        return lambda factors: gradient(factors, data)
    if kind == "softmax":
        from iclcore.engines.softmax import QueryRow

        row = QueryRow(model, [data], model.heads)
        return lambda factors: row.of_factors(factors)[1]
    from iclcore.engines.autograd import gradient_of

    return gradient_of(model, data, start)
