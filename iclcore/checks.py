"""Checks of the values that a caller passes.

Each check returns the value if it is allowed. Otherwise it raises BadValue, whose message is one line that
names the parameter, says what it takes and shows the value.
"""

import os
from math import inf
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike


class BadValue(ValueError):
    """A parameter has a wrong value: ``name`` is the parameter, and ``takes`` says which values it takes."""

    def __init__(self, name: str, takes: str):
        super().__init__(f"{name} {takes}")
        self.name, self.takes = name, takes

    # Without this method, pickle (which a cluster uses) would pass the message as the name.
    def __reduce__(self):
        return type(self), (self.name, self.takes)


def shown(value: Any) -> str:
    """Return the value's repr on one line of at most 80 characters."""
    text = " ".join(repr(value).split())
    return text if len(text) <= 80 else f"{text[:76]} ..."


def instance(name: str, value: Any, *classes: type) -> Any:
    """Check that the value is an instance of one of the classes."""
    if not isinstance(value, classes):
        names = " or ".join(one.__name__ for one in classes)
        raise BadValue(name, f"takes {names}, not {type(value).__name__}")
    return value


def _check(allowed: bool, name: str, takes: str, value: Any) -> Any:
    if not allowed:
        raise BadValue(name, f"takes {takes}, not {shown(value)}")
    return value


def whole(name: str, value: Any, least: int = 1) -> Any:
    """Check that the value is a whole number of at least ``least``."""
    integer = isinstance(value, Integral) and not isinstance(value, bool)
    return _check(integer and value >= least, name, f"a whole number of at least {least}", value)


def seed(name: str, value: Any) -> Any:
    """Check that NumPy's and PyTorch's older random generators accept the value as a seed."""
    return _check(whole(name, value, least=0) < 2**32, name, "a whole number below 2^32", value)


def positive(name: str, value: Any) -> Any:
    """Check that the value is a finite number above 0."""
    allowed = isinstance(value, Real) and 0 < value < inf
    return _check(allowed, name, "a finite number above 0", value)


def least(name: str, value: Any, bound: float = 0) -> Any:
    """Check that the value is a finite number of at least ``bound``."""
    allowed = isinstance(value, Real) and bound <= value < inf
    return _check(allowed, name, f"a finite number of at least {bound}", value)


def fraction(name: str, value: Any) -> Any:
    """Check that the value is a number from 0 to 1."""
    allowed = isinstance(value, Real) and 0 <= value <= 1
    return _check(allowed, name, "a number from 0 to 1", value)


def choice(name: str, value: Any, choices: tuple) -> Any:
    """Check that the value is one of the words in ``choices``."""
    allowed = isinstance(value, str) and value in choices
    return _check(allowed, name, f"one of {', '.join(choices)}", value)


def numbers(name: str, value: Any) -> np.ndarray:
    """Return the value as an array of finite floats; float32 stays float32."""
    if np.ma.is_masked(value):
        raise BadValue(name, "takes no masked entries: leave them out, or fill them")
    try:
        array = np.asarray(value)
    except ValueError:  # rows of different lengths
        array = np.empty(0, dtype=object)
    if array.dtype == object and array.size:
        raise BadValue(name, "takes an array of real numbers, not of objects: try .astype(float)")
    _check(array.dtype.kind in "biuf", name, "an array of real numbers", value)
    if not np.isfinite(array).all():
        raise BadValue(name, "takes finite numbers, not nan or inf")
    return array if array.dtype in (np.float32, np.float64) else array.astype(float)


def inputs(name: str, value: ArrayLike) -> np.ndarray:
    """Check that the value holds the inputs of sequences, (P, T, D), and return it as an array."""
    x = numbers(name, value)
    if x.ndim != 3 or x.shape[1] < 2 or not x.size:
        takes = f"takes the shape (P, T, D), at least 2 tokens, not {x.shape}"
        if x.ndim == 2:  # a table with a row for each token
            takes += f"; numpy.asarray({name}).reshape(P, T, {x.shape[1]}) makes it of rows"
        raise BadValue(name, takes)
    return x


def enough_to_whiten(name: str, sequences: int, dim: int) -> None:
    """Check that the covariance of the task vectors of ``sequences`` sequences can have full rank.

    Otherwise the vectors cannot be whitened. The number 0 is allowed, because it means that none are drawn.
    """
    takes = f"at least {dim + 1} sequences, to whiten vectors of dimension {dim}"
    _check(sequences == 0 or sequences > dim, name, takes, sequences)


def fits_in_memory(name: str, size: int) -> None:
    """Check that an array of ``size`` bytes fits into the memory of the machine."""
    if hasattr(os, "sysconf"):  # Windows has no such function
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        sizes = f"{size / 1e9:.3g} GB, and the machine has {memory / 1e9:.3g}"
        if size > memory:
            raise BadValue(name, f"takes less: this needs {sizes}")
