"""Execute the chapters of the book and put their outputs in place, all or none.

    python tools/execute.py [--scale quick] [CHAPTER ...]

Chapters are the notebooks named in _toc.yml. Each runs from nothing in its own kernel, two at a
time. What is written back is canonical: executing again gives the same bytes.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import nbformat
import yaml
from pictures import kept

ROOT = Path(__file__).resolve().parent.parent
AT_ONCE = 2
# each chapter has a core; threads that wait for one another across two of them lose tenfold
ONE_THREAD = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
TRACEBACK_LINES = 8


@dataclass
class Result:
    """What became of one chapter: the text to put in place, or what went wrong."""

    chapter: Path
    seconds: float
    cells: dict[str, float] = field(default_factory=dict)
    text: str = ""
    failure: str = ""


def chapters(root: Path = ROOT) -> dict[str, Path]:
    """The notebooks of _toc.yml by their short names, in the order of the book."""
    toc = yaml.safe_load((root / "_toc.yml").read_text())

    def files(entry):
        if isinstance(entry, dict):
            for key, value in entry.items():
                if key in ("root", "file"):
                    yield value
                else:
                    yield from files(value)
        elif isinstance(entry, list):
            for item in entry:
                yield from files(item)

    paths = [root / f"{name.removesuffix('.ipynb')}.ipynb" for name in files(toc)]
    return {path.stem: path for path in paths if path.exists()}


def canonical(
    source: nbformat.NotebookNode, executed: nbformat.NotebookNode, scale: str = "paper"
) -> str:
    """`source` with the outputs of `executed`, without anything that differs from run to run.

    Cells are the author's own, so nothing the executor adds to them is kept. Widgets live only
    in a kernel: their state and their views (random ids) are dropped, and the picture or text
    that each output also carries stays. Outputs at another scale than the paper's are marked:
    they are not to be committed.
    """
    fresh = [c for c in executed.cells if "injected-parameters" not in c.metadata.get("tags", [])]
    for number, (cell, run) in enumerate(zip(source.cells, fresh, strict=True)):
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
    for key in ("papermill", "widgets", "scale"):
        source.metadata.pop(key, None)
    source.metadata.kernelspec = KERNEL
    source.metadata.language_info = {"name": "python"}
    if scale != "paper":
        source.metadata["scale"] = scale
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


def execute(chapter: Path, scale: str, folder: Path) -> Result:
    """Run one chapter in a kernel of its own; the file itself is only read."""
    source = nbformat.reads(before := chapter.read_text(), as_version=4)
    out = folder / chapter.name
    command = [sys.executable, "-m", "papermill", str(chapter), str(out)]
    command += ["--kernel", "python3", "--language", "python", "--no-progress-bar"]
    command += ["--cwd", str(chapter.parent)]
    has_parameters = any("parameters" in c.metadata.get("tags", []) for c in source.cells)
    if scale != "paper" and has_parameters:
        command += ["-p", "scale", scale]
    start = time.perf_counter()
    run = subprocess.run(command, capture_output=True, text=True, env=os.environ | ONE_THREAD)
    result = Result(chapter, time.perf_counter() - start)
    if run.returncode:
        result.failure = failure(chapter, out, run.stderr)
    elif chapter.read_text() != before:
        result.failure = f"{chapter.stem}: the notebook was changed while it ran; run it again"
    else:
        executed = nbformat.read(out, as_version=4)
        took = {c.id: c.metadata.get("papermill", {}).get("duration") for c in executed.cells}
        result.cells = {name: round(seconds, 2) for name, seconds in took.items() if seconds}
        result.text = canonical(source, executed, scale)
    return result


def failure(chapter: Path, out: Path, stderr: str) -> str:
    """One line that names chapter and cell, then the end of the traceback."""
    cells = nbformat.read(out, as_version=4).cells if out.exists() else []
    # Neither a cell of parameters nor the executor's notice of the failure is in the source.
    added = {"injected-parameters", "papermill-error-cell-tag"}
    cells = [c for c in cells if not added & set(c.metadata.get("tags", []))]
    for number, cell in enumerate(cells, start=1):
        allowed = "raises-exception" in cell.metadata.get("tags", [])
        for output in cell.get("outputs", []):
            if output.output_type == "error" and not allowed:
                trace = "\n".join(output.traceback)
                reason = f"{output.ename}: {output.evalue}".splitlines()[0]
                return f"{chapter.stem}: cell {number} failed: {reason}\n{tail(trace)}"
    return f"{chapter.stem}: the kernel did not finish\n{tail(stderr)}"


def tail(text: str) -> str:
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text).rstrip().splitlines()
    return "\n".join(f"    {line}" for line in plain[-TRACEBACK_LINES:])


def put_in_place(results: list[Result]) -> None:
    for result in results:
        new = result.chapter.with_suffix(".ipynb.new")
        new.write_text(result.text)
        os.replace(new, result.chapter)


def record(results: list[Result], root: Path) -> None:
    """Remember the seconds for the pages, outside the notebooks, which must not change."""
    path = root / "_build" / "seconds.json"
    known = json.loads(path.read_text()) if path.exists() else {}
    for r in results:
        known[r.chapter.stem] = {"together": round(r.seconds, 1), "cells": r.cells}
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(known, indent=1) + "\n")


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description="Execute the chapters of the book.")
    parser.add_argument("chapter", nargs="*", help="the chapters to execute; all by default")
    parser.add_argument("--scale", choices=("paper", "quick"), default="paper")
    asked = parser.parse_args(arguments)
    known = chapters(root)
    for name in asked.chapter:
        if name not in known:
            print(f"no chapter {name!r}; the chapters are: {', '.join(known)}", file=sys.stderr)
            return 2

    start = time.perf_counter()
    chosen = [path for name, path in known.items() if not asked.chapter or name in asked.chapter]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(AT_ONCE) as pool:
        run = (pool.submit(execute, path, asked.scale, Path(folder)) for path in chosen)
        results = [future.result() for future in list(run)]

    failures = [result.failure for result in results if result.failure]
    if failures:
        print("\n".join(failures), file=sys.stderr)
        print("No notebook was changed.", file=sys.stderr)
        return 1
    put_in_place(results)
    if asked.scale == "paper":
        record(results, root)
    width = max(len(name) for name in ["together", *known])
    for result in results:
        print(f"{result.chapter.stem:<{width}}  {result.seconds:6.1f} s")
    print(f"{'together':<{width}}  {time.perf_counter() - start:6.1f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
