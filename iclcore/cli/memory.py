"""What a run holds in memory, said before any work: the sum of what is there at the same time.

Numbers of bytes, of which those that no formula gives were measured. On the safe side: a run that is let
through can be held.
"""

from collections import Counter

from iclcore import moments, systems
from iclcore.cli.parser import Refused
from iclcore.edge import AT_A_TIME
from iclcore.models import Model, feature_count
from iclcore.sweep.plan import Plan
from iclcore.task import DRAWN, RegressionTask, Sequences
from iclcore.trainer import MOST_FEATURES

LOADED = 500_000_000  # by Python with its libraries


def within(needs: Counter[str]) -> None:
    """Refuse what needs more than there is; the flag that needs most is named."""
    need, there = needs.total(), memory()
    if need > there:
        name = largest(needs)
        amount = f"{-(-need // 10**9):,}" if need < 10**24 else "more than 10^15"
        raise Refused(name, f"takes less: this needs {amount} GB, and there are {there // 10**9}")


def memory() -> int:
    """Of the machine, or what is left to this process of its address space."""
    physical, limit = systems.memory() - LOADED, systems.address_space()
    if limit is None:
        return physical
    return min(physical, max(0, limit - systems.address_space_taken()))


def largest(numbers: dict[str, int]) -> str:
    return max(numbers, key=numbers.__getitem__)


def of_shapes(
    task: RegressionTask | Sequences, model: Model, rows: int | None = None
) -> Counter[str]:
    """What depends on the shapes alone. Weights are drawn, stacked, in the engine, with gradients, kept:
    eight copies, each drawn as a tensor. Where the edge of stability is looked for, AT_A_TIME of them are
    stacked. And the covariance, and a table of features. Of a value ``rows``, if not all."""
    wide = {"--in_dim": task.dim, "--out_dim": task.outputs}
    if isinstance(task, Sequences):
        wide = {"--data": task.dim + task.outputs}
    deep = {"--heads": model.heads, "--rank": getattr(model, "rank", 0)}
    layers = model.layers(task.dim, task.outputs)
    heights = {"value": rows} if rows else {}
    numbers = sum(a.count * heights.get(a.name, a.shape[0]) * a.shape[1] for a in layers)
    found = Counter()
    found[largest(wide | deep)] += 16 * (4 + AT_A_TIME) * numbers
    found[largest(wide | deep)] += 400 * sum(layer.count for layer in layers)
    found[largest(wide)] += 64 * (task.dim + task.outputs) ** 2
    return found


def of_run(run: Plan) -> Counter[str]:
    """Of each flag that decides how much. Torch keeps what it needs for the gradient of every length."""
    task, heads, kind = run.data, run.model.heads, run.kind
    tokens, dim, size = task.context + 1, task.dim, task.dim + task.outputs
    drawn = run.count or 0  # of infinitely many none
    most = max(drawn, run.tests)  # the largest set: only one is worked on at a time
    seen = (task.lengths[0] + tokens) * len(task.lengths) // 2  # of a sequence, in all its lengths
    closed = kind == "population"
    found = of_shapes(task, run.model, task.outputs if closed else None)
    count = feature_count(run.model, dim, task.outputs)
    # whatever the engine: edge takes moments
    if run.model.linear and not closed and count <= MOST_FEATURES:
        flag = "--data" if run.own else "--in_dim"
        found[flag] += 8 * count * (count * (13 if run.tests else 7) + moments.CHUNK)
    # of each sequence, and then of the set that is worked on
    if kind == "moments" or closed:
        held, work = 0, 0
    elif kind == "rows":  # blocks of float32, made by three copies of the longest
        held, work = 4 * size * seen, 12 * size * tokens * most
    elif run.model.cubic:  # z
        held, work = 24 * size * seen, 24 * dim**2 * most
    elif kind == "published":  # every token's output, every score
        held = 4 * size * seen
        work = 4 * heads * seen * (tokens + 4 * size) * drawn + 12 * tokens**2 * most
    else:  # tokens of every length, by the run and, while edge looks, twice more. A head's scores and what
        # it makes of a sequence, thrice: what a length leaves is too small for the next, and not used again
        wide = size + getattr(run.model, "rank", 0)
        held, work = 24 * size * seen, 24 * heads * (seen + len(task.lengths) * wide) * most
    if run.own:  # in float64, and as read
        found["--data"] += drawn * (held + 16 * tokens * size) + work
    else:  # in float32 with its W, five times while it is whitened; drawn in float64
        held += 4 * tokens * size + 20 * dim * task.outputs
        wide = 24 * min(most, DRAWN) * tokens * dim
        found["--trainset_size"] = drawn * held + max(wide, work)
        found["--testset_size"] = 2 * run.tests * held
    found["--epoch"] = 16 * run.steps * (3 + heads)
    return found
