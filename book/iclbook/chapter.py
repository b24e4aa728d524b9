"""A chapter's notebook, read: the settings that its parameters cell names, and its figures, drawn by
its own cells.

Cells are those of a notebook's JSON, or of nbformat: mappings with ``cell_type`` and ``source``.
"""

import ast
import json
import linecache
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iclbook.quote import QUOTED
from iclcore.interrupts import noted

BESIDE = Path(__file__).resolve().parents[1]  # where the chapters are in a checkout
CAPTION = re.compile(r"<!--caption (?P<label>\S+)-->\n(?P<caption>.+)", re.DOTALL)
# what stands for nothing where Markdown and LaTeX are not set
UNSET = re.compile(r"\{\w+\}(?=`)|\\(?:boldsymbol|math[a-z]+)|\\[ ,]|(?<=\d)\{(?=,)|(?<=,)\}|[`$*]")
TAKES = {int: "a whole number", float: "a number", bool: "True or False"}


@dataclass(frozen=True)
class Parameter:
    """A line of the parameters cell: ``dim: int = 4  # D, as in Figure 3; 2 to 8``."""

    name: str
    default: Any
    comment: str

    def typed(self, text: str) -> Any:
        """What ``text`` says, of the default's kind."""
        if isinstance(self.default, str):
            return text
        try:
            return _alike(ast.literal_eval(text), self.default)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            kind = TAKES.get(type(self.default), f"the like of {self.default!r}")
            raise ValueError(f"takes {kind}, not {text!r}") from None


def _alike(value: Any, default: Any) -> Any:
    """``value`` if it is of the default's kind; a whole number is one with a fraction, too."""
    if isinstance(default, list | tuple) and isinstance(value, list | tuple):
        return type(default)(_alike(each, default[0]) for each in value)
    if type(default) is float and type(value) is int:
        return float(value)
    if type(value) is not type(default):
        raise ValueError
    return value


def parameters_cell(cells: Sequence[Mapping]) -> int | None:
    """The place of the cell that is tagged ``parameters``."""
    tagged = (i for i, c in enumerate(cells) if "parameters" in c["metadata"].get("tags", ()))
    return next(tagged, None)


def parameters(cells: Sequence[Mapping]) -> dict[str, Parameter]:
    """What can be set, in the order of the cell; nothing without such a cell."""
    place = parameters_cell(cells)
    if place is None:
        return {}
    source = "".join(cells[place]["source"])
    lines, found = source.splitlines(), {}
    for node in ast.parse(source).body:
        comment = lines[node.end_lineno - 1][node.end_col_offset :].strip(" #")
        match node:
            case (
                ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value)
                | ast.Assign(targets=[ast.Name(id=name)], value=value)
            ):
                found[name] = Parameter(name, ast.literal_eval(value), comment)
    return found


def settings(chapter: str, cells: Sequence[Mapping], given: Iterable[str]) -> dict[str, Any]:
    """NAME=VALUE, each typed as in the chapter's parameters cell, or a ValueError of one line."""
    known, found = parameters(cells), {}
    for each in given:
        name, equals, text = each.partition("=")
        if not equals:
            raise ValueError(f"want NAME=VALUE, not {each!r}")
        if name not in known:
            has = f"it has {', '.join(known)}" if known else "it has none"
            raise ValueError(f"{chapter} has no parameter {name!r}; {has}")
        try:
            found[name] = known[name].typed(text)
        except ValueError as error:
            raise ValueError(f"{chapter}: {name} {error}") from None
    return found


@dataclass(frozen=True)
class Figure:
    """A picture that a chapter shows: ``rank_one.saddles`` is what fig:rank-one-saddles labels."""

    name: str
    label: str  # "" for what has no caption, as an animation
    place: int  # of its cell
    says: str  # the first sentence of its caption, else of what it says to those who cannot see it

    @property
    def plain(self) -> str:
        """What it says, for a terminal."""
        return " ".join(UNSET.sub("", self.says).split())


def binds(tree: ast.AST) -> Iterator[str]:
    """The names that code binds for the cells below it, other than by import."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case (
                ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp()
            ):
                pass
            case _:
                yield from binds(node)


def uses(tree: ast.AST) -> set[str]:
    """The names that code takes from outside of its functions and comprehensions."""
    own: set[str] = set()
    match tree:
        case ast.Name(id=name, ctx=ast.Load()):
            return {name}
        case ast.FunctionDef(args=taken) | ast.Lambda(args=taken):
            own = {node.arg for node in ast.walk(taken) if isinstance(node, ast.arg)} | set(
                binds(tree)
            )
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            own = {name for each in tree.generators for name in binds(each)}
    return {name for node in ast.iter_child_nodes(tree) for name in uses(node)} - own


def notebooks(folder: Path) -> dict[str, Path]:
    """The chapters in a folder, by name."""
    return {path.stem: path for path in sorted(folder.glob("*.ipynb"))}


def read(path: Path) -> list[dict]:
    """The cells of a notebook, or a ValueError that names it."""
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    except (ValueError, LookupError, TypeError):
        raise ValueError(f"{path} is not a whole notebook") from None
    return [cell | {"source": "".join(cell["source"])} for cell in cells]


def figures(chapter: str, cells: Sequence[Mapping]) -> dict[str, Figure]:
    """All pictures of a chapter by their names, in its order.

    A caption names the cell above it: its label without the chapter's name, or whatever its first
    word is. A cell that ends in a call of ``plot`` is named by the function if no caption follows.
    """
    begins = re.compile(f"^(?:{chapter.replace('_', '-')}|[^-]+)-")
    found = {}
    for place, cell in enumerate(cells):
        if cell["cell_type"] != "code":
            continue
        below = cells[place + 1]["source"] if place + 1 < len(cells) else ""
        if caption := CAPTION.fullmatch(below):
            label, says = caption["label"], QUOTED.sub(r"\g<said>", caption["caption"])
            own = begins.sub("", label.removeprefix("fig:")).replace("-", "_")
        elif own := _drawing(cell["source"]):
            label, says = "", "".join(_shown(cell))
        else:
            continue
        name = f"{chapter}.{own}"
        if name in found:
            raise ValueError(f"two figures are called {name}: give one of them another label")
        first = re.match(r".*?[.!?](?=\s|$)", " ".join(says.split()))
        found[name] = Figure(name, label, place, first[0] if first else says)
    return found


def _drawing(source: str) -> str:
    """``animation`` of a cell that ends in ``plot.animation(...)``."""
    match ast.parse(source).body[-1:]:
        case [ast.Expr(ast.Call(ast.Attribute(ast.Name("plot"), name)))]:
            return name
    return ""


def _shown(cell: Mapping) -> str | list[str]:
    """What the stored output of a cell says as text."""
    texts = (output.get("data", {}).get("text/plain") for output in cell.get("outputs", ()))
    return next(filter(None, texts), "")


def draw(figure: Figure, cells: Sequence[Mapping], given: Mapping[str, Any]) -> Any:
    """The picture, by the chapter's cells from the first to its own, with the settings ``given``."""
    chapter, names, shown = figure.name.partition(".")[0], {"__name__": "__main__"}, None
    set_here = parameters_cell(cells)
    with noted() as interrupted:  # which ends a run where it is: the picture would be of a part
        for place, cell in enumerate(cells[: figure.place + 1]):
            try:
                if cell["cell_type"] == "code":
                    shown = _executed(cell["source"], f"<{chapter}, cell {place + 1}>", names)
            finally:
                if interrupted.is_set():
                    raise KeyboardInterrupt
            if place == set_here:
                names |= given
    return shown


def _executed(source: str, name: str, names: dict) -> Any:
    """The value of what a cell ends in, as a notebook shows it."""
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)  # for tracebacks
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), name, "exec"), names)
    return eval(compile(ast.Expression(last.value), name, "eval"), names) if last else None
