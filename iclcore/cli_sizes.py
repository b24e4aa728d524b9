"""What a run holds in memory, said before any work: the sum of what is there at the same time.

Numbers of bytes, of which those that no formula gives were measured. On the safe side: a run that is let
through can be held.
"""

import argparse
import os
import resource
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from iclcore.edge import AT_A_TIME
from iclcore.models import CubicMLP, Model, feature_count
from iclcore.run import Run
from iclcore.spectral import CHUNK, FIGURE_1, learning_rates
from iclcore.task import RegressionTask
from iclcore.trainer import MOST_FEATURES

LOADED = 500_000_000  # by Python with its libraries


def enough_memory(run: Run, refuse: Callable) -> None:
    """Refuse a run of ``train`` that this machine cannot hold."""
    within(needs(run), refuse)


def within(needs: Counter[str], refuse: Callable) -> None:
    """Refuse what needs more than there is; the flag that needs most is named."""
    need, there = needs.total(), memory()
    if need > there:
        name = _largest(needs)
        amount = f"{-(-need // 10**9):,}" if need < 10**24 else "more than 10^15"
        refuse(
            f"argument {name}: takes less: this needs {amount} GB, and there are {there // 10**9}"
        )


def memory() -> int:
    """Of the machine, or what is left to this process of its address space."""
    page = os.sysconf("SC_PAGE_SIZE")
    physical = page * os.sysconf("SC_PHYS_PAGES") - LOADED
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return physical
    taken = page * int(Path("/proc/self/statm").read_text().split()[0])
    return min(physical, max(0, limit - taken))


def shapes(task: RegressionTask, model: Model) -> Counter[str]:
    """What depends on the shapes alone. Weights are drawn, stacked, in the engine, with gradients, kept:
    eight copies, each drawn as a tensor. Where the edge of stability is looked for, AT_A_TIME of them are
    stacked. And the covariance, and a table of features."""
    wide = {"--in_dim": task.dim, "--out_dim": task.outputs}
    deep = {"--head_num": model.heads, "--rank": getattr(model, "rank", 0)}
    layers = model.layers(task.dim, task.outputs)
    numbers = sum(layer.count * layer.shape[0] * layer.shape[1] for layer in layers)
    found = Counter()
    found[_largest(wide | deep)] += 16 * (4 + AT_A_TIME) * numbers
    found[_largest(wide | deep)] += 400 * sum(layer.count for layer in layers)
    found[_largest(wide)] += 64 * (task.dim + task.outputs) ** 2
    return found


def needs(run: Run) -> Counter[str]:
    """Of each flag that decides how much. Torch keeps what it needs for the gradient of every length."""
    from iclcore import reference  # loads torch

    task, heads, kind = run.task, run.model.heads, run.kind
    tokens, dim, size = task.context + 1, task.dim, task.dim + task.outputs
    drawn = max(run.sequences, run.tests)  # the largest set: only one is worked on at a time
    tokens1, tokens2 = _sums(task.lengths)
    # a sequence in float32 and its W, five times while it is whitened; then what the engine holds
    one = 4 * tokens * size + 20 * dim * task.outputs
    count, features = feature_count(run.model, dim, task.outputs), 0
    if not run.model.softmax and count <= MOST_FEATURES:  # whatever the engine: edge takes moments
        features = 8 * count**2 * (4 + 3 * (3 if run.tests else 1)) + 16_000 * count
    if kind == "moments":
        work = 0
    elif kind == "rows":  # blocks of float32, made by three copies of the longest
        one += 4 * size * tokens1
        work = 12 * size * tokens * drawn
    elif isinstance(run.model, CubicMLP):  # z
        one += 24 * size * tokens1
        work = 24 * dim**2 * drawn
    elif kind == "published":  # every token's output, every score
        one += 4 * size * tokens1
        work = 4 * run.sequences * (heads * (tokens2 + 4 * size * tokens1)) + 12 * drawn * tokens**2
    else:  # tokens of every length, by the run and, while edge looks, twice more. A head's scores and what
        # it makes of a sequence, thrice: what a length leaves is too small for the next, and not used again
        one += 24 * size * tokens1
        wide = size + getattr(run.model, "rank", 0)
        work = 24 * heads * drawn * (tokens1 + len(task.lengths) * wide)
    draws = 24 * min(drawn, reference.CHUNK) * tokens * dim  # in float64
    found = shapes(task, run.model)
    found["--in_dim"] += features
    found["--trainset_size"] = run.sequences * one + max(draws, work)
    found["--testset_size"] = 2 * run.tests * one
    found["--epoch"] = 16 * run.steps * (3 + heads)
    return found


def needs_of_multihead(options: argparse.Namespace, tasks: int, inputs: int) -> Counter[str]:
    """The same for ``train --model multihead``."""
    heads, width = options.head_num or tasks, options.width or inputs
    size, context, batch = inputs + tasks, options.seq_len - 1, options.batch
    steps = options.epoch or len(learning_rates(FIGURE_1))
    shape = {"--tasks": tasks, "--head_num": heads, "--dims": inputs // tasks}
    held = 1000 * tasks + 100 * heads * tasks
    if options.engine == "spectral":  # CHUNK sequences at a time
        seen = 8 * min(batch, CHUNK) * (context * (2 * tasks + 4 * heads) + 3 * heads**2)
        seen += 16 * heads * tasks * (batch // CHUNK)
    else:
        held += 16 * heads * (2 * width * size + tasks * (size + tasks)) + 8 * inputs * tasks
        seen = 6 * batch * size * context + 16 * heads * batch * (context + size)
        seen += 4 * batch * inputs * tasks
        held += 8 * batch * heads * width
    found = Counter()
    found[_largest(shape | {"--epoch": steps})] += steps * (48 * heads * tasks + 1500)
    found[_largest(shape | {"--width": options.width or 0})] += held
    found[_largest(shape | {"--batch": batch, "--seq_len": context})] += seen
    return found


def _largest(numbers: dict[str, int]) -> str:
    return max(numbers, key=numbers.__getitem__)


def _sums(lengths: range) -> tuple[int, int]:
    """Σn and Σn² over lengths that follow one another."""
    first, last = lengths[0] - 1, lengths[-1]

    def squares(n: int) -> int:
        return n * (n + 1) * (2 * n + 1) // 6

    return (last * (last + 1) - first * (first + 1)) // 2, squares(last) - squares(first)
