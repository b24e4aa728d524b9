"""Execute every chapter with parameters that a reader may choose.

    python tools/other_settings.py [CHAPTER ...]

These are two dimensions with one head and one seed, and seven dimensions in a short run. No cell may fail or
warn, except that a loss rose, which readers should know of their settings. No picture's alternative text and
no number of the text may say nan or inf. No notebook is changed.
"""

import re
import sys
from collections.abc import Iterator

import marks
from chapters import Problem, notebooks, parse, read
from execute import Result, execute, prepared
from nbformat import NotebookNode

from iclbook.chapter import Parameter, parameters

NO_NUMBER = re.compile(r"\b(?:nan|inf)\b")
ANIMATION = re.compile(r'class="animation" alt="([^"]*)"')


def other_settings(known: dict[str, Parameter]) -> Iterator[list[str]]:
    """The settings that are tried, as NAME=VALUE, as far as a chapter has these parameters."""
    own = {name: parameter.default for name, parameter in known.items()}
    short = {"steps": own.get("steps", 0) // 10, "time": own.get("time", 0) / 10}
    for settings in ({"dim": 2, "heads": 1, "seeds": 1}, {"dim": 7, **short}):
        given = [f"{name}={value}" for name, value in settings.items() if name in own]
        if given:
            yield given


def problems(result: Result) -> Iterator[str]:
    """What is wrong with a chapter that was executed."""
    if result.failure:
        yield result.failure
        return
    notebook = parse(result.text, "the result")
    for number, cell in enumerate(notebook.cells, start=1):
        for output in cell.get("outputs", ()):
            if output.get("name") == "stderr" and "the loss rose" not in output.text:
                yield f"cell {number} warns: {output.text.strip()}"
            for alt in alternative_texts(output):
                if len(alt.split()) <= 5 or NO_NUMBER.search(alt):
                    yield f"cell {number} has a picture whose alternative text is {alt!r}"
    for name, text in marks.numbers(notebook).items():
        if NO_NUMBER.search(text):
            yield f"the number {name} is {text}"


def alternative_texts(output: NotebookNode) -> list[str]:
    """What the pictures of an output say to those who cannot see them."""
    found = ANIMATION.findall(output.get("data", {}).get("text/html", ""))
    if "image/png" in output.get("data", {}):
        found.append(output.metadata.get("image/png", {}).get("alt", ""))
    return found


def main(names: list[str]) -> int:
    paths = [path for name, path in notebooks().items() if name in (names or [name])]
    chosen, found = [], []
    for path in paths:
        known = parameters(parse(read(path), path.name).cells)
        for given in other_settings(known):
            try:
                chosen.append(prepared(path, given))
            except Problem as problem:  # for example, a number outside of its range
                found.append(str(problem))
    for one, result in zip(chosen, execute(chosen), strict=True):
        found += [f"{one.path.stem} {one.settings}: {problem}" for problem in problems(result)]
    print("\n".join(found) or "every chapter runs with other settings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
