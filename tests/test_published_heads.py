"""The second paper's published code: the same seed gives its curves."""

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
    """As a command, whose column ``loss`` is the published mean."""
    golden = np.load(path)
    said = json.loads(str(golden["settings"]))
    steps, lr, tasks = said["steps"], said["lr"], said["dy"]
    flags = {
        "tasks": tasks,
        "dims": said["dx"] // tasks,
        "seq_len": said["L"] + 1,
        "noise": said["noise_std"] ** 2,
        "batch": said["number_of_samples"],
        "lr": lr,
        "epoch": steps,
        "seed": said["seed"],
    }
    line = [part for name, value in flags.items() for part in (f"--{name}", str(value))]
    start = shlex.split("train --model multihead --start published --track_value --save F.npz")
    assert main([*start, *line]) == 0
    history = History.from_npz("F.npz")
    task = MultiTask([said["dx"] // tasks] * tasks, said["L"], noise=said["noise_std"] ** 2)
    assert history.task == task and len(history.loss) == steps
    assert history.settings["loss"] == "mean over contexts and tasks"
    limit = risk.exact_loss(task, *(each.diagonal() for each in theory.limit(task))).mean()
    # of the last 200 batches, and beside it in the same unit
    last = f"{history.loss[-200:].mean():.3f}, limit of one head per task {limit:.3f}\n"
    assert f"(mean over contexts and tasks) {last}" in capsys.readouterr().out
    # Draws are the same on every machine, sums are float32: each step rounds a weight of at most 1.4 by
    # 2⁻²⁴ of itself; were all roundings of one sign, ω and μ, which are products of two, would be off by
    bound = 2 * 1.4 * steps * 2**-24
    kept = slice(None, None, said["stride"])
    for name in ("omega", "mu"):
        np.testing.assert_allclose(history.series[name][kept], golden[name], rtol=0, atol=bound)
    # the mean over tasks, and relative: the loss is a square of what is linear in them
    np.testing.assert_allclose(history.loss[kept], golden["loss"], rtol=2 * bound)
    np.testing.assert_allclose(
        full_model.spectrum(task, history.final), (golden["final_omega"], golden["final_mu"]), atol=bound
    )  # fmt: skip


def test_its_start():
    task = MultiTask([5, 5, 5], context=50)
    omega, mu = full_model.spectrum(task, full_model.published_start(task))
    np.testing.assert_allclose(omega, 50**-1.5 / np.sqrt(18))
    np.testing.assert_allclose(mu, 50**-1.5 * (1 + 3 * np.eye(3)))


@pytest.mark.parametrize(
    "name, task", [("dims", MultiTask([2, 3])), ("signal", MultiTask([2, 2], signal=1.0))]
)
def test_what_it_does_not_draw_is_refused(name, task):
    with pytest.raises(ValueError, match=f"^{name} takes .* at the published start"):
        full_model.train_published(task, [(1.0, 0.1)])
