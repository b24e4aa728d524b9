"""A module imports only from modules above it, and the page on the package shows that order."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "iclcore"

# Each line is one level: a module imports from its own level and from those above it, also inside functions.
LEVELS = """
bars checks extras files shapes versions
task
models optimisers prediction
generators published
modules
loops plain gaussian moments
history
engines trainer
theory
stability
heads
sweep_plan sweep
cli __main__
"""
LEVEL = {name: number for number, line in enumerate(LEVELS.split("\n")) for name in line.split()}
# A run of the second paper knows its task. Reading that property is the one look downwards.
DOWNWARDS = {("history", "iclcore.heads.theory")}
# Libraries that only one module knows.
KNOWN_BY = {
    "matplotlib": {"cli/plots", "cli/report"},
    "distributed": {"sweep"},
    "pyarrow": {"sweep"},
    "tqdm": {"bars"},
}
MODULES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))


def imports(path):
    """The absolute names of all that a module imports."""
    for node in ast.walk(ast.parse((PACKAGE / path).read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} imports by a relative name"
            if node.module == "iclcore":
                yield from (f"iclcore.{alias.name}" for alias in node.names)
            else:
                yield node.module


def test_every_module_has_a_level():
    names = {path.parts[0].removesuffix(".py") for path in MODULES} - {"__init__"}
    assert names == set(LEVEL)


@pytest.mark.parametrize("path", [path for path in MODULES if str(path) != "__init__.py"], ids=str)
def test_a_module_imports_only_from_above(path):
    own, name = path.parts[0].removesuffix(".py"), str(path.with_suffix(""))
    for imported in imports(path):
        top, _, rest = imported.partition(".")
        assert top != "iclbook", f"{path} imports the book"
        assert name in KNOWN_BY.get(top, {name}), f"{path} imports {top}"
        module = rest.split(".")[0]
        if (
            top == "iclcore"
            and module not in ("", "__version__")
            and (own, imported) not in DOWNWARDS
        ):
            assert LEVEL[module] <= LEVEL[own], f"{path} imports iclcore.{rest}, which is below it"


def test_the_page_on_the_package_lists_every_module_in_its_order():
    page = (ROOT / "book" / "api.md").read_text()
    tree = page.partition("```text\n")[2].partition("```")[0].splitlines()[1:]
    listed, folder = [], ""
    for line in tree:
        indent, name = re.match(r"( +)(\S+)", line).groups()
        folder = folder if len(indent) > 2 else ""
        listed.append(folder + name)
        folder = name if name.endswith("/") else folder
    files = {path.as_posix() for path in MODULES if path.name[:2] != "__"}
    folders = {f"{path.parts[0]}/" for path in MODULES if len(path.parts) > 1}
    commands = {file for file in files if file.startswith("cli/")}
    assert set(listed) == files - commands | folders
    levels = [LEVEL[name.split("/")[0].removesuffix(".py")] for name in listed]
    assert levels == sorted(levels)


def test_no_module_is_long():
    lengths = {str(path): len((PACKAGE / path).read_text().splitlines()) for path in MODULES}
    assert {path: lines for path, lines in lengths.items() if lines > 300} == {}
