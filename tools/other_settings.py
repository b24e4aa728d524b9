"""Every chapter with other settings than its own, into a temporary folder: make test-settings

    python tools/other_settings.py [CHAPTER ...]

What a reader may set is tried: two and seven dimensions, fewer heads than dimensions, one seed and a short
run. No cell may fail or warn, each figure is a picture that says what it shows, a quoted number stays a
number or becomes a dash, and the pages build without a warning. No notebook is changed.
"""

import argparse
import io
import math
import re
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path

import marks
import nbformat
from build import JUPYTER_BOOK, OPTIONS, build
from chapters import Problem, chapters, parse, read
from execute import Result, execute, whole
from make import ROOT
from workplace import stoppable

from iclbook import chapter
from iclbook.quote import are_numbers

PAGES = ("_config.yml", "_toc.yml", "book", "bench", "tools")  # what a build reads
ALT = re.compile(r'class="animation" alt="(?P<alt>[^"]*)"')


def cases(known: dict[str, chapter.Parameter]) -> dict[str, list[str]]:
    """By name the settings that are tried, as far as a chapter has them."""
    own = {name: each.default for name, each in known.items()}
    wanted = min(own.get("dim", math.inf), own.get("tasks", math.inf))
    few = max(1, wanted - 1) if wanted < math.inf else 1
    settings = {
        "two dimensions": {"dim": 2},
        "seven dimensions": {"dim": 7},
        "few heads": {"heads": few},
        "one seed, a short run": {
            "seeds": 1,
            "steps": own.get("steps", 0) // 10,
            "time": own.get("time", 0) / 10,
        },
    }
    return {
        case: [f"{name}={value}" for name, value in given.items() if name in known]
        for case, given in settings.items()
    }


def problems(result: Result, before: nbformat.NotebookNode) -> Iterator[str]:
    """What is wrong with a chapter that was executed; ``before`` with its own settings."""
    if result.failure:
        yield result.failure
        return
    notebook = parse(result.text, result.chapter.name)
    for number, cell in enumerate(notebook.cells, start=1):
        for output in cell.get("outputs", ()):
            if output.get("name") == "stderr":
                yield f"cell {number} warns: {output.text.strip()}"
    for figure in chapter.figures(result.chapter.stem, notebook.cells).values():
        says = [alt(output) for output in notebook.cells[figure.place].outputs]
        if len(says) != 1 or len(says[0].split()) <= 5:
            yield f"{figure.name} is no picture with an alt text: {says}"
        elif re.search(r"\b(?:nan|inf)\b", says[0]):
            yield f"{figure.name} says what is no number: {says[0]}"
    said = marks.numbers(before)
    for name, text in marks.numbers(notebook).items():
        if name not in said:
            yield f"{name} is not in the notebook: make book first"
        elif are_numbers(said[name]) and not are_numbers(text):
            yield f"{name} is {text!r}, which is no number"


def alt(output: nbformat.NotebookNode) -> str:
    """What a picture says to those who cannot see it; nothing if it is none."""
    animated = ALT.search(output.get("data", {}).get("text/html", ""))
    said = output.get("metadata", {}).get("image/png", {}).get("alt", "")
    return animated["alt"] if animated else said


def tried(case: str, paths: list[Path]) -> tuple[list[Result], list[str]]:
    """The chapters with the settings of one case, and what is wrong with them."""
    texts = {path: read(path) for path in paths}
    known = {path: chapter.parameters(parse(text, path.name).cells) for path, text in texts.items()}
    given = {path: cases(known[path])[case] for path in paths}
    chosen = [path for path in paths if given[path]]
    results = execute([whole(path, texts[path], given[path]) for path in chosen])
    found = []
    for path, result in zip(chosen, results, strict=True):
        own = parse(texts[path], path.name)
        wrong = [f"{path.stem} {' '.join(given[path])}: {p}" for p in problems(result, own)]
        found += wrong
        state = f"{len(wrong)} wrong" if wrong else "right"
        print(
            f"{path.stem:<16} {' '.join(given[path]):<24} {result.seconds:6.1f} s  {state}",
            flush=True,
        )
    return results, found


def page_problems(results: list[Result], root: Path = ROOT) -> list[str]:
    """Build the pages of what was executed, beside the other chapters as they are."""
    with tempfile.TemporaryDirectory() as folder:
        book = Path(folder)
        for name in PAGES:
            of = root / name
            if of.is_dir():
                shutil.copytree(of, book / name, ignore=shutil.ignore_patterns("__pycache__", ".*"))
            else:
                shutil.copy(of, book)
        for result in results:
            if result.text:
                (book / "book" / result.chapter.name).write_text(result.text, encoding="utf-8")
        with redirect_stdout(io.StringIO()):  # where the pages are, which will be gone
            failed = build([*JUPYTER_BOOK, *OPTIONS], book)
        return ["the pages do not build"] if failed else []


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Execute the chapters with other settings.")
    parser.add_argument("chapter", nargs="*", help="the chapters to try; all by default")
    asked = parser.parse_args(arguments).chapter
    known, found = chapters(), []
    if unknown := set(asked) - set(known):
        parser.error(f"no chapter {min(unknown)!r}; the chapters are: {', '.join(known)}")
    try:
        with stoppable("nothing was changed"):
            for case in cases({}):
                print(f"-- {case}", flush=True)
                results, wrong = tried(case, [known[name] for name in asked or known])
                found += wrong + [f"{case}: {problem}" for problem in page_problems(results)]
    except (Problem, OSError) as problem:
        found.append(str(problem))
    print("\n".join(found) or "all is right")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
