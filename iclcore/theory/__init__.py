"""Closed forms and ordinary differential equations for the first paper: nothing is simulated here."""

from iclcore.theory.linear import conserved as conserved
from iclcore.theory.linear import escape_time as escape_time
from iclcore.theory.linear import head_course as head_course
from iclcore.theory.linear import head_limit as head_limit
from iclcore.theory.linear import learned as learned
from iclcore.theory.linear import pcr_predictor as pcr_predictor
from iclcore.theory.linear import plateau_levels as plateau_levels
from iclcore.theory.linear import plateau_losses as plateau_losses
from iclcore.theory.linear import population_loss as population_loss
from iclcore.theory.linear import rates as rates
from iclcore.theory.merged import drop_time as drop_time
from iclcore.theory.merged import growth_rate as growth_rate
from iclcore.theory.merged import merged_drop as merged_drop
from iclcore.theory.merged import white_course as white_course
from iclcore.theory.merged import white_start as white_start
from iclcore.theory.saddles import Drop as Drop
from iclcore.theory.saddles import staircase as staircase
