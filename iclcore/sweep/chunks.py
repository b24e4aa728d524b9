"""Moments of more sequences than fit one memory: chunks drawn by seed, joined in a tree."""

from math import ceil

import numpy as np

from iclcore.checks import whole
from iclcore.models import Model
from iclcore.moments import Moments, mix, of_sequences
from iclcore.sweep.workers import Cluster, Cores
from iclcore.task import RegressionTask

Counted = tuple[int, Moments]


def sampled_moments(
    task: RegressionTask,
    model: Model,
    sequences: int,
    seed: int = 0,
    *,
    chunk: int = 20_000,
    jobs: int | None = None,
    scheduler: str | None = None,
) -> Moments:
    """Moments of ``sequences`` independent draws, none of which leaves the worker that draws it.

    Chunk number i has generators of its own under (seed, i), and the tree joins neighbours: the
    result depends on ``chunk``, not on where it was computed. A worker holds one chunk at a time;
    the share of in-context sequences is that of every chunk.
    """
    whole("sequences", sequences)
    chunks = ceil(sequences / whole("chunk", chunk))

    with Cluster(scheduler) if scheduler else Cores(jobs) as workers:

        def tree(first: int, last: int):
            if last - first == 1:
                count = min(chunk, sequences - first * chunk)
                return workers.submit(_of_chunk, task, model, count, seed, first)
            middle = (first + last) // 2
            return workers.submit(_join, tree(first, middle), tree(middle, last))

        for _, outcome in workers.outcomes([tree(0, chunks)]):
            if isinstance(outcome, Exception):
                raise outcome
            return outcome[1]


def _of_chunk(task: RegressionTask, model: Model, count: int, seed: int, number: int) -> Counted:
    own = int(np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0])
    return count, of_sequences(task.sample(count, own), model)


def _join(one: Counted, other: Counted) -> Counted:
    return one[0] + other[0], mix([one, other])
