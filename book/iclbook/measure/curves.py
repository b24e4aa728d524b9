"""Any curve: its means, when it crosses a level, whether it rises."""

from collections.abc import Iterable

import numpy as np
from jaxtyping import Float, Real


def crossing(x: Real[np.ndarray, " n"], y: Real[np.ndarray, " n"], level: float) -> float:
    """The first x, between two, at which y comes to ``level`` from where it began; nan if never."""
    gap = np.asarray(y, dtype=float) - level
    there = np.flatnonzero(gap * gap[0] <= 0)
    if not len(there):
        return float("nan")
    i = max(1, int(there[0]))
    share = gap[i - 1] / (gap[i - 1] - gap[i]) if gap[i - 1] != gap[i] else 0.0
    return float(x[i - 1] + share * (x[i] - x[i - 1]))


def smooth(y: Float[np.ndarray, " n"], window: int = 25) -> Float[np.ndarray, " n"]:
    """Means over neighbours, fewer at the ends: what is seen of a loss through the noise of its batches."""
    kernel = np.ones(window)
    return np.convolve(y, kernel, "same") / np.convolve(np.ones_like(y), kernel, "same")


def ascending(numbers: Iterable[float]) -> bool:
    """Whether they rise; nan, what never came, may stand at the end only."""
    held = np.nan_to_num(np.array(list(numbers), dtype=float), nan=np.inf)
    return bool(np.all(held[1:] >= held[:-1]))
