"""Execute chapters of the book, and write their outputs into their notebooks if all of them succeed.

    python tools/execute.py [CHAPTER ...] [--set NAME=VALUE ...] [--text]

The chapters are the notebooks that _toc.yml names, and the template of a chapter. Two of them run at a time,
each in a kernel of its own. What is written is canonical: executing a chapter again gives the same bytes.
After a run with other parameters, which ``--set`` names, the notebook says so, and a test refuses to have
it committed. With ``--text`` nothing is executed: the numbers of the last run are filled into the text, and
what an editor added to the notebook is removed.
"""

import argparse
import json
import os
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe, Process
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

import install_cell
import marks
import nbformat
import papermill
from chapters import ROOT, SECONDS, Problem, notebooks, parse, read, recorded
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell
from papermill.exceptions import strip_color
from pictures import kept

from iclbook import chapter

AT_ONCE = 2
WIDGET_VIEW = "application/vnd.jupyter.widget-view+json"
KERNEL = {"display_name": "Python 3", "language": "python", "name": "python3"}
KERNEL_OPTIONS = {
    "kernel_name": "python3",
    "progress_bar": False,
    "extra_arguments": ["--log-level=ERROR"],  # else it warns that it does not encrypt
    "shutdown_kernel": "immediate",
}
TRACEBACK_LINES = 8
NOT_TO_COMMIT = "# for these outputs, which are not to be committed"
SETTINGS = "settings"  # the key of a notebook's metadata that holds other parameters than its own


@dataclass
class Chapter:
    """A notebook that is to be executed, the text of its file, and the parameters that are set otherwise."""

    path: Path
    text: str
    notebook: NotebookNode
    settings: dict[str, Any]


@dataclass
class Result:
    """The new text of a chapter's file and the seconds of its run and of its cells, or what went wrong."""

    text: str = ""
    seconds: dict[str, Any] = field(default_factory=dict)
    failure: str = ""


def canonical(
    source: NotebookNode,
    executed: NotebookNode,
    settings: dict[str, Any] | None = None,
) -> str:
    """The text of `source` with the outputs of `executed`, without anything that differs between runs.

    Of the metadata only tags stay: papermill and editors add the rest. Widgets live only in a kernel: their
    state and their views have random ids and are removed. The picture or text that each of them also has
    stays.
    """
    for number, (cell, run) in enumerate(zip(source.cells, executed.cells, strict=True)):
        cell.setdefault("id", f"cell-{number}")
        cell.metadata = {key: value for key, value in cell.metadata.items() if key == "tags"}
        if cell.cell_type == "code":
            cell.execution_count = run.execution_count
            outputs = joined_streams(run.outputs)
            for output in outputs:
                for bundle in (output.get("data", {}), output.get("metadata", {})):
                    bundle.pop(WIDGET_VIEW, None)
            cell.outputs = kept(cell.outputs, outputs)
    marks.fill(source)
    source.metadata = {"kernelspec": KERNEL, "language_info": {"name": "python"}}
    if settings:
        source.metadata[SETTINGS] = settings
    source.nbformat_minor = max(source.nbformat_minor, 5)
    return nbformat.writes(source) + "\n"


def joined_streams(outputs: list) -> list:
    """The outputs, with neighbouring pieces of one stream joined: a kernel cuts them anywhere."""
    joined: list = []
    for output in outputs:
        last = joined[-1] if joined else None
        if last and output.output_type == last.output_type == "stream" and output.name == last.name:
            last.text += output.text
        else:
            joined.append(output)
    return joined


def prepared(path: Path, given: list[str], address: str = "") -> Chapter:
    """The chapter with a cell that sets the ``given`` parameters, each NAME=VALUE."""
    text = read(path)
    notebook = parse(text, path.name)
    notebook.cells = [cell for cell in notebook.cells if not chapter.injected(cell)]
    install_cell.committed(notebook, address)
    try:
        marks.check(notebook)
    except marks.Mark as problem:
        raise Problem(f"{path.name}: {problem}") from None
    try:
        settings = chapter.settings(path.stem, notebook.cells, given)
    except ValueError as problem:
        raise Problem(f"--set: {problem}") from None
    if settings:
        lines = [f"{name} = {value!r}" for name, value in settings.items()]
        cell = new_code_cell("\n".join([NOT_TO_COMMIT, *lines]), metadata={"tags": [chapter.SET]})
        notebook.cells.insert(chapter.parameters_cell(notebook.cells) + 1, cell)
    return Chapter(path, text, notebook, settings)


def execute(chosen: list[Chapter]) -> list[Result]:
    """Run chapters, each in a process of its own, and return their results in the same order. Those with
    most cells begin first, so that there is work for both cores to the end."""
    waiting = sorted(range(len(chosen)), key=lambda number: len(chosen[number].notebook.cells))
    running, results = {}, [Result()] * len(chosen)
    try:
        while waiting or running:
            while waiting and len(running) < AT_ONCE:
                number, (receiver, sender) = waiting.pop(), Pipe(duplex=False)
                process = Process(target=send_result, args=(chosen[number], sender))
                process.start()
                sender.close()
                running[receiver] = number, process
            for receiver in wait(list(running)):
                number, process = running.pop(receiver)
                try:
                    results[number] = receiver.recv()
                except EOFError:  # for example, the machine had too little memory
                    failure = f"{chosen[number].path.stem}: its process was killed"
                    results[number] = Result(failure=failure)
                process.join()
    finally:
        for _, process in running.values():
            process.kill()  # its kernel notices this, and ends itself
    return results


def send_result(one: Chapter, sender: Connection) -> None:
    with suppress(KeyboardInterrupt, BrokenPipeError):
        sender.send(run(one))


def run(one: Chapter) -> Result:
    label = " ".join([one.path.stem, *(f"{name}={value}" for name, value in one.settings.items())])
    try:
        executed = papermill.execute_notebook(
            one.notebook, None, cwd=one.path.parent, **KERNEL_OPTIONS
        )
        text = canonical(one.notebook, executed, one.settings)
    except papermill.PapermillExecutionError as error:
        before = one.notebook.cells[: error.cell_index]
        number = 1 + sum(not chapter.injected(cell) for cell in before)
        reason = f"cell {number} failed: {error.ename}: {error.evalue}".splitlines()[0]
        traceback = strip_color("\n".join(error.traceback)).rstrip().splitlines()
        lines = [f"{label}: {reason}", *traceback[-TRACEBACK_LINES:]]
        return Result(failure="\n    ".join(lines))
    except Exception as error:  # for example, the kernel died, or a mark in the text is wrong
        return Result(failure=f"{label}: {type(error).__name__}: {error}")
    code = [cell for cell in executed.cells if cell.cell_type == "code"]
    cells = {cell.id: round(cell.metadata.papermill.duration, 2) for cell in code}
    together = round(executed.metadata.papermill.duration, 1)
    print(f"{label:<32} {together:6.1f} s", flush=True)
    return Result(text, {"together": together, "cells": cells})


def executed(chosen: list[Chapter], root: Path) -> dict[Path, str]:
    """The new texts of the chapters' files, and of the file with their seconds, which the pages show."""
    results, texts, seconds = execute(chosen), {}, recorded(root)
    failures = [result.failure for result in results if result.failure]
    for one, result in zip(chosen, results, strict=True):
        if read(one.path) != one.text:
            failures.append(f"{one.path.stem}: the notebook was changed while it ran")
        texts[one.path], seconds[one.path.stem] = result.text, result.seconds
    if failures:
        raise Problem("\n".join(failures))
    if not any(one.settings for one in chosen):
        texts[root / SECONDS] = json.dumps(seconds, indent=1) + "\n"
    return texts


def tidied(path: Path) -> str:
    """The text of a chapter's file as the executor would have written it, without a run."""
    notebook = parse(read(path), path.name)
    try:
        return canonical(notebook, notebook, notebook.metadata.get(SETTINGS))
    except marks.Mark as problem:
        raise Problem(f"{path.name}: {problem}") from None


def replace_all(texts: dict[Path, str]) -> None:
    """Write all files that change or none: each new text goes into a file beside, which is then renamed."""
    texts = {path: text for path, text in texts.items() if not path.exists() or read(path) != text}
    beside = {path: path.with_name(f"{path.name}.new") for path in texts}
    try:
        for path, new in beside.items():
            path.parent.mkdir(exist_ok=True)
            new.write_text(texts[path], encoding="utf-8")
        for path, new in beside.items():
            os.replace(new, path)
    finally:
        for new in beside.values():
            new.unlink(missing_ok=True)


def main(arguments: list[str] | None = None, root: Path = ROOT) -> int:
    parser = argparse.ArgumentParser(description="Execute the chapters of the book.")
    parser.add_argument("chapter", nargs="*", help="the chapters to execute; all by default")
    parser.add_argument(
        "--set", nargs="+", action="extend", default=[], metavar="NAME=VALUE",
        help="other values of parameters; the result is not to be committed",
    )  # fmt: skip
    parser.add_argument("--text", action="store_true", help="execute nothing; fill in and tidy")
    asked = parser.parse_args(arguments)
    known = notebooks(root)
    if unknown := set(asked.chapter) - known.keys():
        parser.error(f"no chapter {min(unknown)!r} in _toc.yml, which names {', '.join(known)}")
    paths = [path for name, path in known.items() if name in (asked.chapter or known)]
    try:
        if asked.text:
            texts = {path: tidied(path) for path in paths}
        else:
            address = install_cell.address(root)
            texts = executed([prepared(path, asked.set, address) for path in paths], root)
        replace_all(texts)
    except (Problem, OSError) as problem:
        print(f"{problem}\nNo notebook was changed.", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("\nstopped: no notebook was changed", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main())
