"""The engines: published runs against the naive step, steps against the machine, growth of cost."""

import time

import numpy as np

from bench import machine
from bench.naive import best_seconds, step_seconds
from iclcore import MergedAttention, RegressionTask, SeparateAttention, published
from iclcore.engines.autograd import AutogradEngine
from iclcore.engines.linear import MomentEngine
from iclcore.engines.softmax import SoftmaxEngine
from iclcore.models import Model, Weights
from iclcore.moments import Moments, of_population, of_sequences
from iclcore.task import Sequences

FIRST = (RegressionTask(), MergedAttention(heads=8, init=1e-6), 5000, 6001, 0.001)
FOURTH = (RegressionTask(dim=8), SeparateAttention(heads=9, init=5e-3), 80_000, 20_001, 0.02)


def published_run(case: tuple) -> dict:
    """Return the seconds that a published linear run takes for its data, its moments and its steps."""
    task, model, sequences, steps, lr = case
    seconds = {}
    clock = time.perf_counter()
    draw = published.sample(task, sequences)
    seconds["data"] = time.perf_counter() - clock
    of_sequences(draw[:64], model)  # so that compiling does not count
    clock = time.perf_counter()
    moments = of_sequences(draw, model)
    seconds["moments"] = time.perf_counter() - clock
    descent = MomentEngine(model, draw.starts(model), moments, [], lr)
    descent.load()
    clock = time.perf_counter()
    descent.advance(steps)
    seconds["descent"] = time.perf_counter() - clock
    return {"P": sequences, "D": task.dim, "H": model.heads, "steps": steps, **seconds}


def memory() -> float:
    """Return the most gigabytes that this process has held, on Linux."""
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6


def against_naive(case: tuple, row: dict, times: int) -> dict:
    """Return the time of a published run by the naive step, which is timed here, and the ratio of the two."""
    task, model, sequences, steps, lr = case
    draw = published.sample(task, sequences)
    naive = step_seconds(model, draw.starts(model), draw, lr, times)
    return {
        "naive_step": naive,
        "naive_hours": naive * steps / 3600,
        "times_faster": naive * steps / row["descent"],
        "times_faster_with_moments": naive * steps / (row["moments"] + row["descent"]),
    }


def softmax(sequences: int) -> dict:
    """Return the seconds of a step of the first published command with --softmax, computed in three ways."""
    task, model = FIRST[0], MergedAttention(heads=8, init=1e-6, softmax=True)
    draw = published.sample(task, sequences)
    naive = step_seconds(model, draw.starts(model), draw, 1e-3, 5)
    torch_rows = AutogradEngine(model, draw.starts(model), draw, [], 1e-3)
    plain = best_seconds(lambda: torch_rows.advance(3), 3) / 3
    fused = softmax_step(model, draw.starts(model), draw, 30)
    # per head and token E in each of score, context, pull and slope's return, 6 for the exponential
    tokens, size = task.context + 1, task.dim + 1
    products = sequences * model.heads * (tokens * (4 * size + 6) + 3 * task.dim * size)
    limit = 2 * products / machine.peak()
    return {"P": sequences, "naive_step": naive, "torch_row_step": plain, "fused_step": fused,
            "limit_step": limit, "times_faster": naive / fused, "threads": 1}  # fmt: skip


def softmax_step(model: Model, start: Weights, data: Sequences, steps: int) -> float:
    """Return the seconds of a step of the softmax engine, which runs on one thread."""
    engine = SoftmaxEngine(model, start, data, [], 1e-3)
    return best_seconds(lambda: engine.advance(steps), 10) / steps


def step_time(model: Model, moments: Moments, steps: int) -> float:
    """Return the seconds of a step on moments, from a start whose run stays finite."""
    start = model.start(moments.features.dim, len(moments.cross))
    descent = MomentEngine(model, start, moments, [], 1e-4)
    return best_seconds(lambda: descent.advance(steps), 7) / steps


def against_blas() -> list[dict]:
    """Compare a step with one BLAS matrix-vector product of the size of gram."""
    rows = []
    for dim, heads in ((4, 5), (8, 9)):
        moments = of_population(RegressionTask(dim=dim), SeparateAttention())
        blas = machine.matrix_vector(moments.features.size)
        for rank in (1, dim):
            step = step_time(SeparateAttention(heads=heads, rank=rank), moments, 3000)
            rows.append(
                {"D": dim, "H": heads, "R": rank, "step": step, "blas": blas, "ratio": step / blas}
            )
    return rows


def moments_against_rank_k(sequences: int) -> dict:
    """Compare the moments of D = 8 data with one BLAS rank-k update of the same size."""
    data, model = RegressionTask(dim=8).sample(sequences), SeparateAttention()
    data = type(data)(data.x.astype(np.float32), data.y.astype(np.float32))
    taken = best_seconds(lambda: of_sequences(data, model), 2)
    blas = machine.rank_k(sequences, 360)
    return {"P": sequences, "moments": taken, "rank_k": blas, "ratio": taken / blas}


def growth(quick: bool) -> dict[str, list[dict]]:
    """Return how the cost of moments, of a step on them and of a softmax step grows with each size."""
    decades = {
        "P": (100, 1000, 10_000, *(() if quick else (100_000,))),
        "N": (3, 10, 31, 100, 310),
        "D": (1, 2, 4, 8, *(() if quick else (16,))),
        "H": (1, 3, 10, 30, 100),
        "R": (1, 2, 4, 8),
    }
    found: dict[str, list[dict]] = {}

    def note(what: str, name: str, value: int, seconds: float) -> None:
        found.setdefault(f"{what}_{name}", []).append({name: value, "seconds": seconds})

    for name in ("P", "N", "D", "H"):
        for value in decades[name]:
            size = {"D": 8, "N": 31, "P": 1000, "H": 9} | {name: value}
            task = RegressionTask(dim=size["D"], context=size["N"])
            data, steps = task.sample(size["P"]), max(3, 100_000 // size["P"])
            model = MergedAttention(heads=size["H"], init=1e-2, softmax=True)
            taken = softmax_step(model, model.start(size["D"]), data, steps)
            note("softmax", name, value, taken)
            if name != "H":  # moments know no heads
                note("moments", name, value,
                     best_seconds(lambda d=data: of_sequences(d, SeparateAttention()), 3))  # fmt: skip
    for name in ("D", "H", "R"):
        for value in decades[name]:
            size = {"D": 8, "H": 9, "R": 1} | {name: value}
            moments = of_sequences(RegressionTask(dim=size["D"]).sample(200), SeparateAttention())
            model = SeparateAttention(heads=size["H"], rank=size["R"])
            steps = 100 if size["D"] > 8 else 1000
            note("step", name, value, step_time(model, moments, steps))
    return found
