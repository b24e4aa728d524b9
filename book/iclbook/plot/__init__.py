"""Pictures: a vocabulary of panels, and the drawings that no run is behind.

- named curves, theory dashed: ``lines``; a colour for each kind of model: ``kinds``
- points on the curves of theory: ``dots``; its special cases ``drifts``, ``floors``, ``level_shifts``
- predicted against measured: ``agreement``, ``clouds``
- heat maps: ``matrix``, ``table``, ``tokens``, ``taken``, ``chart``, ``phase_map``
- bars: ``bars``, ``coefficients``, ``seconds``
- a plane with its flow: ``plane``
- losses on levels: ``losses``, by rank ``stairs``, with two tests ``two_tests``, of many heads ``fall``
- weights on their ODE: ``values``, of many heads ``weights``, sizes ``balance``; ``keys`` on plateaus
- of many runs: ``lengths`` and ``survival`` of plateaus, ``winners`` of tasks
- what heads attend to: ``attending``
- networks: ``merged_network``, ``rank_one_network``, ``multihead_network``

``figure`` puts panels together, ``animation`` one after another; ``titled`` gives one a title.
``figure(...).save("x.png")`` writes a picture, ``.svg`` its lines, ``.csv`` its numbers.
"""

from iclcore.extras import needs

with needs("plots"):
    import matplotlib

# isort: split
from iclbook.plot.bars import bars, coefficients, seconds
from iclbook.plot.diagrams import merged_network, multihead_network, rank_one_network
from iclbook.plot.dots import agreement, clouds, dots
from iclbook.plot.heads import fall, weights, winners
from iclbook.plot.heat import chart, matrix, table, taken, tokens
from iclbook.plot.in_weight import phase_map, two_tests
from iclbook.plot.lines import kinds, lines
from iclbook.plot.low_rank import (
    balance,
    drifts,
    floors,
    lengths,
    level_shifts,
    stairs,
    survival,
)
from iclbook.plot.panels import animation, figure, titled
from iclbook.plot.plane import plane
from iclbook.plot.runs import keys, losses, rank_one_frame, values
from iclbook.plot.softmax import attending

__all__ = [name for name, value in globals().items() if callable(value)]  # all of the above
