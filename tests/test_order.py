"""What imports what: iclcore by itself, its rooms in the order that data flows, pictures last."""

import ast
import re
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "iclcore"

# A module imports from its own room and from those above it, also inside functions.
ROOMS = {
    "ground": "checks extras files interrupts systems versions threads",
    "task": "task",
    "models": "models optimisers",
    "published": "published",
    "torch": "modules",
    "moments": "loops moments",
    "theory": "theory",
    "history": "history",
    "engines": "engines trainer",
    "stability": "edge stability",
    "heads": "heads",
    "style": "style",
    "sweep": "sweep",
    "cli": "cli __main__",
}
ORDER = {name: level for level, room in enumerate(ROOMS.values()) for name in room.split()}
# libraries that only one module or room knows
KNOWN_BY = {"matplotlib": {"style", "cli/report"}, "distributed": {"sweep/workers"}}
KNOWN_BY |= {"pyarrow": {"sweep/folder"}}
MODULES = sorted(path.relative_to(PACKAGE) for path in PACKAGE.rglob("*.py"))


def imported(path):
    """Absolute names of what a module imports, and of what it imports of the package itself."""
    for node in ast.walk(ast.parse((PACKAGE / path).read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{path} imports by a relative name"
            if node.module == "iclcore":
                yield from (f"iclcore.{alias.name}" for alias in node.names)
            else:
                yield node.module


def test_every_module_has_one_room():
    found = {path.parts[0].removesuffix(".py") for path in MODULES} - {"__init__"}
    assert found == set(ORDER)


@pytest.mark.parametrize("path", MODULES, ids=str)
def test_a_module_imports_only_from_above(path):
    own = path.parts[0].removesuffix(".py")
    for name in imported(path):
        top, _, rest = name.partition(".")
        assert top != "iclbook", f"{path} imports the book"
        known = KNOWN_BY.get(top, {str(path.with_suffix(""))})
        assert str(path.with_suffix("")) in known, f"{path} imports {top}"
        room = rest.split(".")[0]
        if top == "iclcore" and room not in ("", "__version__") and own != "__init__":
            assert ORDER[room] <= ORDER[own], f"{path} imports iclcore.{rest}, a room below"


def test_the_page_on_the_package_has_the_rooms_in_their_order():
    """And each module that is no command."""
    page = (PACKAGE.parent / "book" / "api.md").read_text()
    headings = re.findall(r"^### `iclcore\.(\w+)", page, re.MULTILINE)
    levels = [ORDER[heading] for heading in headings]
    assert levels == sorted(levels)
    assert set(ORDER) - set(headings) == {"extras", "style", "picture", "cli", "__main__"}


def test_the_command_line_has_no_circle():
    """Nor has any other room: a module never comes back to itself."""
    of = {}
    for path in MODULES:
        name = ".".join(path.with_suffix("").parts).removesuffix(".__init__")
        of[name] = {i.removeprefix("iclcore.") for i in imported(path) if i.startswith("iclcore.")}
    done = set()
    while done != set(of):
        free = {name for name in set(of) - done if not (of[name] & set(of)) - done - {name}}
        assert free, f"a circle among {sorted(set(of) - done)}"
        done |= free
