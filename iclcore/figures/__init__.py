"""One function a figure: what a study found in, a picture with its alt text out."""

from iclcore.figures import merged, rank_one
from iclcore.figures.runs import run
from iclcore.figures.style import Figure

__all__ = ["Figure", "merged", "rank_one", "run"]
