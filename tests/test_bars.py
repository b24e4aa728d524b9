"""A long run shows a progress bar with its loss, but only where somebody can see the bar."""

import re
import sys
import threading
from contextlib import redirect_stderr
from io import StringIO

import pytest

from iclcore import RegressionTask, SeparateAttention, bars, train
from iclcore.sweep import Plan, grid, sweep


class Terminal(StringIO):
    def isatty(self):
        return True


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    """Bars appear at once, even if the book's package has set TQDM_DISABLE."""
    monkeypatch.setattr(bars, "DELAY", 0)
    monkeypatch.delenv("TQDM_DISABLE", raising=False)


def shown(work) -> str:
    with redirect_stderr(Terminal()) as terminal:
        work()
    return terminal.getvalue()


def run():
    return train(SeparateAttention(2), RegressionTask(dim=3, context=6), 300, 0.01)


def test_the_bar_shows_the_loss():
    text = shown(run)
    assert "/300 [" in text and f"steps/s, loss {run().loss[0]:.4g}]" in text
    assert text.endswith("\r")  # the bar is removed


def test_a_notebook_without_widgets_shows_the_bar_as_text(monkeypatch):
    """A kernel's stderr is no terminal, but somebody reads it."""
    monkeypatch.setattr(Terminal, "isatty", lambda self: False)
    monkeypatch.setattr(Terminal, "__module__", "ipykernel.iostream")
    assert "/300 [" in shown(run)


def test_a_sweep_shows_its_bar_and_a_loss(tmp_path):
    plan = Plan(RegressionTask(dim=2, context=4), SeparateAttention(1), sequences=20, steps=9)
    text = shown(lambda: sweep(grid(plan, seed=(1, 2)), tmp_path))
    # tqdm may leave out the last change
    assert re.search(r"\| [12]/2 \[.* runs/s, last loss \d", text)


@pytest.mark.parametrize("where", ["short", "pipe", "thread", "disabled", "without tqdm"])
def test_where_there_is_no_bar(where, monkeypatch):
    if where == "short":
        monkeypatch.setattr(bars, "DELAY", 60)
    elif where == "pipe":
        monkeypatch.setattr(Terminal, "isatty", lambda self: False)
    elif where == "disabled":
        monkeypatch.setenv("TQDM_DISABLE", "1")
    elif where == "without tqdm":
        monkeypatch.setitem(sys.modules, "tqdm.auto", None)

    def in_a_thread():
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()

    assert not shown(in_a_thread if where == "thread" else run)
