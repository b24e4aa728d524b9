"""What `pip install .` brings, and what a process says if another library is missing."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from importlib import metadata
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from test_project import TARGETS, TRACKED, requirements

import iclcore

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
EXTRAS = PROJECT["optional-dependencies"]


def brought(*extras):
    """The requirements that an installation with these extras names, by distribution."""
    found, left = {}, [PROJECT["dependencies"], *(EXTRAS[extra] for extra in extras)]
    while left:
        for requirement in map(Requirement, left.pop()):
            if requirement.name == "iclcore":
                left += [EXTRAS[extra] for extra in requirement.extras]
            else:
                found[canonicalize_name(requirement.name)] = requirement
    return found


def imports(source):
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module.split(".")[0]


def installed(names):
    """These distributions and all that they need in turn."""
    found, left = set(), list(names)
    while left:
        name = canonicalize_name(left.pop())
        if name in found:
            continue
        found.add(name)
        needed = map(Requirement, metadata.requires(name) or [])
        left += [r.name for r in needed if not r.marker or r.marker.evaluate({"extra": ""})]
    return found


@pytest.mark.parametrize(
    "package, extras", [("iclcore", ("torch", "plots", "cluster")), ("book/iclbook", ("book",))]
)
def test_extras_bring_what_a_package_imports(package, extras):
    distributions, names = metadata.packages_distributions(), set(brought(*extras))
    for path in (p for p in TRACKED if p.startswith(f"{package}/") and p.endswith(".py")):
        for module in set(imports((ROOT / path).read_text())) - {"iclcore", "iclbook"}:
            if module not in sys.stdlib_module_names:
                known = set(map(canonicalize_name, distributions[module]))
                assert known & names, f"{path} imports {module}, which no extra brings"


ALONE = """
import contextlib, io, sys
class Missing:
    def find_spec(name, path=None, target=None):
        if name.split(".")[0] in absent:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
absent = set(sys.stdin.read().split())
sys.meta_path.insert(0, Missing)
"""


def alone(script, folder):
    """A process that finds what `pip install .` brings, and no more."""
    there = installed(brought()) | {"iclcore"}
    modules = metadata.packages_distributions().items()
    absent = [m for m, names in modules if not {canonicalize_name(n) for n in names} & there]
    assert {"torch", "matplotlib", "pyarrow", "distributed", "PIL"} <= set(absent)
    command = [sys.executable, "-c", ALONE + script]
    done = subprocess.run(
        command, input=" ".join(absent), cwd=folder, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


PUBLISHED = (
    "--model attnM --head 8 --init 1e-6",
    "--model mlp --cubic_feat --head 8 --init 1e-6",
    "--model attnS --head 9 --KQ_dim 2 --in_dim 8 --seq_len 32 --init 5e-3 --trainset_size 100 --lr 0.02",
    "--model attnM --head 8 --init 1e-6 --softmax",
)


def test_what_pip_install_brings_runs_the_example_the_theory_and_the_published_commands(tmp_path):
    page = (ROOT / "book" / "use.md").read_text()
    example = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    script = f"""
from iclcore.cli import main
from iclcore import *
for line in {PUBLISHED}:
    assert main(["train", "--epoch", "3", *line.split()]) == 0
assert main("theory --model attnS --heads 4 --save theory.csv".split()) == 0
line = "train --model multihead --engine spectral --lr 0.01 --epoch 3 --save spectral.csv"
assert main(line.split()) == 0
stability.monotone_rate(MergedAttention(1), published.sample(RegressionTask(), 9), 3)
"""
    printed = alone(example + "from iclcore import published, stability\n" + script, tmp_path)
    loss, *levels = re.findall(r"[\d.]+", printed.splitlines()[0])
    assert 0 < float(loss) < float(levels[0]) and len(levels) == 5
    assert printed.count("3 steps, loss") == len(PUBLISHED) + 1
    assert (tmp_path / "theory.csv").read_text().count("plateau_loss") == 5


MISSING = {
    "main('train --engine published'.split())": "torch",
    "main('train --model multihead --epoch 3 --lr 0.01'.split())": "torch",
    "main('train --model multihead --engine spectral --show'.split())": "plots",
    "main('train --show'.split())": "plots",
    "main('sweep --grid seed=0:2 --out out --scheduler tcp://127.0.0.1:1'.split())": "cluster",
    "train(MergedAttention(), data, 3, 0.01, engine='autograd')": "torch",
    "published.sample(RegressionTask(), 9, torch_bits=True)": "torch",
    "from iclcore.cli import plots": "plots",
    "from iclbook import explorers": "book",
}


def test_what_is_missing_is_said_in_one_line_before_any_work(tmp_path):
    script = f"""
from iclcore import MergedAttention, RegressionTask, published, train
from iclcore.cli import main
data = RegressionTask().sample(5)
for call in {list(MISSING)!r}:
    try:
        with contextlib.redirect_stderr(io.StringIO()) as said:
            exec(call)
    except SystemExit as stop:
        print(stop.code, said.getvalue(), end="")
    except ModuleNotFoundError as error:
        print(error)
"""
    lines = alone(script, tmp_path).splitlines()
    for line, (call, extra) in zip(lines, MISSING.items(), strict=True):
        command = re.match(r"main\('(\w+)", call)
        begins = f"2 iclcore {command[1]}: needs " if command else "needs "
        assert line.startswith(begins), (call, line)
        assert f', which is not installed: pip install ".[{extra}]"' in line, (call, line)
        assert ("first install the CPU build" in line) == (extra in ("torch", "book"))
    assert not list(tmp_path.iterdir())


def test_version_and_citation_are_the_same_everywhere():
    assert PROJECT["dynamic"] == ["version"] and metadata.version("iclcore") == iclcore.__version__
    assert f"## {iclcore.__version__}" in (ROOT / "CHANGELOG.md").read_text()
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["version"] == iclcore.__version__
    (bibtex,) = re.findall(r"@misc\{.*?\n\}", (ROOT / "book" / "index.md").read_text(), re.DOTALL)
    facts = [cited["title"], cited["authors"][0]["name"], f"Version {cited['version']}"]
    for fact in (*facts, cited["date-released"].year):
        assert f"{{{fact}}}" in bibtex


def test_workflows_and_hosted_environments_call_what_there_is():
    """What their commands name is in the tree, and they install the pinned torch."""
    said = [(ROOT / "binder" / "postBuild").read_text(), (ROOT / "README.md").read_text()]
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        for job in yaml.safe_load(path.read_text())["jobs"].values():
            said += [step["run"] for step in job["steps"] if "run" in step]
    devcontainer = json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())
    text = "\n".join([*said, devcontainer["postCreateCommand"]])
    commands = set(re.findall(r"make ([a-z-]+)", text))
    assert {"ready", "book", "test-all"} <= commands <= set(TARGETS)
    named = re.findall(r"\b(?:tools/\w+\.py|tests/[\w/.]+|requirements\.\w+|binder/\w+)", text)
    assert named and not [each for each in named if not (ROOT / each).exists()]
    assert set(re.findall(r'"\.\[(\w+)\]"', text)) <= set(EXTRAS)
    assert set(re.findall(r"torch==(\S+)", text)) == {requirements()["torch"]}
