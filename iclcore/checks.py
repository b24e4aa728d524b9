"""Checks of what a caller passes: one line that names the parameter and what it takes."""

import sys
from numbers import Integral, Real
from typing import Any

MOST = 2**63 - 1  # no array is longer, and beyond 2^1024 there is no float


def instance(name: str, value: Any, *kinds: type) -> Any:
    """One of ``kinds``."""
    if not isinstance(value, kinds):
        takes = " or ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"{name} takes {takes}, not {type(value).__name__}")
    return value


def whole(name: str, value: Any, least: int = 1) -> Any:
    """A whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} takes a whole number of at least {least}, not {value!r}")
    if value > MOST:
        raise ValueError(f"{name} takes a whole number of at most {MOST}")
    return value


def seed(name: str, value: Any) -> Any:
    """What both legacy generators take."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not 0 <= value < 2**32:
        raise ValueError(f"{name} takes a whole number from 0 to {2**32 - 1}, not {value!r}")
    return value


def _finite(value: Any) -> bool:
    """A number that a float can be: of an integer beyond, math.isfinite is an error."""
    return isinstance(value, Real) and abs(value) <= sys.float_info.max


def positive(name: str, value: Any) -> Any:
    """A finite number above zero."""
    if not (_finite(value) and value > 0):
        raise ValueError(f"{name} takes a finite number above 0, not {value!r}")
    return value


def least(name: str, value: Any, bound: float = 0) -> Any:
    """A finite number of at least ``bound``."""
    if not (_finite(value) and value >= bound):
        raise ValueError(f"{name} takes a finite number of at least {bound}, not {value!r}")
    return value


def share(name: str, value: Any) -> Any:
    """A number from 0 to 1."""
    if not (isinstance(value, Real) and 0 <= value <= 1):
        raise ValueError(f"{name} takes a number from 0 to 1, not {value!r}")
    return value


def choice(name: str, value: Any, choices: tuple) -> Any:
    """One of ``choices``."""
    if value not in choices:
        raise ValueError(f"{name} takes one of {', '.join(map(str, choices))}, not {value!r}")
    return value


def enough_to_whiten(name: str, sequences: int, dim: int) -> int:
    """Task vectors can be whitened: their unbiased covariance over the sequences has full rank."""
    if 0 < sequences <= dim:
        raise ValueError(
            f"{name} takes at least {dim + 1} sequences, so that task vectors of dimension {dim} "
            f"can be whitened, not {sequences}"
        )
    return sequences
