"""``sweep``: a grid over the flags of ``train``, here or on a Dask cluster.

Exit status 2: a line says which part of the grid or which flag was wrong, before any work. 3: runs
failed or diverged, or the cluster was lost. 130, 143 and 129: interrupted, by Ctrl-C, SIGTERM and SIGHUP.
Finished runs are kept in every case.
"""

import argparse
import difflib
import sys
import time
from collections.abc import Callable
from itertools import product

from iclcore.cli.flags import task_and_model, training
from iclcore.cli.parser import Parser, alike
from iclcore.extras import needs
from iclcore.files import write_whole
from iclcore.interrupts import noted

MOST_VALUES = 100_000  # a folder of more files is a slip of the finger


def run(options: argparse.Namespace, refuse: Callable) -> int:
    if options.jobs and options.scheduler:
        refuse("argument --jobs: goes without --scheduler, whose workers are as many as they are")
    points = combinations(options.grid, options.rest, refuse)

    from iclcore.cli.memory import within
    from iclcore.cli.runs import needs as needs_of
    from iclcore.cli.runs import run_of
    from iclcore.sweep import FolderInUse, distinct, sweep
    from iclcore.sweep.workers import ClusterLost, NoCluster

    clock = time.perf_counter()
    runs = []
    for given, *point in points:

        def refuse_it(line: str, given: str = given) -> None:
            refuse(f"{line}, with {given}")

        runs.append(run_of(*point, refuse_it))
        if not options.scheduler:  # whose workers have memory of their own
            within(needs_of(runs[-1]), refuse_it)
    try:
        distinct(runs)
    except ValueError as error:
        refuse(f"argument --grid: {error}")
    with needs("cluster"):  # before the first run
        from iclcore import picture
    try:
        swept = sweep(runs, options.out, jobs=options.jobs, scheduler=options.scheduler)
    except FolderInUse as error:
        refuse(f"argument --out: {error}")
    except NoCluster as error:
        refuse(f"argument --scheduler: {error}")
    except ClusterLost as error:
        print(error, file=sys.stderr)
        return 3
    except KeyboardInterrupt as error:
        if not error.args:  # before the first run
            raise
        print(error, file=sys.stderr)
        return 130
    seconds = time.perf_counter() - clock

    with noted():  # all is computed: a late Ctrl-C must not cost the figure
        drawn = picture.swept(swept)
        write_whole(options.out / "figure.png", lambda file: file.write(drawn.file()))
    counts = {how: len(swept.ended(how)) for how in ("finished", "diverged", "failed")}
    told = ", ".join(f"{count} {how}" for how, count in counts.items() if count)
    print(f"{len(runs)} runs, {swept.found} of them found in {options.out}: {told}")
    print(f"{options.out / 'table.csv'} has a row for each; {seconds:.3g} s")
    return 0 if counts["finished"] == len(runs) else 3


def combinations(grid: str, rest: list[str], refuse: Callable) -> list:
    """Every combination: as it is given, its flags, task and model; all are checked before any is run."""
    parser = Parser(prog="iclcore sweep", add_help=False)
    training(parser)
    flags = {
        name.lstrip("-"): action
        for action in parser._actions
        for name in action.option_strings
        if action.dest not in ("save", "json", "show")
    }
    for name in ("save", "json", "show"):
        if any(given.split("=")[0] == f"--{name}" for given in rest):
            refuse(f"argument --{name}: is no flag of sweep, which writes to --out")
    given = {flags[g.split("=")[0].lstrip("-")].dest for g in rest if _flag(g) in flags}
    axes: dict[str, list[str]] = {}
    for axis in grid.split():
        name, equals, values = axis.partition("=")
        if not (name and equals and values):
            refuse(f"argument --grid: takes NAME=VALUES between blanks, not {axis!r}")
        if name not in flags:
            close = difflib.get_close_matches(name, flags, 1)
            hint = f"; did you mean {close[0]}?" if close else "; train --help lists them"
            refuse(f"argument --grid: {name!r} is no flag of train{hint}")
        action = flags[name]
        if action.nargs == 0:
            refuse(f"argument --grid: --{name} takes no values, so give it for all runs")
        if action.dest in {flags[other].dest for other in axes}:
            refuse(f"argument --grid: has --{name} twice")
        if action.dest in given:
            refuse(f"argument --{name}: has a value of its own and one in --grid")
        axes[name] = _values(axis, values, refuse)
    if not axes:
        refuse("argument --grid: takes NAME=VALUES between blanks, not nothing")
    found = []
    for values in product(*axes.values()):
        point = [f"--{name}={value}" for name, value in zip(axes, values, strict=True)]
        fixed, unknown = parser.parse_known_args([*rest, *point])
        if unknown:
            refuse(f"argument {unknown[0]}: is no flag of sweep{alike(unknown[0], fixed)}")
        found.append((" ".join(point), fixed, *task_and_model(fixed, refuse)))
    return found


def _flag(given: str) -> str:
    return given.split("=")[0].lstrip("-") if given.startswith("--") else ""


def _values(axis: str, values: str, refuse: Callable) -> list[str]:
    if ":" in values:
        try:
            numbers = range(*(int(part) for part in values.split(":")))
        except (TypeError, ValueError):
            refuse(f"argument --grid: a range is FIRST:END or FIRST:END:STEP, not {axis!r}")
        if not numbers:
            refuse(f"argument --grid: {axis!r} is an empty range")
        if numbers[-1] - numbers[0] > MOST_VALUES * abs(numbers.step):
            refuse(f"argument --grid: a range takes at most {MOST_VALUES:,} values, not {axis!r}")
        return [str(number) for number in numbers]
    listed = values.split(",")
    if "" in listed:
        refuse(f"argument --grid: {axis!r} lacks a value")
    twice = [value for value in listed if listed.count(value) > 1]
    if twice:
        refuse(f"argument --grid: {axis!r} has {twice[0]} twice")
    return listed
