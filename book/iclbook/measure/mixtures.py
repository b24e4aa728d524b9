"""Mixtures of sequences that have tasks of their own with others that share one."""

import numpy as np
from jaxtyping import Float

from iclbook.measure.curves import crossing
from iclcore import Sequences


def shared(data: Sequences) -> dict[str, Sequences]:
    """The training sequences of the shared task vector, as one more test; none at a share of 0 or 1.

    At 0 their contexts are noise, which is another test.
    """
    share = data.task.in_context
    return {"shared": data[int(len(data) * share) :]} if 0 < share < 1 else {}


def fallen(series: Float[np.ndarray, " t"], part: float) -> float:
    """The step, with its fraction, at which so much of the start has gone; nan if never."""
    return crossing(np.arange(len(series)), series, (1 - part) * series[0])
