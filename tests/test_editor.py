"""Editors can show names, signatures and attributes of the package. IPython also completes with Jedi."""

import inspect
import pkgutil
import re
from pathlib import Path

import jedi
import pytest

import iclcore

ROOT = Path(__file__).resolve().parent.parent
PROJECT = jedi.Project(ROOT, added_sys_path=[str(ROOT / "book")])


@pytest.fixture(autouse=True, scope="module")
def _own_cache(tmp_path_factory):
    """Give this process a cache of its own, because Jedi fails on a file that another one is writing."""
    jedi.settings.cache_directory = str(tmp_path_factory.mktemp("jedi"))


def completed(code):
    """Return the names that an editor suggests at the end of the code."""
    return [found.name for found in jedi.Script(code, project=PROJECT).complete()]


def test_every_public_name_is_listed_and_known_to_an_editor():
    offered = set(completed("from iclcore import "))
    for name in iclcore.__all__:
        assert name in dir(iclcore) and name in offered
        (found,) = jedi.Script(f"from iclcore import {name}\n{name}", project=PROJECT).infer(2, 0)
        assert found.name == getattr(iclcore, name).__name__.rpartition(".")[2]


def test_an_editor_shows_the_signature_of_a_call_and_the_attributes_of_its_result():
    script = jedi.Script("from iclcore import train\ntrain(", project=PROJECT)
    (signature,) = script.get_signatures(2, 6)
    assert [each.name for each in signature.params][:4] == ["model", "data", "steps", "lr"]
    before = "from iclcore import *\ntask = RegressionTask()\n"
    assert completed(f"{before}train(SeparateAttention(), task, 3, 0.1).lo") == ["loss"]
    assert completed(f"{before}task.eigenva") == ["eigenvalues"]
    assert "argmin" in completed(f"{before}theory.plateau_losses(task).")  # an attribute of arrays


def test_a_docstring_explains_every_parameter_of_the_functions_that_a_user_calls():
    tables = (ROOT / "book" / "api.md").read_text().partition("## What to read first")[0]
    named = [pkgutil.resolve_name(name) for name in re.findall(r"\(#(iclcore[\w.]+)\)", tables)]
    named += [getattr(iclcore, name) for name in iclcore.__all__]
    named += [each for name, each in vars(iclcore.theory).items() if not name.startswith("_")]
    functions = [each for each in named if callable(each)]
    assert len(functions) > 30
    missing = [
        f"{function.__name__}: {name}"
        for function in functions
        for name in inspect.signature(function).parameters
        if name != "self" and f"``{name}``" not in function.__doc__
    ]
    assert missing == []
