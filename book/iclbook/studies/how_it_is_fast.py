"""Why half an hour becomes ten milliseconds: the quadratic form, its cost, and what was measured."""

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from jaxtyping import Float

from iclbook.measure import overfit as fitted_noise
from iclbook.studies import sequences
from iclcore import reference
from iclcore.history import History
from iclcore.models import MergedAttention, Model, SeparateAttention
from iclcore.moments import features
from iclcore.task import RegressionTask
from iclcore.trainer import MOST_FEATURES, train

# written by `make bench`; a page must not time the machine that happens to build it
RESULTS = Path(__file__).resolve().parents[3] / "bench" / "results.json"


@dataclass(frozen=True)
class Same:
    """One run by autograd on the torch module and by moments."""

    autograd: History
    moments: History
    facts: dict


def same_curve(scale: str = "paper") -> Same:
    """The published first command's model on 200 sequences: autograd would be slow on more."""
    task, model = RegressionTask(), MergedAttention(heads=8, init=1e-2)
    draw = reference.sample(task, 200)
    runs = [
        train(model, draw, 800, 0.002, start=draw.start(model), engine=engine)
        for engine in ("autograd", "moments")
    ]
    apart = np.abs(runs[0].loss - runs[1].loss).max()
    digits = min(12, int(-np.log10(apart + 1e-300)))  # beyond 12 it is the machine's rounding
    size = features(model, task.dim, task.outputs).size
    facts = {"digits": digits, "features_4": size}
    facts["features_8"] = features(model, 8, 1).size
    return Same(*runs, facts)


def overfit(scale: str = "paper") -> dict[str, float]:
    """By what share the floor of 5,000 sequences lies below the population's loss at D = 4."""
    kappa, error = fitted_noise(RegressionTask(), sequences(scale, 200_000))
    return {"kappa": kappa, "error": error, "share": kappa / 5000}


def count(dim: int) -> int:
    """F, the number of features, for one output."""
    return dim * (dim + 1) * (dim + 2) // 2


def step_operations(sequences: float, tokens: int, dim: int, model: Model, form: str) -> float:
    """Multiply-adds of one step: ``full`` attention, its query ``row`` only, or on ``moments``.

    Forward as written in ``bench/naive.py``; a gradient by autograd costs twice the forward pass.
    """
    size, heads = dim + 1, model.heads
    if form == "full":
        return 3 * sequences * heads * (2 * tokens * size**2 + 2 * tokens**2 * size)
    if form == "row":
        return 3 * sequences * heads * (dim * size + 2 * tokens * size)
    return count(dim) ** 2 + 3 * heads * dim * size**2


@dataclass(frozen=True)
class Costs:
    """Operations of a step against the number of sequences, by form, at two dimensions."""

    sequences: Float[np.ndarray, " P"]
    operations: dict[tuple[int, str], Float[np.ndarray, " P"]]
    facts: dict


def costs(scale: str = "paper") -> Costs:
    counts, found = np.logspace(1, 6, 26), {}
    models = {4: MergedAttention(heads=8), 8: SeparateAttention(heads=9)}
    for dim, model in models.items():
        for form in ("full", "row", "moments"):
            found[dim, form] = np.array([step_operations(p, 32, dim, model, form) for p in counts])
    facts = {
        "ratio_first": step_operations(5000, 32, 4, models[4], "full") / found[4, "moments"][0],
        "ratio_fourth": step_operations(80_000, 32, 8, models[8], "full") / found[8, "moments"][0],
        "breaks_even_8": int(
            np.ceil(found[8, "moments"][0] / step_operations(1, 32, 8, models[8], "row"))
        ),
        "row_wins": next(
            dim
            for dim in range(1, 100)
            if step_operations(5000, 32, dim, models[4], "row")
            < step_operations(5000, 32, dim, models[4], "moments")
        ),
        "most_dim": max(dim for dim in range(1, 100) if count(dim) <= MOST_FEATURES),
    }
    for dim in models:  # where S costs as much as the gram, and heads as much as the product
        facts[f"even_context_{dim}"] = count(dim) ** 2 // ((dim + 1) * (dim + 2))
        facts[f"even_heads_{dim}"] = round(count(dim) ** 2 / (3 * dim * (dim + 1) ** 2))
    facts["most_gb"] = 8e-9 * count(facts["most_dim"]) ** 2
    return Costs(counts, found, facts)


@dataclass(frozen=True)
class Measured:
    """What ``make bench`` wrote."""

    results: dict
    facts: dict


def measured(scale: str = "paper") -> Measured:
    results = json.loads(RESULTS.read_text())
    first, fourth, soft = (results[n] for n in ("first_published", "fourth_published", "softmax"))
    at_8 = next(row for row in results["step_against_blas"] if row["D"] == 8 and row["R"] == 1)
    grown = results["growth"]
    times = {
        f"{what}_{name.lower()}_times": rows[-1]["seconds"] / rows[0]["seconds"]
        for what, name in (("moments", "N"), ("step", "D"), ("step", "H"))
        for rows in [grown[f"{what}_{name}"]]
    }
    facts = {
        "first_minutes": first["naive_hours"] * 60,
        "first_ms": first["descent"] * 1e3,
        "first_times": int(float(f"{first['times_faster']:.2g}")),
        "first_with_moments": int(float(f"{first['times_faster_with_moments']:.2g}")),
        "fourth_with_moments": int(float(f"{fourth['times_faster_with_moments']:.2g}")),
        "fourth_hours": fourth["naive_hours"],
        "fourth_seconds": fourth["descent"],
        "fourth_moments": fourth["moments"],
        "fourth_times": int(float(f"{fourth['times_faster']:.2g}")),
        "memory": fourth["memory_gb"],
        "softmax_times": soft["times_faster"],
        "softmax_torch_times": soft["torch_row_step"] / soft["fused_step"],
        "softmax_limit": soft["fused_step"] / soft["limit_step"],
        "softmax_ms": soft["fused_step"] * 1e3,
        "blas_ratio": at_8["ratio"],
        "step_us": at_8["step"] * 1e6,
        **times,
    }
    return Measured(results, facts)
