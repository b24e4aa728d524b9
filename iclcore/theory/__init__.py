"""Closed forms and ordinary differential equations for the first paper: nothing is simulated here."""

from iclcore.theory.linear import (
    conserved,
    drop_time,
    escape_time,
    growth_rate,
    head_course,
    head_limit,
    learned,
    pcr_predictor,
    plateau_levels,
    plateau_losses,
    population_loss,
    rates,
    white_course,
    white_start,
)
from iclcore.theory.saddles import Drop, merged_drop, staircase
