"""One module a chapter: what it computes, from nothing, at the papers' own scale.

A study holds the arrays that a figure draws and ``facts``, the numbers that the text quotes and the
tests hold. ``scale`` is ``paper`` or, for those who write, ``quick``: fewer sequences, the same code.
"""

from pathlib import Path

import numpy as np
from jaxtyping import Float

from iclcore.checks import choice

SCALES = ("paper", "quick")
# tables of what is too slow for a page, each with the command that makes it in its study
DATA = Path(__file__).resolve().parents[1] / "data"


def sequences(scale: str, paper: int) -> int:
    """Sequences of a training set: a tenth of the paper's where only a quick look is wanted."""
    return paper if choice("scale", scale, SCALES) == "paper" else max(200, paper // 10)


def crossing(loss: Float[np.ndarray, " t"], share: float) -> float:
    """The step, between two, at which the loss passes below ``share`` of its start; nan if never."""
    level = share * loss[0]
    below = int(np.argmax(loss < level))
    if loss[below] >= level:
        return float("nan")
    return below - 1 + float((loss[below - 1] - level) / (loss[below - 1] - loss[below]))
