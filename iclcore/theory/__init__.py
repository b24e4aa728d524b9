"""Closed forms and ordinary differential equations for the first paper: nothing is simulated here."""

from iclcore.theory.linear import (
    conserved,
    escape_time,
    head_course,
    head_limit,
    learned,
    pcr_predictor,
    plateau_levels,
    plateau_losses,
    population_loss,
    rates,
)
from iclcore.theory.saddles import Drop, staircase
from iclcore.theory.white import drop_time, growth_rate, white_course, white_start

__all__ = [
    "Drop",
    "conserved",
    "drop_time",
    "escape_time",
    "growth_rate",
    "head_course",
    "head_limit",
    "learned",
    "pcr_predictor",
    "plateau_levels",
    "plateau_losses",
    "population_loss",
    "rates",
    "staircase",
    "white_course",
    "white_start",
]
