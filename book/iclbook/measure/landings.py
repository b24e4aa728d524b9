"""How long training rests at each level of its loss, by what has to happen for it to go on."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float, Int

KINDS = ("first", "new", "room")


def steps_near(
    loss: Float[np.ndarray, " t"], levels: Float[np.ndarray, " levels"], near: float
) -> Float[np.ndarray, " levels"]:
    """For so many steps the loss is within ``near`` of each level, straight between one step and the next:
    a count of whole steps would hang on the last bit of a loss at the border."""
    low, high = np.minimum(loss[:-1], loss[1:])[:, None], np.maximum(loss[:-1], loss[1:])[:, None]
    inside = np.minimum(high, levels + near) - np.maximum(low, levels - near)
    rests = high == low  # between two equal losses, 0/0
    share = np.clip(inside, 0, None) / np.where(rests, 1, high - low)
    return np.where(rests, inside >= 0, share).sum(axis=0)


@dataclass(frozen=True)
class Landings:
    """The levels that runs of one rank came to: how long each held, and whether training ended there."""

    rank: int
    dim: int  # the level where all is learned, which is no landing
    level: Int[np.ndarray, " n"]
    time: Float[np.ndarray, " n"]
    cut: Bool[np.ndarray, " n"]

    def of(self, kind: str) -> Bool[np.ndarray, " n"]:
        """Return which landings are of one kind.

        "first" is the plateau at zero. "new" landings end when a new head begins to learn, and "room"
        landings when a head that has rank left learns one more eigenvector.
        """
        m, between = self.level, (self.level > 0) & (self.level < self.dim)
        holds = {
            "first": m == 0,
            "new": between & (m % self.rank == 0),
            "room": between & (m % self.rank > 0),
        }
        return holds[kind]

    def passed(self, kind: str) -> Float[np.ndarray, " k"]:
        """The times of those that the end of training did not cut."""
        return self.time[self.of(kind) & ~self.cut]

    def cuts(self, level: int) -> int:
        """How many runs ended at this level."""
        return int(np.sum(self.cut & (self.level == level)))

    def survival(self, kind: str) -> tuple[Float[np.ndarray, " k"], Float[np.ndarray, " k"]]:
        """The share of landings that last longer than each time at which one ended.

        Kaplan and Meier's estimate: a landing that is cut tells that it lasts longer, not how long.
        """
        own = self.of(kind)
        times, count = np.unique(self.passed(kind), return_counts=True)
        at_risk = np.array([np.sum(self.time[own] >= time) for time in times])
        return times, np.cumprod(1 - count / at_risk)

    def outlasted(self, kind: str, share: float) -> float:
        """The time that this share of them lasts longer than; nan if no run has seen so many end."""
        times, left = self.survival(kind)
        there = np.flatnonzero(left <= share)
        return float(times[there[0]]) if len(there) else float("nan")


def landings(spent: Float[np.ndarray, "seeds levels"], rank: int) -> Landings:
    """Of the times that each run spent at each level; training ends at the last that it saw."""
    seed, level = np.nonzero(spent)
    last = spent.shape[1] - 1 - np.argmax(spent[:, ::-1] > 0, axis=1)
    return Landings(rank, spent.shape[1] - 1, level, spent[seed, level], level == last[seed])


def about(times: Float[np.ndarray, " n"], unit: float) -> float:
    """Their median to the nearest ``unit``: a threshold on a loss is no exact count. nan of none."""
    return unit * round(float(np.median(times)) / unit) if len(times) else float("nan")
