"""Checks of what a caller passes: one line that names the parameter and what it takes."""

import sys
from numbers import Integral, Real
from typing import Any

import numpy as np

SINGLE = float(np.finfo(np.float32).max)  # of what the published operations take in float32
MOST = 2**63 - 1  # no array is longer, and beyond 2^1024 there is no float


class BadValue(ValueError):
    """A parameter has a value that it cannot take: ``name`` is the parameter, ``takes`` what it takes."""

    def __init__(self, name: str, takes: str):
        super().__init__(f"{name} {takes}")
        self.name, self.takes = name, takes

    def __reduce__(self):  # or pickle, which a cluster needs, would pass the message as the name
        return type(self), (self.name, self.takes)


def said(value: Any) -> str:
    """On one line, however many an array takes."""
    text = " ".join(repr(value).split())
    return text if len(text) < 80 else f"{text[:76]} ..."


def instance(name: str, value: Any, *kinds: type) -> Any:
    """One of ``kinds``."""
    if not isinstance(value, kinds):
        takes = " or ".join(kind.__name__ for kind in kinds)
        raise TypeError(f"{name} takes {takes}, not {type(value).__name__}")
    return value


def whole(name: str, value: Any, least: int = 1) -> Any:
    """A whole number of at least ``least``."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name} takes a whole number of at least {least}, not {said(value)}")
    if value > MOST:
        raise ValueError(f"{name} takes a whole number of at most {MOST}")
    return value


def switch(name: str, value: Any) -> Any:
    """True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{name} takes True or False, not {said(value)}")
    return value


def seed(name: str, value: Any) -> Any:
    """What both legacy generators take."""
    if isinstance(value, bool) or not isinstance(value, Integral) or not 0 <= value < 2**32:
        raise ValueError(f"{name} takes a whole number from 0 to {2**32 - 1}, not {said(value)}")
    return value


def _finite(value: Any) -> bool:
    """A number that a float can be: of an integer beyond, math.isfinite is an error."""
    if isinstance(value, np.floating):  # a narrower one overflows at the comparison
        value = float(value)
    return isinstance(value, Real) and abs(value) <= sys.float_info.max


def positive(name: str, value: Any, most: float = sys.float_info.max) -> Any:
    """A finite number above zero."""
    if not (_finite(value) and value > 0):
        raise ValueError(f"{name} takes a finite number above 0, not {said(value)}")
    return _at_most(name, value, most)


def least(name: str, value: Any, bound: float = 0, most: float = sys.float_info.max) -> Any:
    """A finite number of at least ``bound``."""
    if not (_finite(value) and value >= bound):
        raise ValueError(f"{name} takes a finite number of at least {bound}, not {said(value)}")
    return _at_most(name, value, most)


def _at_most(name: str, value: Any, most: float) -> Any:
    if float(value) > most:  # a float32 would overflow at the comparison
        raise ValueError(f"{name} takes at most {most:.2g}, not {said(value)}")
    return value


def share(name: str, value: Any) -> Any:
    """A number from 0 to 1."""
    if not (isinstance(value, Real) and 0 <= value <= 1):
        raise ValueError(f"{name} takes a number from 0 to 1, not {said(value)}")
    return value


def choice(name: str, value: Any, choices: tuple) -> Any:
    """One of ``choices``, which are words."""
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} takes one of {', '.join(choices)}, not {said(value)}")
    return value


def numbers(name: str, value: Any) -> np.ndarray:
    """An array of floats."""
    try:
        array = np.asarray(value)
    except ValueError:  # rows of several lengths
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "biuf":
        what = f"of {array.dtype}" if isinstance(value, np.ndarray) else said(value)
        raise ValueError(f"{name} takes an array of real numbers, not {what}")
    return array if array.dtype in (np.float32, np.float64) else array.astype(float)


def enough_to_whiten(name: str, sequences: int, dim: int) -> int:
    """Task vectors can be whitened: their unbiased covariance over the sequences has full rank."""
    if 0 < sequences <= dim:
        raise ValueError(
            f"{name} takes at least {dim + 1} sequences, so that task vectors of dimension {dim} "
            f"can be whitened, not {sequences}"
        )
    return sequences
