"""Explorers: the reader moves the mathematics, in the built page and with a kernel."""

from iclcore.extras import needs

with needs("book"):  # of matplotlib too
    from iclbook.explorers.data import InWeight, Task
    from iclbook.explorers.front import Front
    from iclbook.explorers.heads import Softmax, Speed, TaskAllocation
    from iclbook.explorers.lengths import ContextLength
    from iclbook.explorers.limits import Beyond, Optimality
    from iclbook.explorers.linear import LowRank, Merged, RankOne
    from iclbook.explorers.mixed import TwoPapers

__all__ = [
    "Beyond",
    "ContextLength",
    "Front",
    "InWeight",
    "LowRank",
    "Merged",
    "Optimality",
    "RankOne",
    "Softmax",
    "Speed",
    "Task",
    "TaskAllocation",
    "TwoPapers",
]
