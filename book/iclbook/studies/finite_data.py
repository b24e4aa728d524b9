"""What a finite sample does to the levels of Figure 4, and to the least-squares floor below them."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from iclbook.studies import sequences
from iclbook.studies.low_rank import SEEDS, TASK, published
from iclcore import theory
from iclcore.compiled import fill_features
from iclcore.models import MergedAttention
from iclcore.moments import CHUNK, of_population
from iclcore.task import RegressionTask


@dataclass(frozen=True)
class FiniteData:
    """Levels and least-squares floor on the first P sequences of each seed's draw."""

    sizes: Int[np.ndarray, " P"]
    shifts: Float[np.ndarray, "seeds P levels"]
    spread: Float[np.ndarray, " P"]  # standard deviation of the level M_0, in theory
    floors: Float[np.ndarray, "seeds P"]
    predicted: Float[np.ndarray, " P"]
    facts: dict[str, float]


def finite_data(scale: str = "paper") -> FiniteData:
    """The floor of P sequences is σ²(1 − κ/P), σ² = L(M_D) being that of infinitely many."""
    seeds, levels = [published(seed, scale) for seed in SEEDS], theory.plateau_losses(TASK)
    sizes, limit = seeds[0].sizes, levels[-1]
    shifts = np.stack([seed.levels for seed in seeds]) - levels
    floors, residual = (
        np.stack([getattr(s, name) for s in seeds]) for name in ("floors", "residual")
    )
    kappa, error = overfit(TASK, sequences(scale, 100_000))
    predicted = limit * (1 - kappa / sizes)
    growing = RegressionTask(dim=8)
    other = published(10, scale, growing)
    facts = {
        "shift_0": np.sqrt(np.mean(shifts[:, -1, 0] ** 2)),
        "shift_8": np.sqrt(np.mean(shifts[:, -1, 8] ** 2)),
        "features": len(seeds[0].moments.cross[0]),
        "kappa": kappa,
        "kappa_error": error,
        "floor": floors[:, -1].mean(),
        "floor_theory": predicted[-1],
        "limit": limit,
        "chance": residual[:, -1].mean() - limit,
        "gain": (residual - floors)[:, -1].mean(),
        "gain_theory": limit * kappa / sizes[-1],
        "floor_first": floors[:, 0].mean(),
        "floor_first_theory": predicted[0],
        "linear_4": other.levels[-1, 4],
        "linear_4_theory": theory.plateau_losses(growing)[4],
        "linear_8": other.levels[-1, 8],
        "linear_8_theory": theory.plateau_losses(growing)[8],
    }
    return FiniteData(sizes, shifts, top_spread(TASK, sizes), floors, predicted, facts)


def overfit(task: RegressionTask, count: int) -> tuple[float, float]:
    """κ = tr(G⁻¹ E[r²φφᵀ])/σ² by Monte Carlo over ``count`` sequences, and its standard error.

    r = y_q − cᵀφ is what the best predictor leaves, σ² = E[r²], G = E[φφᵀ]. A fit to P sequences
    lowers their mean r² by gᵀG⁻¹g to leading order, with g = ⟨rφ⟩ of mean zero and covariance
    E[r²φφᵀ]/P: on average by σ²κ/P. κ would be the number of features if r² did not depend on them.
    """
    model = MergedAttention(heads=1)
    moments = of_population(task, model)
    root = np.linalg.inv(np.linalg.cholesky(moments.gram))
    c = np.linalg.solve(moments.gram, moments.cross[0])
    left = moments.power - moments.cross[0] @ c
    size = min(CHUNK, count)
    phi, found = np.empty((size, moments.features.size)), []
    for seed in range(count // size):
        data = task.sample(size, seed=seed)
        fill_features(data.x, data.y, *moments.features.places, 1, phi)
        r = data.y[:, -1, 0] - phi @ c
        found.append(np.sum(((r[:, None] * phi) @ root.T) ** 2) / size / left)
    return float(np.mean(found)), float(np.std(found, ddof=1) / np.sqrt(len(found)))


def top_spread(task: RegressionTask, sizes: Int[np.ndarray, " P"]) -> Float[np.ndarray, " P"]:
    """Standard deviation of the mean of y_q² over the first P sequences of a set, the last all of it.

    Var y_q² = 2 tr² + 6 tr Λ², and of this 2 tr Λ² is that of wᵀΛw. The published draw whitens w, so
    that the sum of wᵀΛw over the whole set is fixed: as in a sample without replacement.
    """
    lam = task.eigenvalues
    own = 2 * (1 - sizes / sizes[-1]) * np.sum(lam**2)
    return np.sqrt((2 * lam.sum() ** 2 + 4 * np.sum(lam**2) + own) / sizes)
