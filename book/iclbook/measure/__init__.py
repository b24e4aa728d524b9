"""What the chapters measure on runs: short functions, named as the text names what they find."""

from iclbook.measure.curves import ascending, crossing, thin
from iclbook.measure.landings import KINDS, Landings, about, landings, steps_near
from iclbook.measure.lengths import errors_at, fresh
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
from iclbook.measure.samples import (
    edge,
    floor,
    floor_of_matrices,
    loss_of_best,
    overfit,
    rises,
    sample_levels,
    squares,
)

__all__ = [
    "KINDS",
    "Compared",
    "Course",
    "Landings",
    "about",
    "ascending",
    "compared",
    "courses",
    "crossing",
    "drop_times",
    "edge",
    "errors_at",
    "fallen",
    "floor",
    "floor_of_matrices",
    "frames",
    "fresh",
    "landings",
    "level_gap",
    "loss_of_best",
    "overfit",
    "owners",
    "plateaus",
    "rises",
    "sample_levels",
    "shared",
    "squares",
    "steps_near",
    "thin",
]
