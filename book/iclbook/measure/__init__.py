"""What the chapters measure on runs: short functions, named as the text names what they find."""

from iclbook.measure.curves import ascending, crossing, smooth
from iclbook.measure.heads import busy, exact_limit, fresh_loss, lead, owned, ridge, won
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
    gradient_noise,
    loss_of_best,
    overfit,
    rises,
    squares,
    unseen,
    unseen_of_fit,
)
from iclbook.measure.softmax import (
    Reading,
    answers,
    attention,
    errors,
    falls,
    label_share,
    mirrored,
    reading,
    small_scores,
    strengths,
)

__all__ = [name for name, value in globals().items() if callable(value)]  # all of the above
