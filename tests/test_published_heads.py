"""The second paper's published code: the same seed gives its curves."""

import json
from pathlib import Path

import numpy as np
import pytest

from iclcore import multihead, spectral
from iclcore.theory.multihead import MultiTask

CASES = sorted((Path(__file__).parent / "golden" / "heads").glob("*.npz"))


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_a_seed_is_the_published_curve(path):
    golden = np.load(path)
    said = json.loads(str(golden["settings"]))
    steps, lr, tasks = said["steps"], said["lr"], said["dy"]
    task = MultiTask([said["dx"] // tasks] * tasks, said["L"], noise=said["noise_std"] ** 2)
    history = multihead.train_published(
        task, [(steps * lr, lr)], batch=said["number_of_samples"], seed=said["seed"]
    )
    assert len(history.loss) == steps
    # Draws are the same on every machine, sums are float32: each step rounds a weight of at most 1.4 by
    # 2⁻²⁴ of itself; were all roundings of one sign, ω and μ, which are products of two, would be off by
    bound = 2 * 1.4 * steps * 2**-24
    kept = slice(None, None, said["stride"])
    for ours, theirs in zip(
        spectral.spectra(history), (golden["omega"], golden["mu"]), strict=True
    ):
        np.testing.assert_allclose(ours[kept], theirs, rtol=0, atol=bound)
    # the mean over tasks, and relative: the loss is a square of what is linear in them
    np.testing.assert_allclose(history.loss[kept], golden["loss"], rtol=2 * bound)
    np.testing.assert_allclose(
        multihead.spectrum(task, history.final), (golden["final_omega"], golden["final_mu"]), atol=bound
    )  # fmt: skip


def test_its_start():
    task = MultiTask([5, 5, 5], context=50)
    omega, mu = multihead.spectrum(task, multihead.published_start(task))
    np.testing.assert_allclose(omega, 50**-1.5 / np.sqrt(18))
    np.testing.assert_allclose(mu, 50**-1.5 * (1 + 3 * np.eye(3)))


@pytest.mark.parametrize(
    "name, task", [("dims", MultiTask([2, 3])), ("signal", MultiTask([2, 2], signal=1.0))]
)
def test_what_it_does_not_draw_is_refused(name, task):
    with pytest.raises(ValueError, match=f"^{name} takes .* at the published start"):
        multihead.train_published(task, [(1.0, 0.1)])
