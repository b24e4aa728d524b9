"""The engines: published runs against the naive step, steps against the machine, growth of cost."""

import resource
import time

import numpy as np
import torch

from bench import machine
from bench.naive import best_seconds, step_seconds
from iclcore import MergedAttention, RegressionTask, SeparateAttention, reference
from iclcore.descent import MomentDescent
from iclcore.models import Model
from iclcore.modules import AutogradDescent
from iclcore.moments import Moments, of_population, of_sequences
from iclcore.softmax import RowDescent

FIRST = (RegressionTask(), MergedAttention(heads=8, init=1e-6), 5000, 6001, 0.001)
FOURTH = (RegressionTask(dim=8), SeparateAttention(heads=9, init=5e-3), 80_000, 20_001, 0.02)


def published(case: tuple, naive_steps: int) -> dict:
    """Data, moments and descent of a published linear run, and what the naive step would take."""
    task, model, sequences, steps, lr = case
    seconds = {}
    clock = time.perf_counter()
    draw = reference.draw(task, model, sequences)
    seconds["data"] = time.perf_counter() - clock
    of_sequences(draw.train[:64], model)  # what is compiled is not counted
    clock = time.perf_counter()
    moments = of_sequences(draw.train, model)
    seconds["moments"] = time.perf_counter() - clock
    descent = MomentDescent(model, draw.start, moments, [], lr)
    clock = time.perf_counter()
    descent.advance(steps)
    seconds["descent"] = time.perf_counter() - clock
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    row = {
        "P": sequences,
        "D": task.dim,
        "H": model.heads,
        "steps": steps,
        **seconds,
        "memory_gb": memory,
    }
    if naive_steps:
        naive = step_seconds(model, draw.start, draw.train, lr, naive_steps)
        row |= {
            "naive_step": naive,
            "naive_hours": naive * steps / 3600,
            "times_faster": naive * steps / seconds["descent"],
            "times_faster_with_moments": naive * steps / (seconds["moments"] + seconds["descent"]),
        }
    return row


def softmax(sequences: int) -> dict:
    """The first published command with --softmax: naive, plain torch on the query's row, fused."""
    task, model = FIRST[0], MergedAttention(heads=8, init=1e-6, softmax=True)
    draw = reference.draw(task, model, sequences)
    naive = step_seconds(model, draw.start, draw.train, 1e-3, 5)
    torch_rows = AutogradDescent(model, draw.start, draw.train, [], 1e-3)
    plain = best_seconds(lambda: torch_rows.advance(3), 3) / 3
    rows = RowDescent(model, draw.start, draw.train, [], 1e-3)
    fused = best_seconds(lambda: rows.advance(30), 10) / 30
    return {"P": sequences, "naive_step": naive, "torch_row_step": plain, "fused_step": fused,
            "times_faster": naive / fused, "threads": torch.get_num_threads()}  # fmt: skip


def step_time(model: Model, moments: Moments, steps: int) -> float:
    """Seconds a compiled step, from a start that stays finite."""
    start = model.start(moments.features.dim, len(moments.cross))
    descent = MomentDescent(model, start, moments, [], 1e-4)
    return best_seconds(lambda: descent.advance(steps), 7) / steps


def against_blas() -> list[dict]:
    """A step against one BLAS matrix-vector product of gram's size."""
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
    """Moments of D = 8 data against one BLAS rank-k update of the same size."""
    data, model = RegressionTask(dim=8).sample(sequences), SeparateAttention()
    data = type(data)(data.x.astype(np.float32), data.y.astype(np.float32))
    taken = best_seconds(lambda: of_sequences(data, model), 2)
    blas = machine.rank_k(sequences, 360)
    return {"P": sequences, "moments": taken, "rank_k": blas, "ratio": taken / blas}


def growth(quick: bool) -> dict[str, list[dict]]:
    """Cost of moments in P, N, D and of a step in D, H, R; P and N do not enter a step."""
    model = SeparateAttention(heads=9)
    grids = {
        "P": [(8, 31, p) for p in (100, 1000, 10_000, *(() if quick else (100_000,)))],
        "N": [(8, n, 1000) for n in (3, 10, 31, 100, 310)],
        "D": [(d, 31, 1000) for d in (1, 2, 4, 8, *(() if quick else (16,)))],
    }
    found: dict[str, list[dict]] = {}
    for name, grid in grids.items():
        for dim, context, sequences in grid:
            data = RegressionTask(dim=dim, context=context).sample(sequences)
            taken = best_seconds(lambda d=data: of_sequences(d, model), 3)
            found.setdefault(f"moments_{name}", []).append(
                {name: {"P": sequences, "N": context, "D": dim}[name], "seconds": taken}
            )
    for dim in (1, 2, 4, 8, *(() if quick else (16,))):
        moments = of_sequences(RegressionTask(dim=dim).sample(200), model)
        taken = step_time(model, moments, 100 if dim > 8 else 2000)
        found.setdefault("step_D", []).append(
            {"D": dim, "F": moments.features.size, "seconds": taken}
        )
    moments = of_population(RegressionTask(dim=8), model)
    for heads in (1, 3, 10, 30, 100):
        taken = step_time(SeparateAttention(heads=heads), moments, 500)
        found.setdefault("step_H", []).append({"H": heads, "seconds": taken})
    for rank in (1, 2, 4, 8):
        taken = step_time(SeparateAttention(heads=9, rank=rank), moments, 1000)
        found.setdefault("step_R", []).append({"R": rank, "seconds": taken})
    return found
