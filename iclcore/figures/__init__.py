"""One function a figure: what a study found in, a picture with its alt text out."""

from iclcore.figures import low_rank, merged, rank_one, task
from iclcore.figures.runs import run
from iclcore.figures.style import Figure

__all__ = ["Figure", "low_rank", "merged", "rank_one", "run", "task"]
