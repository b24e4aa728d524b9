"""Execute the chapters of the book and put their outputs in place, all or none.

    python tools/execute.py [CHAPTER ...] [--set NAME=VALUE ...] [--check]

Chapters are the notebooks named in _toc.yml. Each runs from nothing in its own kernel, two at a
time. The numbers that its cells say are written into the text. What is written back is canonical:
executing again gives the same bytes. With other settings than the chapter's own it is marked, and not to
be committed.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import time
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import marks
import nbformat
import needed
from chapters import SECONDS, Problem, chapters, parse, read, recorded, written_beside
from kernels import forked
from make import ONE_THREAD, ROOT
from nbformat.v4 import new_code_cell
from pictures import kept
from workplace import alone, guarded, stoppable

from iclbook import chapter

AT_ONCE = 2
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
TRACEBACK_LINES = 8
HERE = "# for these outputs, which are not to be committed"
SETTINGS = "settings"  # in a notebook's metadata: those that its outputs are of


@dataclass
class Source:
    """A chapter as it was before it ran, and its notebook as it runs: with other settings a cell below
    its parameters shows them."""

    path: Path
    text: str
    notebook: nbformat.NotebookNode
    settings: dict[str, Any] = field(default_factory=dict)  # where they are not the chapter's own


@dataclass
class Result:
    """What became of one chapter: the text to put in place, or what went wrong."""

    chapter: Path
    seconds: float
    cells: dict[str, float] = field(default_factory=dict)
    text: str = ""
    failure: str = ""


def canonical(
    source: nbformat.NotebookNode,
    executed: nbformat.NotebookNode,
    settings: dict[str, Any] | None = None,
) -> str:
    """`source` with the outputs of `executed`, without anything that differs from run to run.

    Cells are the author's own, so nothing the executor adds to them is kept. Widgets live only
    in a kernel: their state and their views (random ids) are dropped, and the picture or text
    that each output also carries stays. Outputs with other settings name them.
    """
    for number, (cell, run) in enumerate(zip(source.cells, executed.cells, strict=True)):
        cell.setdefault("id", f"cell-{number}")
        for key in ("papermill", "execution", "collapsed", "trusted"):
            cell.metadata.pop(key, None)
        if cell.cell_type == "code":
            cell.execution_count = run.execution_count
            outputs = joined_streams(run.outputs)
            for output in outputs:
                for bundle in (output.get("data", {}), output.get("metadata", {})):
                    bundle.pop(WIDGET_VIEW, None)
            cell.outputs = kept(cell.outputs, outputs)
    for key in ("papermill", "widgets", SETTINGS):
        source.metadata.pop(key, None)
    marks.fill(source)
    source.metadata.kernelspec = KERNEL
    source.metadata.language_info = {"name": "python"}
    if settings:
        source.metadata[SETTINGS] = settings
    source.nbformat_minor = max(source.nbformat_minor, 5)
    return nbformat.writes(source) + "\n"


def joined_streams(outputs: list) -> list:
    """Neighbouring pieces of one stream as one: where a kernel cuts them is chance."""
    joined: list = []
    for output in outputs:
        last = joined[-1] if joined else None
        if last and output.output_type == last.output_type == "stream" and output.name == last.name:
            last.text += output.text
        else:
            joined.append(output)
    return joined


def whole(path: Path, text: str, given: list[str], address: str = "") -> Source:
    notebook = parse(text, path.name)
    notebook.cells = [cell for cell in notebook.cells if not chapter.injected(cell)]
    needed.committed(notebook, address)
    try:
        settings = chapter.settings(path.stem, notebook.cells, given)
    except ValueError as problem:
        raise Problem(f"--set: {problem}") from None
    if settings:
        lines = [f"{name} = {value!r}" for name, value in settings.items()]
        cell = new_code_cell("\n".join([HERE, *lines]), metadata={"tags": [chapter.SET]})
        notebook.cells.insert(chapter.parameters_cell(notebook.cells) + 1, cell)
    return Source(path, text, notebook, settings)


def execute(sources: list[Source]) -> list[Result]:
    """Run the chapters, AT_ONCE at a time; what became of them in the order of the book.

    Those with most cells go first, so that both cores have work to the end. Only this thread starts
    processes: what stops it stops that too. The guard is inside the pool, whose threads wait for the
    processes that the guard ends.
    """
    futures, running = {}, set()
    with (
        ThreadPoolExecutor(AT_ONCE) as pool,
        guarded() as (folder, plain),
        forked(folder, plain | ONE_THREAD, len(sources)) as environment,
    ):
        for source in sorted(sources, key=lambda each: -len(each.notebook.cells)):
            if len(running) == AT_ONCE:
                _, running = wait(running, return_when=FIRST_COMPLETED)
            out, began = folder / source.path.name, time.perf_counter()
            nbformat.write(source.notebook, asked_of(out))
            papermill = start(source.path, out, environment)
            future = futures[source.path] = pool.submit(finish, papermill, began, source, out)
            running.add(future)
        return [futures[source.path].result() for source in sources]


def asked_of(out: Path) -> Path:
    """Where papermill reads what it executes into `out`."""
    return out.with_suffix(".in.ipynb")


def start(path: Path, out: Path, environment: dict) -> subprocess.Popen:
    """Run one chapter in a kernel of its own."""
    command = [sys.executable, "-m", "papermill", str(asked_of(out)), str(out)]
    command += ["--kernel", "python3", "--language", "python", "--no-progress-bar"]
    command += ["--cwd", str(path.parent)]
    # at its end alone: to write it after each cell takes as long as to start the kernel
    command += ["--no-request-save-on-cell-execute", "--autosave-cell-every", "0"]
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, **pipes, encoding="utf-8", errors="replace", env=environment)


def finish(papermill: subprocess.Popen, began: float, source: Source, out: Path) -> Result:
    _, stderr = papermill.communicate()
    path = source.path
    result = Result(path, time.perf_counter() - began)
    try:
        if papermill.returncode:
            result.failure = failure(path.stem, out, stderr)
        elif read(path) != source.text:
            result.failure = f"{path.stem}: the notebook was changed while it ran; run it again"
        else:
            executed = parse(read(out), f"{path.name} as papermill wrote it")
            took = {c.id: c.metadata.get("papermill", {}).get("duration") for c in executed.cells}
            result.cells = {name: round(seconds, 2) for name, seconds in took.items() if seconds}
            result.text = canonical(source.notebook, executed, source.settings)
    except marks.Mark as problem:
        result.failure = f"{path.stem}: {problem}"
    except (Problem, OSError) as problem:
        result.failure = str(problem)
    return result


def failure(name: str, out: Path, stderr: str) -> str:
    """One line that names chapter and cell, then the end of the traceback."""
    try:
        cells = parse(read(out), out.name).cells
    except (Problem, OSError):  # papermill ended before it had written all of it
        cells = []
    # Neither a cell of parameters nor the executor's notice of the failure is in the source.
    added = {chapter.SET, "papermill-error-cell-tag"}
    cells = [c for c in cells if not added & set(c.metadata.get("tags", []))]
    for number, cell in enumerate(cells, start=1):
        allowed = "raises-exception" in cell.metadata.get("tags", [])
        for output in cell.get("outputs", []):
            if output.output_type == "error" and not allowed:
                trace = "\n".join(output.traceback)
                reason = f"{output.ename}: {output.evalue}".splitlines()[0]
                return f"{name}: cell {number} failed: {reason}\n{tail(trace)}"
    return f"{name}: the kernel did not finish\n{tail(stderr)}"


def tail(text: str) -> str:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text).rstrip().splitlines()
    return "\n".join(f"    {line}" for line in plain[-TRACEBACK_LINES:])


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description="Execute the chapters of the book.")
    parser.add_argument("chapter", nargs="*", help="the chapters to execute; all by default")
    parser.add_argument(
        "--set", nargs="+", action="extend", default=[], metavar="NAME=VALUE",
        help="other settings, by the names of the parameters cell; the result is not to be committed",
    )  # fmt: skip
    parser.add_argument(
        "--check", action="store_true", help="only say which notebooks would change"
    )
    asked = parser.parse_args(arguments)
    try:
        known = chapters(root)
        for name in asked.chapter:
            if name not in known:
                print(f"no chapter {name!r}; the chapters are: {', '.join(known)}", file=sys.stderr)
                return 2
        chosen = [path for name, path in known.items() if name in (asked.chapter or known)]
        with stoppable("no notebook was changed") as ignore_stops, alone(root):
            began = time.perf_counter()
            texts = {path: read(path) for path in chosen}
            address = needed.address(root)
            sources = [whole(path, text, asked.set, address) for path, text in texts.items()]
            with written_beside(texts | {root / SECONDS: ""}):
                pass  # it can be written: not to be found out only at the end
            results = execute(sources)
            if asked.check:
                return report_changes(results, texts)
            with written_beside(new_texts(results, bool(asked.set), root)) as new:
                ignore_stops()
                for path, beside in new.items():
                    os.replace(beside, path)
    except (Problem, OSError) as problem:
        print(problem, file=sys.stderr)
        return 1
    width = max(len(name) for name in ["together", *known])
    for result in results:
        print(f"{result.chapter.stem:<{width}}  {result.seconds:6.1f} s")
    print(f"{'together':<{width}}  {time.perf_counter() - began:6.1f} s")
    return 0


def report_changes(results: list[Result], texts: dict[Path, str]) -> int:
    failures = [result.failure for result in results if result.failure]
    differing = [result.chapter.stem for result in results if result.text != texts[result.chapter]]
    print("\n".join(failures) or f"other results: {', '.join(differing) or 'none'}")
    return 1 if differing else 0


def new_texts(results: list[Result], set_otherwise: bool, root: Path) -> dict[Path, str]:
    """The notebooks, and the seconds for the pages: outside of them, for they must not change."""
    failures = [result.failure for result in results if result.failure]
    if failures:
        raise Problem("\n".join([*failures, "No notebook was changed."]))
    texts = {result.chapter: result.text for result in results}
    if not set_otherwise:
        known = recorded(root)
        for r in results:
            known[r.chapter.stem] = {"together": round(r.seconds, 1), "cells": r.cells}
        texts[root / SECONDS] = json.dumps(known, indent=1) + "\n"
    return texts


if __name__ == "__main__":
    sys.exit(main())
