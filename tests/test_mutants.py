"""The tool that puts faults into the package: what it changes, and that it sees whether a test notices."""

import shutil
import subprocess
from pathlib import Path

import faults
import mutants
import pytest
from pace import slow

SOURCE = '''"""2 + 2 stays: text."""
import numpy as np
from numba import njit

@njit(cache=True)
def twice(x: "2 + 2"):
    if x < 0:
        raise ValueError(f"{x + 1}")
    return 2 * x

def spread(values, start=0):
    return np.max(np.subtract(values, start))
'''


def test_each_mutant_is_one_change_of_what_is_computed():
    found = faults.mutants(SOURCE)
    assert {(line, function, change) for line, function, change, _ in found} == {
        (7, "twice", "x < 0 -> x >= 0"),
        (7, "twice", "0 -> 1"),
        (9, "twice", "2 * x -> 2 / x"),
        (9, "twice", "2 -> 3"),
        (11, "spread", "0 -> 1"),
        (12, "spread", "np.max -> np.min"),
        (12, "spread", "np.subtract(values, start) -> np.subtract(start, values)"),
    }
    plain = faults.ast.unparse(faults.ast.parse(SOURCE)).splitlines()
    for *_, source in found:
        pairs = zip(plain, source.splitlines(), strict=True)
        assert sum(one != other for one, other in pairs) == 1


@pytest.fixture
def small(tmp_path, monkeypatch):
    """A tree of one module and one test, and its copy."""
    root, tools = tmp_path / "tree", Path(mutants.__file__).parent
    for name, text in {
        "iclcore/sums.py": SOURCE + "\ndef unused(x):\n    return x + 1\n",
        "tests/test_sums.py": "from iclcore.sums import spread, twice\n\n"
        "def test_twice():\n    assert twice(3) == 6\n\n"
        "def test_spread():\n    assert spread([1.0, 3.0]) == 3\n",
        "pyproject.toml": "[tool.pytest.ini_options]\n",
    }.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    (root / "tools").mkdir()
    for name in ("mutants.py", "faults.py", "make.py", "workplace.py", "guard.py"):
        shutil.copy(tools / name, root / "tools")
    subprocess.run(["git", "init", "-q", str(root)], check=True)
    monkeypatch.setattr(mutants, "ROOT", root)
    monkeypatch.setattr(mutants, "PACKAGE", root / "iclcore")
    return mutants.Copy(tmp_path, "copy")


@slow
def test_a_fault_is_noticed_or_not_and_compiled_code_is_compiled_anew(small):
    reached = small.reached(["tests/test_sums.py"])
    tests = mutants.Tests(reached)
    assert tests.of("sums.py", "spread")[0] == "tests/test_sums.py::test_spread"
    made = {change: (function, source) for _, function, change, source in faults.mutants(SOURCE)}
    for function, source, told in (
        ("twice", SOURCE, "survived 2"),
        (*made["2 -> 3"], "killed by tests/test_sums.py::test_twice"),
        ("spread", SOURCE.replace("x < 0", "x < 1"), "survived 2"),
    ):
        assert small.verdict(tests, "sums.py", function, source).startswith(told), source


@slow
def test_what_is_called_equivalent_can_still_be_made():
    named = mutants.equivalent()
    assert named
    for module in {module for module, *_ in named}:
        each = faults.mutants((mutants.PACKAGE / module).read_text())
        made = {(mutants.line_of(module, at), what) for at, _, what, _ in each}
        assert {(line, change) for of, line, change in named if of == module} <= made
