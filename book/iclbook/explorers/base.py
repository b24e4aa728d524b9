"""The base of all explorers: settings that controls move, one ES module, and a static picture.

With a kernel an explorer is a widget. In a built page it is a picture with the settings beside it,
and ``explorers.js`` replaces that with the same module, which runs without a kernel.
"""

import base64
import html
import json
from pathlib import Path
from typing import Any

import anywidget
import numpy as np
import traitlets

from iclbook.explorers import bundle
from iclbook.plot.style import DOTS, Figure, png
from iclbook.plot.trace import trace
from iclcore.files import write_whole
from iclcore.history import thin

WIDTH = 880  # of the static picture, in CSS pixels
EXPLORERS: dict[str, type["Explorer"]] = {}  # by name; each class adds itself


def whole(value: int, label: str, low: int, high: int) -> traitlets.Int:
    tags = {"label": label, "type": "whole", "min": low, "max": high}
    return traitlets.Int(value, min=low, max=high).tag(sync=True, **tags)


def real(
    value: float, label: str, low: float, high: float, log: bool = False, step: float | None = None
) -> traitlets.Float:
    tags = {"label": label, "type": "real", "min": low, "max": high, "log": log, "step": step}
    return traitlets.Float(value, min=low, max=high).tag(sync=True, **tags)


def choice(value: Any, label: str, options: dict[Any, str]) -> traitlets.Enum:
    """``options`` are the values, each with the words that the page shows for it."""
    tags = {"label": label, "type": "choice", "options": list(options)}
    names = {str(key): words for key, words in options.items()}
    return traitlets.Enum(list(options), value).tag(sync=True, names=names, **tags)


def spectrum(value: tuple[float, ...], label: str = "eigenvalues of Λ") -> traitlets.List:
    low, high, least, most = 0.01, 0.8, 2, 8
    tags = {"type": "spectrum", "min": low, "max": high, "least": least, "most": most}
    each = traitlets.Float(min=low, max=high)
    values = traitlets.List(each, list(value), minlen=least, maxlen=most)
    return values.tag(sync=True, label=label, **tags)


def points(label: str, most: int) -> traitlets.List:
    """Points that the reader has moved in a picture: the number, x and y of each, one after another."""
    moved = traitlets.List(traitlets.Float(), [], maxlen=3 * most)
    return moved.tag(sync=True, label=label, type="points", most=most)


def triples(moved: list[float]) -> list[tuple[int, float, float]]:
    """The number, x and y of each point that was moved."""
    return [(int(i), x, y) for i, x, y in zip(moved[::3], moved[1::3], moved[2::3], strict=True)]


def position() -> traitlets.Float:
    """The place of the time bar: 0 is the start of the run, 1 its end. It begins at the end."""
    return real(1.0, "time", 0, 1)


def preset(name: str, look: str, **settings: Any) -> dict[str, Any]:
    """A button that changes these settings and resets all others; ``look`` says what to look at."""
    return {"name": name, "look": look, "settings": settings}


def guess(
    question: str, answers: list[str], right: int, move: str, why: str, **settings: Any
) -> dict[str, Any]:
    """A question to the reader. The page gives the answer, and ``why``, once the reader has chosen one and
    has moved the explorer to ``settings``; ``move`` says how."""
    words = {"question": question, "answers": answers, "right": right, "move": move, "why": why}
    return {**words, "settings": settings}


class Explorer(anywidget.AnyWidget):
    """A subclass has a ``name``, which is that of its module, traits made above, and a ``picture``.

    With ``LEAD`` the page shows at first these controls and one row of pictures only. A subclass with a
    ``GUESS`` has the method ``answer``.
    """

    name = ""
    heading = ""
    PRESETS: tuple[dict[str, Any], ...] = ()
    GUESS: dict[str, Any] | None = None
    LEAD: tuple[str, ...] = ()
    _css = bundle.style()
    title = traitlets.Unicode().tag(sync=True)
    controls = traitlets.List().tag(sync=True)
    presets = traitlets.List().tag(sync=True)
    guess = traitlets.Dict().tag(sync=True)
    lead = traitlets.List().tag(sync=True)
    finite = traitlets.Bool(False).tag(sync=True)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" in vars(cls):  # a base of several explorers has none
            EXPLORERS[cls.name] = cls

    @property
    def _esm(self) -> str:
        return bundle.widget(self.name)

    def __init__(self, **settings: Any) -> None:
        unknown = sorted(set(settings) - set(self.keys_moved()))
        if unknown:
            raise ValueError(self._takes(", ".join(unknown)))
        super().__init__(**settings)
        self.title = self.heading
        self.presets, self.guess, self.lead = list(self.PRESETS), self.GUESS or {}, list(self.LEAD)
        self.finite = type(self).run_finite is not Explorer.run_finite
        self.controls = [
            {
                "key": key,
                **{k: v for k, v in self.trait_metadata_of(key).items() if v is not None},
                "value": getattr(self, key),
            }
            for key in self.keys_moved()
        ]
        self.on_msg(self._answer)

    def __setattr__(self, name: str, value: Any) -> None:
        """Refuse a misspelt setting, and name the setting whose value is wrong."""
        if not name.startswith("_") and not hasattr(type(self), name):
            raise AttributeError(self._takes(name))
        try:
            super().__setattr__(name, value)
        except traitlets.TraitError:
            if name not in self.keys_moved():
                raise
            given = " ".join(repr(value).split())
            raise traitlets.TraitError(f"{name} takes {self._range(name)}, not {given}") from None

    def _range(self, key: str) -> str:
        """What a control can be set to, in words."""
        tag = self.trait_metadata_of(key)
        if tag["type"] == "choice":
            return f"one of {', '.join(map(repr, tag['options']))}"
        if tag["type"] == "points":
            return (
                f"a list of three numbers, which, x and y, for each of at most {tag['most']} points"
            )
        span = f"from {tag['min']} to {tag['max']}"
        if tag["type"] == "spectrum":
            return f"a list of {tag['least']} to {tag['most']} numbers {span}"
        return f"a whole number {span}" if tag["type"] == "whole" else f"a number {span}"

    @classmethod
    def _takes(cls, unknown: str) -> str:
        return f"{cls.__name__} takes {', '.join(cls.keys_moved())}, not {unknown}"

    @classmethod
    def keys_moved(cls) -> list[str]:
        """The traits that controls move, in the order in which the class names them."""
        order = [key for base in reversed(cls.__mro__) for key in vars(base)]
        return [key for key in order if "label" in cls.trait_metadata_of(key)]

    @classmethod
    def trait_metadata_of(cls, key: str) -> dict[str, Any]:
        trait = cls.class_traits().get(key)
        hidden = ("sync", "default", "help", "config")
        return {k: v for k, v in trait.metadata.items() if k not in hidden} if trait else {}

    def settings(self) -> dict[str, Any]:
        return {key: getattr(self, key) for key in self.keys_moved()}

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}({', '.join(f'{k}={v!r}' for k, v in self.settings().items())})"
        )

    # -- what a subclass defines -------------------------------------------------------------------

    def picture(self) -> Figure:
        """A picture of these settings, drawn by Python, for pages without scripts."""
        raise NotImplementedError

    def answer(self) -> int:
        """The place of the right answer to the guess, computed. A test compares it with GUESS."""
        raise NotImplementedError

    def run_finite(self) -> tuple[list[dict], str]:
        """A run on finite data: curves to draw over panels, and a sentence about it. A module's own
        ``finite`` comes before it."""
        raise NotImplementedError

    # -- with a kernel -------------------------------------------------------------------------------

    def _answer(self, _: Any, content: dict, buffers: list) -> None:
        if not content.get("run"):
            return
        try:
            overlay, note = self.run_finite()
        except ValueError as wrong:
            self.send({"note": str(wrong)})
        else:
            self.send({"overlay": overlay, "note": note})

    # -- in a page -----------------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        """All that the module reads."""
        hidden = set(anywidget.AnyWidget.class_trait_names()) | {"finite"}
        return {key: value for key, value in self.get_state().items() if key not in hidden
                and not key.startswith("_")}  # fmt: skip

    def html(self, figure: Figure) -> str:
        source = base64.b64encode(png(figure.figure, DOTS)).decode()
        state = html.escape(json.dumps(self.state(), ensure_ascii=False), quote=True)
        return (
            f'<div class="explorer" data-module="{self.name}" data-state="{state}">'
            f'<img alt="{html.escape(figure.alt, quote=True)}" width="{WIDTH}" '
            f'src="data:image/png;base64,{source}"></div>'
        )

    def save(self, path: str | Path) -> None:
        """Write this explorer with its settings as a page of its own, which needs no other file."""
        shown = bundle.page(self.name, self.heading, self.html(self.picture()))
        write_whole(path, lambda file: file.write(shown.encode()))

    def _repr_mimebundle_(self, **kwargs: Any) -> tuple[dict, dict] | None:
        shown = super()._repr_mimebundle_(**kwargs)
        if shown is None:
            return None
        data, metadata = shown
        figure = self.picture()
        data = {**data, "text/plain": repr(self), "text/html": self.html(figure)}
        return data, {**metadata, "text/html": {"trace": trace(figure.figure)}}


def overlay(
    panel: int, name: str, y: np.ndarray, x: np.ndarray | None = None, color: int = 3, dots: int = 0
) -> dict:
    """A curve to draw over a panel of the page. Without ``x`` it has one value a step."""
    x = np.arange(len(y)) if x is None else np.asarray(x)
    index = thin(len(x), 400)
    index = index[np.isfinite(y[index])]
    line = {"x": x[index].tolist(), "y": y[index].tolist()}
    return {"panel": panel, "name": name, "color": color, "dots": dots, **line}
