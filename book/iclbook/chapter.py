"""A chapter's notebook, read: the settings that its parameters cell names, and its figures, drawn by
its own cells.

Cells are those of a notebook's JSON, or of nbformat: mappings with ``cell_type`` and ``source``.
"""

import ast
import io
import json
import linecache
import math
import os
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stdout, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from iclbook.quote import ABSENT, QUOTED, find, printed, text
from iclcore.trainer import delayed_interrupt

BESIDE = Path(__file__).resolve().parents[1]  # where the chapters are in a checkout
CAPTION = re.compile(r"<!--caption (?P<label>\S+)-->\n(?P<caption>.+)", re.DOTALL)
# what stands for nothing where Markdown and LaTeX are not set
UNSET = re.compile(r"\{\w+\}(?=`)|\\(?:boldsymbol|math[a-z]+)|\\[ ,]|(?<=\d)\{(?=,)|(?<=,)\}|[`$*]")
TAKES = {int: "a whole number", float: "a number", bool: "True or False"}
# what a parameter's comment ends in
RANGE = re.compile(
    r"(?:^|; )(?:(?P<least>\S+) to (?P<most>\S+)|at least (?P<from>\S+)|above (?P<above>\S+))$"
)
SET = "injected-parameters"  # papermill's tag of a cell that sets parameters otherwise


class Refused(ValueError):
    """A setting outside of its range: in a notebook one line, without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


@dataclass(frozen=True)
class Parameter:
    """A line of the parameters cell: ``dim: int = 4  # D, as in Figure 3; 2 to 8``."""

    name: str
    default: Any
    comment: str

    @property
    def range(self) -> tuple[str, float, float]:
        """In words, the least and the most."""
        found = RANGE.search(self.comment)
        if not found:
            return "", -math.inf, math.inf
        words, (least, most, at_least, above) = found[0].removeprefix("; "), found.groups()
        if above is not None:
            return f" {words}", math.nextafter(float(above), math.inf), sys.float_info.max
        return (
            f" from {words}" if most else f" of {words}",
            float(least or at_least),
            float(most or sys.float_info.max),
        )

    def held(self, value: Any, text: str | None = None) -> Any:
        """``value``, given as ``text``, of the default's kind, if it is within the range."""
        words, least, most = self.range
        kind = TAKES.get(type(self.default), f"the like of {self.default!r}") + words
        try:
            found = _alike(value, self.default)
            if words and not all(least <= x <= most for x in _each(found)):
                raise ValueError
        except ValueError:
            said = value if text is None else text
            raise Refused(f"takes {kind}, not {said!r}") from None
        return found

    def typed(self, text: str) -> Any:
        """What ``text`` says, of the default's kind."""
        if isinstance(self.default, str):
            return text
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            value = text
        return self.held(value, text)


def _each(value: Any) -> Iterable:
    return value if isinstance(value, list | tuple) else [value]


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


def injected(cell: Mapping) -> bool:
    """Whether it sets parameters otherwise, and is not the author's."""
    return SET in cell["metadata"].get("tags", ())


def parameters(cells: Sequence[Mapping]) -> dict[str, Parameter]:
    """What can be set, in the order of the cell; nothing without such a cell."""
    place = parameters_cell(cells)
    return {} if place is None else _lines("".join(cells[place]["source"]))


def begin(names: Mapping[str, Any]) -> None:
    """Begin a chapter: stop before any work if a setting is outside of its range, and hide all bars.

    A bar would be stored among the chapter's outputs, which must not depend on how fast a machine is.
    ``names`` are the chapter's ``globals()``. Their ``In`` holds the source of the cells that ran, with the
    settings, also those that papermill put into a cell of its own.
    """
    os.environ["TQDM_DISABLE"] = "1"
    for source in reversed(names.get("In", ())):
        with suppress(SyntaxError):
            lines = ast.parse(source).body
            if lines and all(isinstance(line, ast.AnnAssign) for line in lines):
                for each in _lines(source).values():
                    try:
                        each.held(names[each.name])
                    except Refused as problem:
                        raise Refused(f"{each.name} {problem}") from None
                return


def _lines(source: str) -> dict[str, Parameter]:
    """By name the parameters that a cell sets."""
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


def values(cells: Sequence[Mapping], given: Mapping[str, Any]) -> dict[str, Any]:
    """What each parameter is where a cell of papermill's, and after it ``given``, set it otherwise."""
    known = parameters(cells)
    later = [_lines("".join(cell["source"])) for cell in cells if injected(cell)]
    own = {name: each.default for some in (known, *later) for name, each in some.items()}
    return {name: value for name, value in own.items() if name in known} | dict(given)


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
    caption: str  # else what it says to those who cannot see it
    by: str = ""  # the function of ``plot`` that its cell ends in, if it does

    @property
    def says(self) -> str:
        """The first sentence."""
        return _first(QUOTED.sub(r"\g<said>", self.caption))

    @property
    def plain(self) -> str:
        """The same for a terminal."""
        return _plain(self.says)

    def told(self, numbers: Mapping[str, str]) -> str:
        """The same with the numbers of a run; a dash for one that a cell further down says."""
        missing = defaultdict(lambda: ABSENT, numbers)
        return _plain(_first(QUOTED.sub(lambda mark: find(missing, mark), self.caption)))


def _first(text: str) -> str:
    """Sentence."""
    text = " ".join(text.split())
    found = re.match(r".*?[.!?](?=\s|$)", text)
    return found[0] if found else text


def _plain(text: str) -> str:
    return re.sub(r"(?<=\w)= ", " = ", " ".join(UNSET.sub("", text).split()))


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
        by, below = (
            _drawing(cell["source"]),
            cells[place + 1]["source"] if place + 1 < len(cells) else "",
        )
        if caption := CAPTION.fullmatch(below):
            label, says = caption["label"], caption["caption"]
            own = begins.sub("", label.removeprefix("fig:")).replace("-", "_")
        elif own := by:
            label, says = "", "".join(_shown(cell))
        else:
            continue
        name = f"{chapter}.{own}"
        if name in found:
            raise ValueError(f"two figures are called {name}: give one of them another label")
        found[name] = Figure(name, label, place, says, by)
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


def draw(
    figure: Figure, cells: Sequence[Mapping], given: Mapping[str, Any]
) -> tuple[Any, dict[str, str]]:
    """The picture, by the chapter's cells from the first to its own, with the settings ``given``, and the
    numbers that these cells say."""
    chapter, set_here, shown = figure.name.partition(".")[0], parameters_cell(cells), None
    names = {"__name__": "__main__", "In": []}  # as a notebook has it
    # which ends a run where it is: the picture would be of a part
    with delayed_interrupt() as interrupted, redirect_stdout(io.StringIO()) as output:
        for place, cell in enumerate(cells[: figure.place + 1]):
            try:
                if cell["cell_type"] == "code":
                    names["In"].append(cell["source"])
                    shown = _executed(cell["source"], f"<{chapter}, cell {place + 1}>", names)
            finally:
                if interrupted.is_set():
                    raise KeyboardInterrupt
            if place == set_here or injected(cell):
                names |= given
    own = {name: text(value) for name, value in values(cells, given).items()}
    return shown, own | dict(printed(output.getvalue()))


def _executed(source: str, name: str, names: dict) -> Any:
    """The value of what a cell ends in, as a notebook shows it."""
    linecache.cache[name] = (len(source), None, source.splitlines(True), name)  # for tracebacks
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), name, "exec"), names)
    return eval(compile(ast.Expression(last.value), name, "eval"), names) if last else None
