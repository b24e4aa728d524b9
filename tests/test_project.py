"""The project as a whole: pins, pages, commands, and nothing of one machine in the tree."""

import ast
import re
import subprocess
import sys
from importlib.metadata import distribution, packages_distributions
from pathlib import Path

import make as steps
import nbformat
import yaml
from packaging.markers import Marker
from packaging.requirements import Requirement

ROOT = Path(__file__).resolve().parent.parent
TRACKED = subprocess.run(
    ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
).stdout.split("\0")[:-1]
CUDA = re.compile(r"torch|triton|nvidia-|cuda-")
PIN = re.compile(r"(?P<name>[\w.-]+)==[\w.+]+ +# \S.*")


def requirements():
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    return [line for line in lines if line and not line.startswith("#")]


def normal(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def imports(source):
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name.split(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield node.module.split(".")[0]


def test_every_requirement_is_pinned_and_has_its_reason():
    for line in requirements():
        assert PIN.fullmatch(line), f"want `name==version  # reason`: {line}"


def test_everything_imported_is_a_pinned_requirement():
    pinned = {normal(PIN.fullmatch(line)["name"]) for line in requirements()}
    local = {
        path.stem
        for folder in (".", "book", "tools", "tests")
        for path in (ROOT / folder).iterdir()
    }
    sources = [(p, (ROOT / p).read_text()) for p in TRACKED if p.endswith(".py")]
    for path in (p for p in TRACKED if p.endswith(".ipynb")):
        cells = nbformat.read(ROOT / path, as_version=4).cells
        sources += [(path, cell.source) for cell in cells if cell.cell_type == "code"]
    distributions = packages_distributions()
    for path, source in sources:
        for module in set(imports(source)) - set(sys.stdlib_module_names) - local:
            names = {normal(name) for name in distributions.get(module, [])}
            assert names & pinned, f"{path} imports {module}, which requirements.txt does not pin"


def test_the_table_of_contents_and_the_pages_are_the_same_set():
    toc = (ROOT / "_toc.yml").read_text()
    named = set(re.findall(r"(?:root|file): (\S+)", toc))
    assert yaml.safe_load(toc)["root"] in named
    pages = {
        str(Path(p).with_suffix("")) for p in TRACKED if re.fullmatch(r"book/\w+\.(md|ipynb)", p)
    }
    assert named == pages


def test_the_reference_has_every_module_of_the_package_or_the_package_it_is_in():
    page = (ROOT / "book" / "api.md").read_text()
    shown = set(re.findall(r"automodule:: (\S+)", page))
    inner = {"iclcore", "iclcore.__main__", "iclcore.cli", "iclcore.heads"}
    inner |= {"iclcore.cli.plots"}
    inner |= {"iclbook", "iclbook.__main__"}
    names = (p.removeprefix("book/") for p in TRACKED)
    files = (Path(p) for p in names if re.fullmatch(r"(iclcore|iclbook)/.*\.py", p))
    modules = {".".join(p.with_suffix("").parts).removesuffix(".__init__") for p in files}
    modules = {m for m in modules if not m.startswith("iclcore.cli.")}  # the command line's parts
    assert not {m for m in modules - inner if not {m, m.rpartition(".")[0]} & shown}


def test_ci_runs_what_the_readme_says():
    readme = (ROOT / "README.md").read_text()
    commands = re.findall(r"^make .*", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    told = [line.split("#")[0].strip() for line in re.findall(r"^make .*", readme, re.MULTILINE)]
    assert told == ["make book", "make test"]
    assert commands == [*told, "make test-slow"]
    (targets,) = re.findall(r"^(book .*):$", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert targets.split() == sorted(targets.split(), key=list(steps.COMMANDS).index)
    assert set(targets.split()) == set(steps.COMMANDS)
    told = set(re.findall(r"(?:`make|tools/make\.py) ([a-z-]+)", readme))
    assert {"book", "test"} <= told <= set(steps.COMMANDS)


def test_the_tree_holds_nothing_of_one_machine():
    path = re.compile(r"/(?:home|root|Users|tmp|work)/\w|[A-Z]:\\Users")
    for name in TRACKED:
        file = ROOT / name
        assert file.stat().st_size < 3_000_000, f"{name} is large"
        if file.suffix in {
            ".py",
            ".md",
            ".yml",
            ".toml",
            ".txt",
            ".lock",
            ".cff",
            ".ipynb",
            ".mjs",
            ".js",
            "",
        }:
            found = path.search(file.read_text())
            assert not found, f"{name} has a path of one machine: {found[0]}"


def test_modules_are_short_enough_to_read():
    for name in TRACKED:
        if name.endswith((".py", ".mjs")) and not name.startswith("tests/"):
            lines = len((ROOT / name).read_text().splitlines())
            assert lines <= 400, f"{name} has {lines} lines"


def locked():
    """Each package of requirements.lock: its pins and for whom each is. All files have hashes."""
    text = (ROOT / "requirements.lock").read_text()
    pins = re.findall(
        r"^([\w.-]+)==(\S+)(?: ; (.*))? \\\n((?:[ ]+--hash.*\n)+)", text, re.MULTILINE
    )
    assert len(pins) == len(re.findall(r"^\w", text, re.MULTILINE))
    found = {}
    for name, pin, marker, hashes in pins:
        digests = re.findall(r"^ +--hash=sha256:([0-9a-f]{64})(?: \\)?$", hashes, re.MULTILINE)
        assert digests and len(digests) == hashes.count("\n"), name
        found.setdefault(normal(name), []).append((pin, Marker(marker) if marker else None))
    return found


def test_the_lock_has_every_requirement_at_its_pin_and_what_those_bring_with_hashes():
    lock = locked()
    assert not [name for name in lock if CUDA.match(name)]
    for line in requirements():
        name, _, pin = line.split("#")[0].strip().partition("==")
        if name != "torch":  # which build of it is for whoever installs
            assert lock.pop(normal(name)) == [(pin, None)], f"{name}: run python tools/lock.py"
    assert len(lock) > 100  # what these bring


def test_what_is_installed_is_what_is_locked():
    """A package that some requirement brings and the lock has not would be taken without a hash."""
    lock, left, found = locked(), [normal(line.split("==")[0]) for line in requirements()], set()
    while left:
        name = left.pop()
        if name in found:
            continue
        found.add(name)
        here = distribution(name)
        needed = map(Requirement, here.requires or [])
        needed = [each for each in needed if not each.marker or each.marker.evaluate({"extra": ""})]
        left += [normal(each.name) for each in needed if not CUDA.match(normal(each.name))]
        if name != "torch":
            pins = [pin for pin, mine in lock[name] if not mine or mine.evaluate()]
            assert pins == [here.version], f"{name} is {here.version}: run make ready"
    assert len(found) > 100


def test_nothing_in_the_tree_says_where_packages_come_from():
    """Whoever installs has an index set: pip's, a mirror's, one of builds for processors."""
    host = re.compile(
        r"--(?:extra-)?index-url|--find-links|(?:pypi|pythonhosted|pytorch|npmjs)\.org"
    )
    for name in TRACKED:
        if (ROOT / name).suffix in {".txt", ".lock", ".toml", ".py", ".yml", ".md", ".json", ""}:
            text = (ROOT / name).read_text()
            assert name == "tests/test_project.py" or not host.search(text), name
