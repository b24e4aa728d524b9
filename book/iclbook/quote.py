"""Numbers that a chapter's text quotes. A cell computes and names them; nobody types them.

The cell that computes a number ends with ``quote.say(level2=(levels[2], ".4f"))``, which prints the line
``level2 = 0.3774``. In the text the number stands between two comments, which readers of a notebook do not
see: ``<!--level2-->0.3774<!--/-->``. ``make book`` and ``make text`` write the printed number there. One
element of several is ``<!--levels[2]-->``. The parameters of a chapter can be quoted by their names too.
"""

import re
from collections.abc import Mapping
from numbers import Integral
from typing import Any

import numpy as np

QUOTED = re.compile(r"<!--(?P<name>[A-Za-z]\w*)(?:\[(?P<index>-?\d+)\])?-->(?P<said>.*?)<!--/-->")
LINE = re.compile(r"^([A-Za-z]\w*) = (.*)$", re.MULTILINE)
FORMAT = re.compile(r"\+?z?,?(\.\d+)?[defg%]")
ABSENT = "–"
NUMBER = re.compile(rf"{ABSENT}|[+−]?(?:\d[\d,]*)?\.?\d+(?:e[+−]\d+)?%?")


def say(**values: Any) -> None:
    """Print values by their names: ``a=value`` with three digits, ``a=(value, ".1%")`` in a format."""
    for name, value in values.items():
        form = ""
        if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], str):
            value, form = value
            if not FORMAT.fullmatch(form):
                raise ValueError(f"{name}: {form!r} is no format of a number, as '.4f' is")
        print(f"{name} = {text(value, form)}")


def text(value: Any, form: str = "") -> str:
    """Return a value as a text shows it; several values are joined as `a, b and c`.

    Without a format a number has three significant digits and an integer has commas. A value that does not
    exist at other settings is a dash: nan, None, or no element at all.
    """
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple | np.ndarray) and np.ndim(value):
        *first, last = [text(each, form) for each in value] or [ABSENT]
        return f"{', '.join(first)} and {last}" if first else last
    if value is None or value != value:
        return ABSENT
    form = form or (",d" if isinstance(value, Integral) else ".3g")
    return format(value, form).replace("-", "−")


def printed(output: str) -> list[tuple[str, str]]:
    """Return name and text of each number in what cells printed."""
    return LINE.findall(output)


def find(numbers: Mapping[str, str], mark: re.Match) -> str:
    """Return the number that a match of ``QUOTED`` asks for; a dash if a list is shorter than that.

    Raises KeyError with the name if no cell says it.
    """
    said, index = numbers[mark["name"]], mark["index"]
    if index is None:
        return said
    try:
        return parts(said)[int(index)]
    except IndexError:
        return ABSENT


def parts(said: str) -> list[str]:
    """Split `a, b and c` into its elements."""
    return re.split(", | and ", said)


def are_numbers(said: str) -> bool:
    """Return whether this is what ``text`` writes of numbers, and not a word."""
    return all(NUMBER.fullmatch(each) for each in parts(said))
