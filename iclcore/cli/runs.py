"""The run that flags of ``train`` say, and what is refused of it: more than memory holds, a hopeless rate."""

import argparse
import math
from collections import Counter
from collections.abc import Callable

from iclcore.cli.memory import largest, within
from iclcore.edge import AT_A_TIME
from iclcore.models import CubicMLP, Model, feature_count
from iclcore.stability import hopeless_rate
from iclcore.sweep import Plan
from iclcore.task import RegressionTask
from iclcore.trainer import MOST_FEATURES

DRAWN = 10_000  # sequences at a time: reference.CHUNK, which a test compares, for it loads torch


def run_of(
    options: argparse.Namespace, task: RegressionTask, model: Model, refuse: Callable
) -> Plan:
    """A run of the published draw, as a sweep takes it."""
    within(shapes(task, model), refuse)  # of which a run makes a table
    if model.softmax and options.engine == "auto":
        from numba import config

        if config.DISABLE_JIT:
            refuse("argument --softmax: takes compiled code, but NUMBA_DISABLE_JIT is set")
    try:
        return Plan(
            task,
            model,
            sequences=options.trainset_size,
            tests=options.testset_size,
            steps=options.epoch,
            lr=options.lr,
            seed=options.seed,
            values=options.track_value,
            engine=options.engine,
        )
    except ValueError as error:
        name, _, takes = str(error).partition(" ")
        flag = {"sequences": "trainset_size", "tests": "testset_size"}.get(name, name)
        refuse(f"argument --{flag}: {takes}")


def refuse_hopeless(run: Plan, refuse: Callable) -> None:
    """What this machine cannot hold, and what is known to diverge."""
    within(needs(run), refuse)
    limit = hopeless_rate(run.task, run.model)
    if limit and run.lr > limit:
        unit = 10.0 ** (math.floor(math.log10(limit)) - 1)
        most = math.floor(limit / unit) * unit  # rounded down: what is offered must be taken
        refuse(
            f"argument --lr: takes at most {most:g} with this model and task; {run.lr:g} diverges"
        )


def shapes(task: RegressionTask, model: Model) -> Counter[str]:
    """What depends on the shapes alone. Weights are drawn, stacked, in the engine, with gradients, kept:
    eight copies, each drawn as a tensor. Where the edge of stability is looked for, AT_A_TIME of them are
    stacked. And the covariance, and a table of features."""
    wide = {"--in_dim": task.dim, "--out_dim": task.outputs}
    deep = {"--heads": model.heads, "--rank": getattr(model, "rank", 0)}
    layers = model.layers(task.dim, task.outputs)
    numbers = sum(layer.count * layer.shape[0] * layer.shape[1] for layer in layers)
    found = Counter()
    found[largest(wide | deep)] += 16 * (4 + AT_A_TIME) * numbers
    found[largest(wide | deep)] += 400 * sum(layer.count for layer in layers)
    found[largest(wide)] += 64 * (task.dim + task.outputs) ** 2
    return found


def needs(run: Plan) -> Counter[str]:
    """Of each flag that decides how much. Torch keeps what it needs for the gradient of every length."""
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
    draws = 24 * min(drawn, DRAWN) * tokens * dim  # in float64
    found = shapes(task, run.model)
    found["--in_dim"] += features
    found["--trainset_size"] = run.sequences * one + max(draws, work)
    found["--testset_size"] = 2 * run.tests * one
    found["--epoch"] = 16 * run.steps * (3 + heads)
    return found


def _sums(lengths: range) -> tuple[int, int]:
    """Σn and Σn² over lengths that follow one another."""
    first, last = lengths[0] - 1, lengths[-1]

    def squares(n: int) -> int:
        return n * (n + 1) * (2 * n + 1) // 6

    return (last * (last + 1) - first * (first + 1)) // 2, squares(last) - squares(first)
