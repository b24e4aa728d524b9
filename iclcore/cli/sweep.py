"""``sweep``: a grid over the flags of ``train``, here or on a Dask cluster.

Exit status 2: a line says which part of the grid or which flag was wrong, before any work. 3: runs
failed or diverged, or the cluster was lost. 130, 143 and 129: interrupted, by Ctrl-C, SIGTERM and SIGHUP.
Finished runs are kept in every case.
"""

import argparse
import difflib
import sys
import time
from itertools import product

from iclcore.cli.memory import of_run, within
from iclcore.cli.parser import Parser, Refused, alike, train_flags
from iclcore.cli.train import plan_of
from iclcore.extras import needs
from iclcore.files import write_whole
from iclcore.interrupts import noted
from iclcore.sweep import FolderInUse, Plan, distinct, sweep
from iclcore.sweep.workers import ClusterLost, NoCluster

MOST_VALUES = 100_000  # a folder of more files is a slip of the finger


def run(options: argparse.Namespace) -> int:
    if options.jobs and options.scheduler:
        raise Refused("--jobs", "goes without --scheduler, whose workers are as many as they are")
    clock = time.perf_counter()
    plans = combinations(options)
    try:
        distinct(plans)
    except ValueError as error:
        raise Refused("--grid", str(error)) from None
    with needs("cluster"):  # before the first run
        from iclcore.cli import plots as picture
    try:
        swept = sweep(plans, options.out, jobs=options.jobs, scheduler=options.scheduler)
    except FolderInUse as error:
        raise Refused("--out", str(error)) from None
    except NoCluster as error:
        raise Refused("--scheduler", str(error)) from None
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
    if past := sum(row.get("past_edge") is not None for row in swept.rows.values()):
        told += f"; {past} past the edge of stability, from the step in the column past_edge"
    print(f"{len(plans)} runs, {swept.found} of them found in {options.out}: {told}")
    print(f"{options.out / 'table.csv'} has a row for each; {seconds:.3g} s")
    return 0 if counts["finished"] == len(plans) else 3


def combinations(options: argparse.Namespace) -> list[Plan]:
    """Every run of the grid; all are checked before any is carried out."""
    parser, rest = Parser(prog="iclcore sweep", add_help=False), options.rest
    train_flags(parser)
    flags = {name.lstrip("-"): action for name, action in parser._option_string_actions.items()}
    words = (word.split("=")[0] for word in rest if word.startswith("--"))
    given = {flags[word.lstrip("-")] for word in words if word.lstrip("-") in flags}
    axes: dict[argparse.Action, list[str]] = {}
    for axis in options.grid.split():
        name, equals, values = axis.partition("=")
        if not (name and equals and values):
            raise Refused("--grid", f"takes NAME=VALUES between blanks, not {axis!r}")
        if name not in flags:
            close = difflib.get_close_matches(name, flags, 1)
            hint = f"; did you mean {close[0]}?" if close else "; train --help lists them"
            raise Refused("--grid", f"{name!r} is no flag of train{hint}")
        action = flags[name]
        if action.nargs == 0:
            raise Refused("--grid", f"--{name} takes no values, so give it for all runs")
        if action in axes:
            raise Refused("--grid", f"has --{name} twice")
        if action in given:
            own = action.option_strings[0]
            raise Refused(own, "has a value of its own and one in --grid")
        axes[action] = _values(axis, values)
    if not axes:
        raise Refused("--grid", "takes NAME=VALUES between blanks, not nothing")
    plans = []
    for values in product(*axes.values()):
        named = zip(axes, values, strict=True)
        point = [f"{action.option_strings[0]}={value}" for action, value in named]
        fixed, unknown = parser.parse_known_args([*rest, *point])
        if unknown:
            raise Refused(unknown[0], f"is no flag of sweep{alike(unknown[0], parser)}")
        try:
            plans.append(plan_of(fixed))
            if not options.scheduler:  # whose workers have memory of their own
                within(of_run(plans[-1]))
        except Refused as error:
            raise Refused(error.flag, f"{error.line}, with {' '.join(point)}") from None
    return plans


def _values(axis: str, values: str) -> list[str]:
    if ":" in values:
        try:
            numbers = range(*(int(part) for part in values.split(":")))
        except (TypeError, ValueError):
            raise Refused(
                "--grid", f"a range is FIRST:END or FIRST:END:STEP, not {axis!r}"
            ) from None
        if not numbers:
            raise Refused("--grid", f"{axis!r} is an empty range")
        if numbers[-1] - numbers[0] > MOST_VALUES * abs(numbers.step):
            raise Refused("--grid", f"a range takes at most {MOST_VALUES:,} values, not {axis!r}")
        return [str(number) for number in numbers]
    listed = values.split(",")
    if "" in listed:
        raise Refused("--grid", f"{axis!r} lacks a value")
    twice = [value for value in listed if listed.count(value) > 1]
    if twice:
        raise Refused("--grid", f"{axis!r} has {twice[0]} twice")
    return listed
