"""One function a figure: what a study found in, a picture with its alt text out."""

from iclbook.figures import how_it_is_fast
from iclbook.plot.style import Figure

__all__ = ["Figure", "how_it_is_fast"]
