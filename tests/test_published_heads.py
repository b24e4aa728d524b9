"""The second paper's published code: the same seed gives the same curves."""

import json
import shlex
from pathlib import Path

import numpy as np
import pytest
from pace import mostly_slow

from iclcore import History
from iclcore.cli import main
from iclcore.heads import full_model, risk, theory
from iclcore.heads.theory import MultiTask

CASES = sorted((Path(__file__).parent / "golden" / "heads").glob("*.npz"))


@pytest.mark.parametrize("path", mostly_slow(CASES, CASES[0]), ids=lambda path: path.stem)
def test_a_seed_is_the_published_curve(path, in_folder, capsys):
    """The command's curves are those of the published code, and its loss is the mean over tasks."""
    golden = np.load(path)
    used = json.loads(str(golden["settings"]))
    steps, lr, tasks = used["steps"], used["lr"], used["dy"]
    flags = {
        "tasks": tasks,
        "dims": used["dx"] // tasks,
        "seq_len": used["L"] + 1,
        "noise": used["noise_std"] ** 2,
        "batch": used["number_of_samples"],
        "lr": lr,
        "epoch": steps,
        "seed": used["seed"],
    }
    line = [part for name, value in flags.items() for part in (f"--{name}", str(value))]
    start = shlex.split("train --model multihead --start published --track_value --save F.npz")
    assert main([*start, *line]) == 0
    history = History.from_npz("F.npz")
    task = MultiTask([used["dx"] // tasks] * tasks, used["L"], noise=used["noise_std"] ** 2)
    assert history.task == task and len(history.loss) == steps
    assert history.settings["loss"] == "mean over contexts and tasks"
    limit = risk.exact_loss(task, *(each.diagonal() for each in theory.limit(task))).mean()
    # The command prints the mean of the last 200 batches beside the limit, in the same unit.
    last = f"{history.loss[-200:].mean():.3f}, limit of one head per task {limit:.3f}\n"
    assert f"(mean over contexts and tasks) {last}" in capsys.readouterr().out
    # Random numbers are the same on every machine, but sums of float32 are not. Each step rounds a weight
    # of at most 1.4 by 2⁻²⁴ of itself. If all errors have one sign, the products ω and μ are off by
    bound = 2 * 1.4 * steps * 2**-24
    rows = slice(None, None, used["stride"])
    for name in ("omega", "mu"):
        np.testing.assert_allclose(history.series[name][rows], golden[name], rtol=0, atol=bound)
    # The loss is quadratic in ω and μ, so its relative error is twice that.
    np.testing.assert_allclose(history.loss[rows], golden["loss"], rtol=2 * bound)
    np.testing.assert_allclose(
        full_model.spectrum(task, history.final), (golden["final_omega"], golden["final_mu"]), atol=bound
    )  # fmt: skip


def test_published_start():
    task = MultiTask([5, 5, 5], context=50)
    omega, mu = full_model.spectrum(task, full_model.published_start(task))
    np.testing.assert_allclose(omega, 50**-1.5 / np.sqrt(18))
    np.testing.assert_allclose(mu, 50**-1.5 * (1 + 3 * np.eye(3)))


@pytest.mark.parametrize(
    "name, task", [("dims", MultiTask([2, 3])), ("signal", MultiTask([2, 2], signal=1.0))]
)
def test_tasks_without_a_published_start_are_refused(name, task):
    with pytest.raises(ValueError, match=f"^{name} takes .* at the published start"):
        full_model.train_published(task, [(1.0, 0.1)])
