"""Explorers: the reader moves the mathematics, in the built page and with a kernel."""

from iclcore.explorers.data import InWeight, Task
from iclcore.explorers.heads import Softmax, Speed, TaskAllocation
from iclcore.explorers.linear import ContextLength, LowRank, Merged, RankOne

__all__ = [
    "ContextLength",
    "InWeight",
    "LowRank",
    "Merged",
    "RankOne",
    "Softmax",
    "Speed",
    "Task",
    "TaskAllocation",
]
