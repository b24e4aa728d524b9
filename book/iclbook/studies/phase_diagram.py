"""In weights or in context at the end of training: 10,000 runs, share by context length.

    python -m iclbook.studies.phase_diagram

trains them, and finds how the border between the two moves with more steps; the page shows the arrays
that it writes. Every run is exact: infinitely many sequences, whose moments are linear in the share.
"""

from dataclasses import dataclass, replace

import numpy as np
from jaxtyping import Float, Int
from scipy.optimize import brentq

from iclbook.studies import DATA, in_weight
from iclcore.descent import MomentDescent
from iclcore.history import write_whole
from iclcore.models import MergedAttention
from iclcore.moments import Moments, coefficients
from iclcore.sweep.workers import Cores

TABLE = DATA / "phase_diagram.npz"
TESTS = ("in_weight", "in_context")
SHARES, LENGTHS = np.arange(1, 101) / 100, np.arange(1, 101)
# The sum over the context is divided by N, so that the linear theory has one pace for all N; times 31
# the learning rate is then that of the published command at its N.
MODEL = MergedAttention(heads=8, init=1e-6, divisor="context")
STEPS, RATE = in_weight.STEPS, 31 * in_weight.RATE
LATER, BORDER_LENGTHS = (1, 10, 100), (1, 2, 3, 5, 8, 14, 25, 50, 100)
ALIKE = 1e-4  # errors that were written as float32, on another machine


def kinds(length: int) -> dict[str, Moments]:
    return in_weight.kinds(replace(in_weight.WHITE, context=length), MODEL)


def ends(parts: dict[str, Moments], share: float, steps: int = STEPS) -> Float[np.ndarray, "2"]:
    """Both test errors after training at this share; all runs have the same start."""
    mixture = in_weight.at_share(parts, share)
    weights = MODEL.start(in_weight.WHITE.dim, seed=0)
    MomentDescent(MODEL, weights, mixture, [], RATE).advance(steps)
    c = coefficients(MODEL.factors(weights, in_weight.WHITE.dim), mixture.features)
    return np.array([parts[test].loss(c) for test in TESTS])


def best(parts: dict[str, Moments], share: float) -> Float[np.ndarray, "2"]:
    """Both test errors of the least-squares optimum."""
    mixture = in_weight.at_share(parts, share)
    c = np.linalg.lstsq(mixture.gram, mixture.cross.T, rcond=1e-12)[0].T
    return np.array([parts[test].loss(c) for test in TESTS])


def border(errors, least: float = 1e-3) -> float:
    """The share at which ``errors(share)`` has both test errors equal; 0 if that is below ``least``."""

    def lead(share: float) -> float:
        weights, context = errors(share)
        return weights - context

    return float(brentq(lead, least, 1, xtol=least / 10)) if lead(least) < 0 else 0.0


def optimum(length: int) -> float:
    """The border of the least-squares optimum, to four digits down to a share of 2·10⁻⁵."""
    parts = kinds(length)
    return border(lambda share: best(parts, share), 2e-8)


def power(first: float, last: float, ratio: float) -> float:
    """p of a border that falls like N^−p from the one to the other, at ``ratio`` times the length."""
    return float(np.log(first / last) / np.log(ratio))


def train_all(lengths=LENGTHS, shares=SHARES) -> Float[np.ndarray, "2 lengths shares"]:
    """A context length has two kinds of moments, whatever the share."""

    def row(length: int) -> Float[np.ndarray, "shares 2"]:
        parts = kinds(length)
        return np.array([ends(parts, share) for share in shares])

    with Cores() as cores:
        rows = [cores.submit(row, int(length)) for length in lengths]
        return np.moveaxis([row.result() for row in rows], 2, 0)


def train_borders() -> Float[np.ndarray, "later lengths"]:
    """Where both errors are equal after so many times the steps."""

    def at(length: int, times: int) -> float:
        parts = kinds(length)
        return border(lambda share: ends(parts, share, times * STEPS))

    with Cores() as cores:
        found = [[cores.submit(at, n, times) for n in BORDER_LENGTHS] for times in LATER]
        return np.array([[future.result() for future in line] for line in found])


@dataclass(frozen=True)
class Diagram:
    """Errors after training, and the border between in-weight and in-context answers."""

    shares: Float[np.ndarray, " s"]
    lengths: Int[np.ndarray, " n"]
    errors: Float[np.ndarray, "2 n s"]  # in-weight and in-context test
    borders: Float[np.ndarray, "later m"]  # of training, at BORDER_LENGTHS
    optimum: Float[np.ndarray, " n"]  # of least squares
    facts: dict[str, float]


def diagram(scale: str = "paper") -> Diagram:
    """The arrays, the theory, and a hundredth of the runs (at scale ``quick`` a few) done again."""
    with np.load(TABLE) as stored:
        errors, borders = stored["errors"].astype(float), stored["borders"]
    least = np.array([optimum(int(length)) for length in LENGTHS])
    some = slice(9, None, 10) if scale == "paper" else slice(9, None, 45)
    again = train_all(LENGTHS[some], SHARES[some])
    alike = np.all(np.abs(again - errors[:, some, some]) < ALIKE, axis=0)
    facts = {"runs": errors[0].size, "again": alike.size, "alike": int(alike.sum())}
    for i, length in enumerate(BORDER_LENGTHS):
        facts[f"best_{length}"] = least[length - 1]
        facts |= {f"border_{length}_{times}": borders[j, i] for j, times in enumerate(LATER)}
    facts["power_8"] = power(facts["best_8"], facts["best_14"], 14 / 8)
    facts["power_50"] = power(facts["best_50"], facts["best_100"], 2)
    facts["power_200"] = power(optimum(200), optimum(400), 2)
    return Diagram(SHARES, LENGTHS, errors, borders, least, facts)


def main() -> None:
    arrays = {"errors": train_all().astype(np.float32), "borders": train_borders()}
    write_whole(TABLE, lambda file: np.savez_compressed(file, **arrays))
    print(f"{TABLE.name}: {arrays['errors'][0].size:,} runs")


if __name__ == "__main__":
    main()
