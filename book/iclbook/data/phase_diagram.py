"""In weights or in context at the end of training: 10,000 runs, share by context length.

    python -m iclbook.data.phase_diagram

trains them, and finds how the border between the two moves with more steps; the page shows the arrays
that it writes. Every run is exact: infinitely many sequences, whose averages are linear in the share.
"""

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from jaxtyping import Float

from iclbook.theory.in_weight import Errors, Populations, equal_error_share, populations
from iclcore import MergedAttention, RegressionTask, train
from iclcore.files import write_whole
from iclcore.sweep import executor

TABLE = Path(__file__).with_suffix(".npz")
SHARES, LENGTHS = np.arange(1, 101) / 100, range(1, 101)
TASK = RegressionTask(dim=4, spectrum="white")
# The sum over the context is divided by N, so that the linear theory has one pace for all N; times 31
# the learning rate is then that of the published command at its N.
MODEL = MergedAttention(heads=8, init=1e-6, divisor="context")
STEPS, RATE = 4001, 31 * 5e-4
TESTS = ("in_weight", "in_context")
TIMES, BORDER_LENGTHS = (1, 10, 100), (1, 2, 3, 5, 8, 14, 25, 50, 100)


def kinds(length: int) -> Populations:
    return populations(replace(TASK, context=length), MODEL)


def ends(parts: Populations, share: float, steps: int = STEPS) -> Errors:
    """The errors after training at this share; all runs have the same start."""
    return parts.model_errors(MODEL, train(MODEL, parts.mixture(share), steps, RATE, seed=0).final)


def train_all(lengths=LENGTHS, shares=SHARES) -> Float[np.ndarray, "2 lengths shares"]:
    """A context length has two kinds of averages, whatever the share."""

    def row(length: int) -> list[list[float]]:
        parts = kinds(length)
        found = [ends(parts, share) for share in shares]
        return [[errors[test] for errors in found] for test in TESTS]

    with executor() as pool:
        return np.moveaxis(list(pool.map(row, lengths)), 0, 1)


def train_borders() -> Float[np.ndarray, "times lengths"]:
    """Where both errors are equal after so many times the steps."""

    def at(length: int, times: int) -> float:
        parts = kinds(length)
        return equal_error_share(lambda share: ends(parts, share, times * STEPS))

    with executor() as pool:
        found = [[pool.submit(at, n, times) for n in BORDER_LENGTHS] for times in TIMES]
        return np.array([[future.result() for future in line] for line in found])


@dataclass(frozen=True)
class Map:
    """What was written: errors after training, and the border between both kinds of answers."""

    shares: Float[np.ndarray, " s"]
    lengths: range
    errors: dict[str, Float[np.ndarray, "n s"]]  # on both tests
    steps: int
    borders: dict[tuple[int, int], float]  # at a length, after so many times the steps


def stored() -> Map:
    with np.load(TABLE) as arrays:
        errors = dict(zip(TESTS, arrays["errors"].astype(float), strict=True))
        borders = {
            (length, times): float(share)
            for times, line in zip(TIMES, arrays["borders"], strict=True)
            for length, share in zip(BORDER_LENGTHS, line, strict=True)
        }
    return Map(SHARES, LENGTHS, errors, STEPS, borders)


def main() -> None:
    arrays = {"errors": train_all().astype(np.float32), "borders": train_borders()}
    write_whole(TABLE, lambda file: np.savez_compressed(file, **arrays))
    print(f"{TABLE.name}: {arrays['errors'][0].size:,} runs")


if __name__ == "__main__":
    main()
