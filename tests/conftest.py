"""Shapes in type hints are checked in every test; one tolerance for all comparisons."""

import os
import signal

os.environ.setdefault("MPLBACKEND", "agg")

import numpy as np
import pytest
from jaxtyping import install_import_hook

# tests send Ctrl-C, which a shell's background jobs and all that they start would ignore
signal.signal(signal.SIGINT, signal.default_int_handler)

# not `compiled`, `lanes` and `query_row`: numba compiles their functions and must see them bare
CHECKED = (
    "edge",
    "figures",
    "history",
    "models",
    "modules",
    "moments",
    "multihead",
    "published",
    "reference",
    "run",
    "softmax",
    "spectral",
    "stability",
    "task",
    "theory",
    "trainer",
)
install_import_hook([f"iclcore.{room}" for room in CHECKED], "shapes.check")

EXACT = 1e-9  # float64 along different routes: round-off of some thousand operations, with room


def close(actual, expected, within: float = EXACT) -> None:
    """|actual − expected| ≤ within · (1 + |expected|) everywhere. A looser bound says why.

    What a test of a study says by < and > is what its chapter says of one fixed draw. Other last bits of
    that draw move such a number by 1e-4 of itself at most, far less than any of these bounds is away.
    """
    actual, expected = np.asarray(actual, dtype=float), np.asarray(expected, dtype=float)
    assert actual.shape == expected.shape, (actual.shape, expected.shape)
    gap = np.max(np.abs(actual - expected) / (1 + np.abs(expected)), initial=0.0)
    assert gap <= within, f"differs by {gap:.3g}, allowed {within:.3g}"


@pytest.fixture
def in_folder(tmp_path, monkeypatch):
    """An empty folder as the working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
