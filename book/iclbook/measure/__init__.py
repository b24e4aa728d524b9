"""What the chapters measure on runs: short functions, named as the text names what they find."""

from iclbook.measure.curves import ascending, crossing, thin
from iclbook.measure.linear import (
    Compared,
    Course,
    compared,
    courses,
    drop_times,
    frames,
    level_gap,
    owners,
    plateaus,
)
from iclbook.measure.mixtures import fallen, shared

__all__ = [
    "Compared",
    "Course",
    "ascending",
    "compared",
    "courses",
    "crossing",
    "drop_times",
    "fallen",
    "frames",
    "level_gap",
    "owners",
    "plateaus",
    "shared",
    "thin",
]
