"""Where linear theory still speaks of softmax: small scores, and the time at which a run leaves them."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Float

from iclbook.studies import crossing, sequences
from iclbook.studies.softmax import MERGED, SEED, SEPARATE, SEQUENCES, TASK
from iclcore import theory
from iclcore.models import MergedAttention, SeparateAttention
from iclcore.moments import of_sequences
from iclcore.task import Sequences
from iclcore.trainer import train


def mirrored(data: Sequences) -> Sequences:
    """Each sequence four times: with ±x_q and with ±w.

    Averages that are zero in the population because they are odd in x_q or w are zero here too, so
    that small weights stand on a saddle, as in the population.
    """
    x, y = (np.concatenate([part, part, part, part]) for part in (data.x, data.y))
    sign_q, sign_w = (np.repeat(each, len(data)) for each in ([1, -1, 1, -1], [1, 1, -1, -1]))
    x[:, -1] *= sign_q[:, None]
    y[:, -1] *= sign_q[:, None]
    return Sequences(x, y * sign_w[:, None, None])


def leading(data: Sequences) -> tuple[Float[np.ndarray, "D D"], float, float]:
    """A, κ and the power, ⟨y_q²⟩, of a data set; ``theory.small_scores`` is their population mean."""
    ((tokens, target),) = data.prefixes()
    x, y = tokens[..., :-1], tokens[..., -1]
    mean = y.mean(axis=1)
    cov = (x * y[..., None]).mean(axis=1) - x.mean(axis=1) * mean[:, None]
    drive = np.einsum("p,pd,pa->da", target[:, 0], x[:, -1], cov) / len(data)
    return drive, float(np.mean(mean**2)), float(np.mean(target**2))


@dataclass(frozen=True)
class Escape:
    """Softmax and linear attention from one start, and when a tenth of the loss is gone."""

    time: dict[str, Float[np.ndarray, " t"]]
    softmax: dict[str, Float[np.ndarray, " t"]]
    linear: dict[str, Float[np.ndarray, " t"]]
    predicted: dict[str, Float[np.ndarray, " t"]]
    inits: dict[str, Float[np.ndarray, " inits"]]
    left: dict[str, Float[np.ndarray, "series inits"]]  # simulated, predicted, linear, as drawn
    facts: dict[str, float]


def escape(scale: str = "paper") -> Escape:
    drawn = TASK.sample(sequences(scale, SEQUENCES), seed=SEED)
    even = mirrored(drawn[: len(drawn) // 4])
    found = leading(even)
    small = 10.0 ** -np.arange(1, 6), np.array([0.1, 0.05, 0.02, 0.01])
    kinds = {
        "merged": (MergedAttention, MERGED.heads, small[0], 1e-3, 0.05),
        "separate": (SeparateAttention, SEPARATE.heads, small[1], 0.02, 0.2),
    }
    arrays: dict[str, dict] = {name: {} for name in ("time", "softmax", "linear", "predicted",
                                                     "inits", "left")}  # fmt: skip
    facts: dict[str, float] = {}
    for name, (kind, heads, inits, shown, rate) in kinds.items():
        soft, linear = kind(heads, softmax=True), kind(heads, divisor="tokens")
        unit = kind(heads, 1.0).start(TASK.dim, seed=1)
        moments = of_sequences(even, linear)
        rows = []
        for init in inits:
            start = {part: init * array for part, array in unit.items()}
            expected = theory.escape_from(*found, start, 0.1)
            steps = int(1.4 * expected / rate)
            runs = [train(soft, even, steps, rate, start=start),
                    train(linear, moments, steps, rate, start=start),
                    train(soft, drawn, steps, rate, start=start)]  # fmt: skip
            times = [rate * crossing(run.loss, 0.9) for run in runs]
            rows.append([times[0], expected, times[1], times[2]])
            if init == shown:
                every = slice(None, None, max(1, steps // 400))
                arrays["time"][name] = rate * runs[0].steps[every]
                arrays["softmax"][name] = runs[0].loss[every]
                arrays["linear"][name] = runs[1].loss[every]
                arrays["predicted"][name] = theory.early_loss(*found, start, arrays["time"][name])
                step = int(crossing(runs[0].loss, 0.9))
                values = runs[0].series["value"][step]
                facts[f"{name}_sum"] = abs(values.sum()) / np.abs(values).sum()
        left = np.array(rows).T
        arrays["inits"][name], arrays["left"][name] = inits, left
        facts[f"{name}_error"] = np.abs(left[0] / left[1] - 1)[1:].max()
        for times in (0, 4):  # of κ: what these times say of its size
            others = [
                theory.escape_from(found[0], times * found[1], found[2], start, 0.1)
                for start in ({part: init * a for part, a in unit.items()} for init in inits[1:])
            ]
            facts[f"{name}_error_{times}"] = np.abs(left[0][1:] / others - 1).max()
        facts[f"{name}_later"] = left[0][-1] / left[2][-1]
        facts[f"{name}_drawn"] = left[3][-1]
        facts[f"{name}_even"] = left[0][-1]
    pull, together = theory.merged_growth(*theory.small_scores(TASK), MERGED.heads)
    facts |= {"pull": pull, "together": together, "drag": theory.small_scores(TASK)[1]}
    facts["decade"] = np.polyfit(np.arange(4), arrays["left"]["merged"][0][1:], 1)[0]
    facts["decade_theory"] = np.log(10) / (2 * np.linalg.norm(found[0]))
    return Escape(**arrays, facts=facts)
