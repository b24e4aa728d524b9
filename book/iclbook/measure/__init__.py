"""What the chapters measure on runs: short functions, named as the text names what they find."""

from iclbook.measure.curves import ascending, crossing, smooth, thin
from iclbook.measure.heads import busy, exact_limit, lead, owned, ridge, won
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
    "busy",
    "compared",
    "courses",
    "crossing",
    "drop_times",
    "edge",
    "errors_at",
    "exact_limit",
    "fallen",
    "floor",
    "floor_of_matrices",
    "frames",
    "fresh",
    "landings",
    "lead",
    "level_gap",
    "loss_of_best",
    "overfit",
    "owned",
    "owners",
    "plateaus",
    "ridge",
    "rises",
    "sample_levels",
    "shared",
    "smooth",
    "squares",
    "steps_near",
    "thin",
    "won",
]
