"""One function a figure: what a study found in, a picture with its alt text out."""

from iclbook.figures import (
    conservation,
    context_length,
    finite_data,
    how_it_is_fast,
    low_rank,
    optimality,
    plateaus,
    small_scores,
    softmax,
    task,
    task_allocation,
    two_papers,
)
from iclbook.plot.style import Figure

__all__ = [
    "Figure",
    "conservation",
    "context_length",
    "finite_data",
    "how_it_is_fast",
    "low_rank",
    "optimality",
    "plateaus",
    "small_scores",
    "softmax",
    "task",
    "task_allocation",
    "two_papers",
]
