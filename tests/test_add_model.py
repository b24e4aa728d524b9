"""Models that a user adds: the code of the page, and a model that has no moments."""

import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from pace import slow

from iclcore import RegressionTask, train
from iclcore.models import MODELS, Layer, Model
from iclcore.modules import MODULES, Attention

PAGE = Path(__file__).resolve().parent.parent / "book" / "add_model.md"


@slow
def test_the_code_of_the_page_prints_what_the_page_shows():
    blocks = re.findall(
        r"^```(python|text)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL
    )
    code, said = (
        "\n".join(text for kind, text in blocks if kind == of) for of in ("python", "text")
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split("\n") == [*filter(None, said.split("\n")), ""]


@dataclass(frozen=True)
class Tied(Model):
    """A model whose query is its key, so that the factors are not independent."""

    linear = False

    def layers(self, dim, outputs):
        size = dim + outputs
        key = Layer("key", self.heads, (1, size), self.init)
        return [key, Layer("value", self.heads, (size, size), self.init)]

    def factors(self, weights, dim):
        key = weights["key"]
        return key, key[..., :dim], weights["value"][..., dim - key.shape[-1] :, :]


class TiedModule(Attention):
    def scores(self, tokens):
        read = torch.einsum("hre,pme->phrm", torch.stack(tuple(self.key)), tokens)
        return (read[..., -1:] * read).sum(2)


def test_a_model_without_moments_is_trained_by_its_module(monkeypatch):
    monkeypatch.setitem(MODELS, "Tied", Tied)
    monkeypatch.setitem(MODULES, Tied, TiedModule)
    data = RegressionTask(dim=2, context=6).sample(30)
    run = train(Tied(heads=2, init=0.3), data, 200, 0.01)
    assert run.engine == "autograd" and run.model == Tied(heads=2, init=0.3)
    assert (run.loss[1:] < run.loss[:-1]).all() and run.loss[-1] < 0.9 * run.loss[0]
    with pytest.raises(ValueError, match="engine moments takes linear models"):
        train(Tied(), data, 2, 0.01, engine="moments")
