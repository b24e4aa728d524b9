"""``make bench``: seconds against the naive step, a step against BLAS, cost in P, N and D.

``--quick`` skips what takes long (the naive step on 80,000 sequences) and shrinks the grids.
"""

import argparse
import resource
import sys
import time

import numpy as np
from numba import njit

from bench.naive import best_seconds, step_seconds
from iclcore import MergedAttention, RegressionTask, SeparateAttention, reference
from iclcore.descent import MomentDescent
from iclcore.models import Model
from iclcore.moments import Moments, of_population, of_sequences

FIRST = (RegressionTask(), MergedAttention(heads=8, init=1e-6), 5000, 6001, 0.001)
FOURTH = (RegressionTask(dim=8), SeparateAttention(heads=9, init=5e-3), 80_000, 20_001, 0.02)


def published(name: str, case: tuple, naive_steps: int) -> None:
    """Data, moments and descent of a published run, against the naive step times its steps."""
    task, model, sequences, steps, lr = case
    seconds = {}
    clock = time.perf_counter()
    draw = reference.draw(task, model, sequences)
    seconds["data"] = time.perf_counter() - clock
    of_sequences(draw.train[:64], model)
    clock = time.perf_counter()
    moments = of_sequences(draw.train, model)
    seconds["moments"] = time.perf_counter() - clock
    descent = MomentDescent(model, draw.start, moments, [], lr)
    clock = time.perf_counter()
    descent.advance(steps)
    seconds["descent"] = time.perf_counter() - clock
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    parts = ", ".join(f"{part} {value:.3f}" for part, value in seconds.items())
    print(f"{name}: P = {sequences:,}, D = {task.dim}, {steps:,} steps: seconds {parts}; "
          f"peak memory so far {memory:.2f} GB")  # fmt: skip
    if naive_steps:
        naive = step_seconds(model, draw.start, draw.train, lr, naive_steps)
        print(f"  naive step {naive:.3f} s, so {naive * steps / 3600:.1f} hours a run: "
              f"descent is {naive * steps / seconds['descent']:,.0f} times faster, "
              f"with moments {naive * steps / (seconds['moments'] + seconds['descent']):,.0f}, "
              f"with the draws {naive * steps / sum(seconds.values()):,.0f}")  # fmt: skip


def step_time(model: Model, moments: Moments, steps: int) -> float:
    """Seconds a compiled step, from a start that stays finite."""
    start = model.start(moments.features.dim, len(moments.cross))
    descent = MomentDescent(model, start, moments, [], 1e-4)
    return best_seconds(lambda: descent.advance(steps), 5) / steps


@njit
def _products(a, x, y, times):
    for _ in range(times):
        np.dot(a, x, y)
        x[0] += 1e-12 * y[0]


def blas_time(size: int, times: int = 3000) -> float:
    """Seconds a BLAS matrix-vector product, called without Python in between."""
    a, x, y = np.random.default_rng(0).standard_normal((size, size)), np.ones(size), np.empty(size)
    _products(a, x, y, 1)
    return best_seconds(lambda: _products(a, x, y, times), 5) / times


def against_blas() -> None:
    print("a step against one BLAS matrix-vector product of gram's size")
    for dim, heads in ((4, 5), (8, 9)):
        moments = of_population(RegressionTask(dim=dim), SeparateAttention())
        blas = blas_time(moments.features.size)
        for rank in (1, dim):
            step = step_time(SeparateAttention(heads=heads, rank=rank), moments, 3000)
            print(f"  D = {dim}, H = {heads}, R = {rank}: {step * 1e6:.2f} µs, BLAS {blas * 1e6:.2f} µs, "
                  f"ratio {step / blas:.2f}")  # fmt: skip


def growth(quick: bool) -> None:
    """Cost of moments in P and N, of a step in D (and P, N: none)."""
    model = SeparateAttention(heads=9)
    print(
        "moments: seconds against P (D = 8, N = 31), then N (P = 2,000), then D (P = 2,000, N = 31)"
    )
    grids = {
        "P": [(8, 31, p) for p in (1000, 3000, 10_000, *(() if quick else (30_000, 100_000)))],
        "N": [(8, n, 2000) for n in (10, 31, 100, 310)],
        "D": [(d, 31, 2000) for d in (2, 4, 8, *(() if quick else (16,)))],
    }
    for name, grid in grids.items():
        for dim, context, sequences in grid:
            data = RegressionTask(dim=dim, context=context).sample(sequences)
            taken = best_seconds(lambda d=data: of_sequences(d, model), 3)
            value = {"P": sequences, "N": context, "D": dim}[name]
            print(
                f"  {name} = {value:>7,}: {taken:.4f} s, {taken / sequences * 1e6:.2f} µs a sequence"
            )
    print("step: seconds against D (H = 9, R = 1); P and N do not enter")
    for dim in (2, 4, 8, *(() if quick else (16,))):
        task = RegressionTask(dim=dim)
        moments = of_sequences(task.sample(500), model)
        taken = step_time(model, moments, 200 if dim > 8 else 2000)
        size = moments.features.size
        print(
            f"  D = {dim:>2}: F = {size:>5,}: {taken * 1e6:9.2f} µs, {taken / size**2 * 1e9:.3f} ns an entry"
        )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true")
    quick = parser.parse_args().quick
    # the large run first: peak memory is of all that came before
    published("fourth published command", FOURTH, 0 if quick else 1)
    published("first published command", FIRST, 3)
    against_blas()
    growth(quick)
    return 0


if __name__ == "__main__":
    sys.exit(main())
