"""Options of all tests: type hints are checked, numbers are compared with one tolerance."""

import os
import signal

os.environ.setdefault("MPLBACKEND", "agg")

from functools import cache
from pathlib import Path
from types import SimpleNamespace

import hypothesis
import numpy as np
import pytest
import shapes
from jaxtyping import install_import_hook

# The background jobs of a shell ignore Ctrl-C, and so would every process that the tests start there.
signal.signal(signal.SIGINT, signal.default_int_handler)

# Modules whose functions numba compiles are left out, because numba must see the functions themselves.
CHECKED = (
    "engines.autograd", "engines.base", "engines.linear", "files", "generators", "heads", "history",
    "models", "modules", "moments", "prediction", "published", "stability", "task", "theory",
    "trainer",
)  # fmt: skip
CHECKED = [f"iclcore.{module}" for module in CHECKED]
install_import_hook([*CHECKED, "iclbook.measure"], "shapes.check")

# Hypothesis tries the same inputs in every run of the tests, and more of them each night.
OPTIONS = {"derandomize": True, "deadline": None, "database": None}
OPTIONS["suppress_health_check"] = list(hypothesis.HealthCheck)
hypothesis.settings.register_profile("default", max_examples=30, **OPTIONS)
hypothesis.settings.register_profile("long", max_examples=1000, **OPTIONS)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default"))

EXACT = 1e-9  # more than the rounding errors of some thousand operations in float64


def close(actual, expected, within: float = EXACT) -> None:
    """Check that |actual − expected| ≤ within · (1 + |expected|) for all entries.

    A test with a larger ``within`` gives the reason.
    """
    actual, expected = np.asarray(actual, dtype=float), np.asarray(expected, dtype=float)
    assert actual.shape == expected.shape, (actual.shape, expected.shape)
    gap = np.max(np.abs(actual - expected) / (1 + np.abs(expected)), initial=0.0)
    assert gap <= within, f"differs by {gap:.3g}, allowed {within:.3g}"


def pytest_runtest_setup():
    shapes.calls.clear()


@cache
def recorded(chapter: str) -> SimpleNamespace:
    """The numbers that a committed chapter says: ``recorded("rank_one").level2``; several are a list.

    nbval compares what the cells print with what stands in the notebook, so nothing is run again here.
    """
    import marks  # not above: to load these takes longer than most files of tests
    import nbformat

    from iclbook import quote

    def number(text: str) -> float:
        plain = text.replace("−", "-").replace(",", "")
        return float(plain[:-1]) / 100 if plain.endswith("%") else float(plain)

    path = Path(__file__).resolve().parent.parent / "book" / f"{chapter}.ipynb"
    found = {}
    for name, said in marks.numbers(nbformat.read(path, as_version=4)).items():
        if quote.are_numbers(said):
            several = [number(part) for part in quote.parts(said)]
            found[name] = several if len(several) > 1 else several[0]
        else:
            found[name] = said
    return SimpleNamespace(**found)


@pytest.fixture
def in_folder(tmp_path, monkeypatch):
    """An empty folder as the working directory."""
    monkeypatch.chdir(tmp_path)
    return tmp_path
