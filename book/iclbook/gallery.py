"""Every figure of the book by its name, ``chapter.figure``, made from nothing.

A figure function takes what a study found; which study, its type hints say. So a figure is made by
finding the functions whose results it needs, down to ``scale``.
"""

from collections.abc import Callable
from importlib import import_module
from inspect import getmembers, isfunction
from pkgutil import iter_modules
from types import ModuleType
from typing import get_type_hints

from iclbook import figures
from iclbook.plot.style import Animation, Figure
from iclcore.checks import choice


def names() -> list[str]:
    """All figures, by chapter."""
    modules = {module.name for module in iter_modules(figures.__path__)}
    chapters = sorted(modules - {"runs", "style"})
    return [f"{chapter}.{name}" for chapter in chapters for name in _drawing(chapter)]


def make(name: str, scale: str = "paper") -> Figure | Animation:
    """Compute what a figure shows, and draw it."""
    choice("figure", name, tuple(names()))
    chapter, function = name.split(".")
    study = import_module(f"iclbook.studies.{chapter}")
    return _call(_drawing(chapter)[function], study, scale, {})


def title(name: str) -> str:
    """The first line of what the figure function says of itself; the paper's number is in it."""
    chapter, function = name.split(".")
    return (_drawing(chapter)[function].__doc__ or "").strip().split("\n")[0]


def _drawing(chapter: str) -> dict[str, Callable]:
    module = import_module(f"{figures.__name__}.{chapter}")
    return {
        name: function
        for name, function in getmembers(module, isfunction)
        if function.__module__ == module.__name__
        and get_type_hints(function).get("return") in (Figure, Animation)
    }


def _call(function: Callable, study: ModuleType, scale: str, made: dict):
    """``function`` of what it asks for: ``scale``, or results of other functions of the study."""
    asked, hints = {}, get_type_hints(function)
    hints.pop("return")
    for name, kind in hints.items():
        if name == "scale":
            asked[name] = scale
        elif makers := [f for _, f in getmembers(study, isfunction) if _makes(f, kind, study)]:
            if kind not in made:
                made[kind] = _call(makers[0], study, scale, made)
            asked[name] = made[kind]
    return function(**asked)


def _makes(function: Callable, kind: type, study: ModuleType) -> bool:
    own = isinstance(kind, type) and kind.__module__ == study.__name__
    return own and get_type_hints(function).get("return") is kind
