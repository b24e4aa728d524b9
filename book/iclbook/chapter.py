"""A chapter's notebook, read: the settings that its parameters cell names.

Cells are those of a notebook's JSON, or of nbformat: mappings with ``cell_type`` and ``source``.
"""

import ast
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
            raise ValueError(f"{self.name} takes {kind}, not {text!r}") from None


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
            raise ValueError(f"{chapter}: {error}") from None
    return found
