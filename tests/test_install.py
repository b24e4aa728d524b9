"""What `pip install .` brings, and what a process says if another library is missing."""

import json
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib import metadata
from pathlib import Path

import make as steps
import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from test_project import PIN, TRACKED, imports, requirements

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


def test_ranges_and_pins_name_the_same_distributions():
    text = (ROOT / "requirements.txt").read_text()
    (section,) = (part for part in text.split("\n\n") if part.startswith("# The package"))
    section = section.splitlines()[1:]
    pins = [Requirement(line.split("#")[0].strip()) for line in requirements()]
    pins = {canonicalize_name(pin.name): pin.specifier for pin in pins}
    ranges = brought(*EXTRAS)
    assert {canonicalize_name(PIN.fullmatch(line)["name"]) for line in section} == set(ranges)
    for name, requirement in ranges.items():
        (pin,) = pins[name]
        assert requirement.specifier.contains(pin.version), f"{name}: {requirement} has no {pin}"
        assert requirement.specifier, f"{name} takes a range"


@pytest.mark.parametrize(
    "package, extras", [("iclcore", ("torch", "plots", "cluster")), ("book/iclbook", ("book",))]
)
def test_extras_bring_what_a_package_imports(package, extras):
    distributions = metadata.packages_distributions()
    found = set()
    for path in (p for p in TRACKED if p.startswith(f"{package}/") and p.endswith(".py")):
        for module in imports((ROOT / path).read_text()):
            if module not in sys.stdlib_module_names and module not in ("iclcore", "iclbook"):
                names = {canonicalize_name(name) for name in distributions[module]}
                assert names & set(brought(*extras)), f"{path} imports {module}: brought by none"
                found |= names
    taken = set(brought(*extras)) - (
        set(brought("torch", "plots", "cluster")) if extras == ("book",) else {"dask"}
    )
    assert taken <= found, "brought, but not imported"  # dask is called by distributed


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


def test_what_pip_install_brings_runs_the_example_and_theory(tmp_path):
    page = (ROOT / "book" / "use.md").read_text()
    example = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    script = """
from iclcore.cli import main
assert main("theory --model attnS --heads 4 --save theory.csv".split()) == 0
line = "train --model multihead --engine spectral --lr 0.01 --epoch 3 --save spectral.csv"
assert main(line.split()) == 0
from iclcore import *
"""
    first, *_ = alone(example + script, tmp_path).splitlines()  # what the first example prints
    loss, *levels = re.findall(r"[\d.]+", first)
    assert 0 < float(loss) < float(levels[0]) and len(levels) == 5
    assert (tmp_path / "theory.csv").read_text().count("plateau_loss") == 5
    assert (tmp_path / "spectral.csv").exists()


PUBLISHED = (
    "--model attnM --head 8 --init 1e-6",
    "--model mlp --cubic_feat --head 8 --init 1e-6",
    "--model attnS --head 5 --init 1e-2 --lr 0.02",
    "--model attnS --head 9 --KQ_dim 2 --in_dim 8 --seq_len 32 --init 5e-3 --trainset_size 100 --lr 0.02",
    "--model attnM --icl 0.2 --head 8 --testset 5000 --init 1e-6 --white_cov --lr 0.0005",
    "--model attnM --head 8 --init 1e-6 --softmax",
)


def test_what_pip_install_brings_runs_the_published_commands(tmp_path):
    script = f"""
from iclcore.cli import main
for line in {PUBLISHED}:
    assert main(["train", "--epoch", "3", *line.split()]) == 0
from iclcore import MergedAttention, RegressionTask, published, stability
stability.monotone_rate(MergedAttention(1), published.sample(RegressionTask(), 9), 3)
"""
    assert alone(script, tmp_path).count("3 steps, loss") == len(PUBLISHED)


MISSING = {
    "main('train --engine published'.split())": ("torch", "torch"),
    "main('train --model multihead --epoch 3 --lr 0.01'.split())": ("torch", "torch"),
    "main('train --model multihead --engine spectral --show'.split())": ("matplotlib", "plots"),
    "main('train --trainset_size inf --show'.split())": ("matplotlib", "plots"),
    "main('train --show'.split())": ("matplotlib", "plots"),
    "main('sweep --grid seed=0:2 --out out --scheduler tcp://127.0.0.1:1'.split())": (
        "distributed",
        "cluster",
    ),
    "executor(scheduler='tcp://127.0.0.1:1').__enter__()": ("distributed", "cluster"),
    "train(MergedAttention(), data, 3, 0.01, engine='autograd')": ("torch", "torch"),
    "train(MergedAttention(), data, 3, 0.01, engine='published')": ("torch", "torch"),
    "published.sample(RegressionTask(), 9, torch_bits=True)": ("torch", "torch"),
    "from iclcore.cli import plots": ("matplotlib", "plots"),
    "from iclbook import explorers": ("\\w+", "book"),
}


def test_what_is_missing_is_said_in_one_line_before_any_work(tmp_path):
    script = f"""
from iclcore import MergedAttention, RegressionTask, published, train
from iclcore.cli import main
from iclcore.sweep import executor
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
    for line, (call, (module, extra)) in zip(lines, MISSING.items(), strict=True):
        prefix = re.escape("2 iclcore " + call.split()[0][6:] + ": ")
        want = f'needs {module}[.\\w]*, which is not installed: pip install "\\.\\[{extra}\\]"'
        want += r" \(on Linux, first install the CPU build, as README says\)" * (
            extra in ("torch", "book")
        )
        assert re.fullmatch((prefix if "main" in call else "") + want, line), (call, line)
    assert not list(tmp_path.iterdir())


def test_a_removed_module_does_not_come_back_in_a_wheel(tmp_path):
    """Not even if an earlier build is still there."""
    for name in (
        "pyproject.toml",
        "setup.py",
        "README.md",
        "iclcore/__init__.py",
        "iclcore/task.py",
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    script = "from setuptools.build_meta import build_wheel; print(build_wheel('.'))"
    for modules in ({"iclcore/__init__.py", "iclcore/task.py"}, {"iclcore/__init__.py"}):
        done = subprocess.run(
            [sys.executable, "-c", script], cwd=tmp_path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        names = zipfile.ZipFile(tmp_path / done.stdout.split()[-1]).namelist()
        assert {name for name in names if "dist-info" not in name} == modules
        (tmp_path / "iclcore" / "task.py").unlink(missing_ok=True)


def test_the_version_has_one_home():
    assert PROJECT["dynamic"] == ["version"] and metadata.version("iclcore") == iclcore.__version__
    cited = re.search(r"^version: (\S+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert cited[1] == iclcore.__version__
    assert f"## {iclcore.__version__}" in (ROOT / "CHANGELOG.md").read_text()


def test_the_page_and_the_file_cite_the_book_alike():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    (bibtex,) = re.findall(r"@misc\{.*?\n\}", (ROOT / "book" / "index.md").read_text(), re.DOTALL)
    for fact in (cited["title"], cited["authors"][0]["name"], f"Version {cited['version']}"):
        assert f"{{{fact}}}" in bibtex
    assert f"{{{cited['date-released'].year}}}" in bibtex


def test_workflows_and_the_hosted_environment_call_what_there_is():
    """Their commands, read off the files: what they name is in the tree, and torch is taken at its pin."""
    (pin,) = [line.split()[0] for line in requirements() if line.startswith("torch==")]
    said = [(ROOT / "binder" / "postBuild").read_text()]
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        flow = yaml.safe_load(path.read_text())
        assert flow["permissions"] == {"contents": "read"} and True in flow  # YAML reads `on` so
        for job in flow["jobs"].values():
            assert all(("uses" in step) != ("run" in step) for step in job["steps"])
            said += [step["run"] for step in job["steps"] if "run" in step]
    said.append((ROOT / "README.md").read_text())
    said.append(
        json.loads((ROOT / ".devcontainer" / "devcontainer.json").read_text())["postCreateCommand"]
    )
    start = ROOT / "binder" / "start"
    listing = ["git", "ls-files", "--stage", str(start)]
    mode = subprocess.run(listing, cwd=ROOT, capture_output=True, text=True).stdout
    assert mode.startswith("100755") and start.read_text().endswith('\nexec "$@"\n')
    text = "\n".join(said)
    commands = re.findall(r"(?:make|tools/make\.py) ([a-z-]+)", text)
    assert {"ready", "book", "test"} <= set(commands) <= set(steps.COMMANDS)
    named = re.findall(r"\b(?:tools/\w+\.py|requirements\.\w+|binder/\w+)", text)
    assert named and all((ROOT / each).exists() for each in named)
    extras = set(re.findall(r'"\.\[(\w+)\]"', text))
    assert extras and extras <= set(EXTRAS)
    assert set(re.findall(r"torch==\S+", text)) == {pin}
