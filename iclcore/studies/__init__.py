"""One module a chapter: what it computes, from nothing, at the papers' own scale.

A study holds the arrays that a figure draws and ``facts``, the numbers that the text quotes and the
tests hold. ``scale`` is ``paper`` or, for those who write, ``quick``: fewer sequences, the same code.
"""

from iclcore.checks import choice

SCALES = ("paper", "quick")


def sequences(scale: str, paper: int) -> int:
    """Sequences of a training set: a tenth of the paper's where only a quick look is wanted."""
    return paper if choice("scale", scale, SCALES) == "paper" else max(200, paper // 10)
