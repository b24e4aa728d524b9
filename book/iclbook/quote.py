"""Numbers that a chapter's text quotes: taken from its run, never typed.

Where a number stands in the text, a mark says what it is: ``<!--q levels[2] .4f-->0.3774<!--/q-->``,
an expression of the chapter's names and how to write it. No reader of notebooks shows the mark.
What stands in it is the chapter's record, printed by its last cell, which calls ``record``.
"""

import re
from numbers import Integral

import numpy as np

QUOTED = re.compile(r"<!--q (?P<mark>.+?)-->(?P<said>.*?)<!--/q-->")
FORMAT = re.compile(r"\+?z?,?(\.\d+)?[defg%]")
ABSENT = "–"
NUMBER = re.compile(rf"{ABSENT}|[+−]?(?:\d[\d,]*)?\.?\d+(?:e[+−]\d+)?%?")


def record(names: dict, marks: str) -> None:
    """Print each of the ``marks``, one a line, with the text of its value: `levels[2] .4f = 0.3774`."""
    for mark in filter(None, map(str.strip, marks.splitlines())):
        try:
            said = quoted(mark, names)
        except Exception as error:  # of any kind: the text asks for what the chapter has not
            raise ValueError(f"<!--q {mark}-->: {type(error).__name__}: {error}") from None
        print(f"{mark} = {said}")


def quoted(mark: str, names: dict) -> str:
    """The text of one mark, given the chapter's names; a dash for what other settings do not have."""
    expression, form = split(mark)
    try:
        value = eval(expression, names)
    except LookupError:
        return ABSENT
    return text(value, form)


def split(mark: str) -> tuple[str, str]:
    """Expression and format: the last word, if it is a format and an expression stands before it."""
    expression, _, form = mark.rpartition(" ")
    if FORMAT.fullmatch(form) and is_expression(expression):
        return expression.strip(), form
    return mark, ""


def is_expression(code: str) -> bool:
    try:
        compile(code.strip(), "mark", "eval")
    except SyntaxError:
        return False
    return True


def text(value, form: str = "") -> str:
    """`value` in a text: three significant digits, or as ``form`` says; several as `a, b and c`."""
    if isinstance(value, str):
        return value
    if isinstance(value, list | tuple | np.ndarray) and np.ndim(value):
        *first, last = [text(each, form) for each in value] or [ABSENT]
        return f"{', '.join(first)} and {last}" if first else last
    if value != value:
        return ABSENT
    form = form or (",d" if isinstance(value, Integral) else ".3g")
    return format(value, form).replace("-", "−")


def are_numbers(said: str) -> bool:
    """Whether it is what ``text`` writes of numbers, and not a word."""
    parts = [each for part in said.split(" and ") for each in part.split(", ")]
    return all(NUMBER.fullmatch(each) for each in parts)
