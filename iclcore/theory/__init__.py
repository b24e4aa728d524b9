"""Closed forms and ordinary differential equations; nothing here is simulated, nothing loads torch.

``linear``: linear attention; ``optimisers`` and ``inputs``: trained by other rules, on other inputs.
"""

from iclcore.theory.inputs import effective_examples, plateaus_with
from iclcore.theory.lengths import best_at, effective_tokens, losses_at, ridge_predictor
from iclcore.theory.linear import (
    conserved,
    drop_time,
    escape_time,
    growth_rate,
    head_course,
    head_limit,
    learned,
    pcr_predictor,
    plateau_losses,
    population_loss,
    rates,
    regression,
    rms,
    top_spread,
    white_course,
    white_start,
)
from iclcore.theory.low_rank import head_value, wait_slope
from iclcore.theory.optimisers import (
    adam_drop,
    adam_growth,
    decay_limit,
    decayed_limit,
    decayed_losses,
    decayed_time,
)
from iclcore.theory.saddles import Drop, staircase
from iclcore.theory.softmax import early_loss, escape_from, merged_growth, small_scores, sum_course

__all__ = [name for name, value in globals().items() if callable(value)]  # all of the above
