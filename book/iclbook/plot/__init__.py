"""Pictures: a vocabulary of panels, and the drawings that no run is behind."""

from iclbook.plot.diagrams import merged_network, multihead_network, rank_one_network
from iclbook.plot.dots import dots
from iclbook.plot.heads import coefficients, fall, table, weights, winners
from iclbook.plot.in_weight import phase_map, two_tests
from iclbook.plot.kinds import kinds
from iclbook.plot.low_rank import (
    balance,
    drifts,
    floors,
    lengths,
    level_shifts,
    stairs,
    survival,
    taken,
)
from iclbook.plot.panels import (
    agreement,
    animation,
    curves,
    figure,
    keys,
    lines,
    losses,
    matrix,
    rank_one_frame,
    scaling,
    values,
)
from iclbook.plot.plane import plane
from iclbook.plot.predictions import bars, clouds, tokens
from iclbook.plot.softmax import attending, titled
from iclbook.plot.speed import seconds

__all__ = [
    "agreement",
    "animation",
    "attending",
    "balance",
    "bars",
    "clouds",
    "coefficients",
    "curves",
    "dots",
    "drifts",
    "fall",
    "figure",
    "floors",
    "keys",
    "kinds",
    "lengths",
    "level_shifts",
    "lines",
    "losses",
    "matrix",
    "merged_network",
    "multihead_network",
    "phase_map",
    "plane",
    "rank_one_frame",
    "rank_one_network",
    "scaling",
    "seconds",
    "stairs",
    "survival",
    "table",
    "taken",
    "titled",
    "tokens",
    "two_tests",
    "values",
    "weights",
    "winners",
]
