"""The command ``sweep``, which trains a grid of runs on this machine or on a Dask cluster."""

import argparse
import math
import sys
import time
from collections.abc import Sequence
from itertools import product

import numpy as np

from iclcore.checks import BadValue
from iclcore.cli.flags import Parser, train_flags, unknown_flag
from iclcore.cli.report import save_picture
from iclcore.cli.train import plan_of
from iclcore.extras import MissingExtra
from iclcore.sweep import ClusterLost, Plan, found, sweep
from iclcore.sweep_plan import MOST_PLANS


def run(options: argparse.Namespace) -> int:
    if options.jobs is not None and options.scheduler:
        raise BadValue("jobs", "cannot be used with --scheduler, which has workers of its own")
    clock = time.perf_counter()
    plans = plans_of(options)
    if options.dry_run:
        count = found(plans, options.out).reused
        print(f"{len(plans)} runs, {count} of them found in {options.out}; nothing was done")
        return 0
    try:
        swept = sweep(plans, options.out, jobs=options.jobs, scheduler=options.scheduler)
    except ClusterLost as error:
        print(error, file=sys.stderr)
        return 3
    picture = options.out / "figure.png"
    try:
        from iclcore.cli import plots
    except MissingExtra as error:
        print(f"no figure.png, which {error}", file=sys.stderr)
        picture.unlink(missing_ok=True)  # an old picture would show an earlier sweep
    else:
        save_picture(plots.swept(swept), picture)
    counts = {how: len(swept.ended(how)) for how in ("finished", "diverged", "failed")}
    ends = ", ".join(f"{count} {how}" for how, count in counts.items() if count)
    print(f"{len(plans)} runs, {swept.reused} of them found in {options.out}: {ends}")
    seconds = time.perf_counter() - clock
    print(f"{options.out / 'table.csv'} has a row for each; {seconds:.3g} s")
    return 0 if counts["finished"] == len(plans) else 3


def plans_of(options: argparse.Namespace) -> list[Plan]:
    """Return the plans of the grid. This checks all plans before the first run."""
    parser = Parser(prog="iclcore sweep", add_help=False)
    train_flags(parser)
    axes: dict[argparse.Action, Sequence] = {}
    for axis in options.grid.split():
        name, _, values = axis.partition("=")
        action = parser._option_string_actions.get(f"--{name}")
        if action is None and values:
            parser.error(unknown_flag(f"--{name}", parser))
        if action is None or not values:
            raise BadValue("grid", f"takes FLAG=VALUES separated by spaces, not {axis!r}")
        if action.nargs == 0:
            raise BadValue("grid", f"cannot vary --{name}, which has no value: make two sweeps")
        fixed = {word.split("=")[0] for word in options.rest}
        if action in axes or fixed & set(action.option_strings):
            raise BadValue("grid", f"varies --{name}, which is also given elsewhere")
        axes[action] = axis_values(values)
    runs = math.prod(len(values) for values in axes.values())
    if not 1 <= runs <= MOST_PLANS:
        raise BadValue("grid", f"takes from 1 to {MOST_PLANS:,} runs, not {runs:,}")
    plans = []
    for values in product(*axes.values()):
        point = [f"{a.option_strings[0]}={v}" for a, v in zip(axes, values, strict=True)]
        flags, unknown = parser.parse_known_args([*options.rest, *point])
        if unknown:
            if not unknown[0].startswith("-"):  # as in --grid rank=1,2 seed=0:4
                raise BadValue("grid", f"needs quotes around all of it; {unknown[0]!r} is outside")
            parser.error(unknown_flag(unknown[0], parser))
        try:
            plans.append(plan_of(flags))
        except BadValue as error:
            raise BadValue(error.name, f"{error.takes}, in the run {' '.join(point)}") from None
    return plans


def axis_values(text: str) -> Sequence:
    """Return the values of one axis: a list, a range FIRST:END or FIRST:END:STEP, or log:FIRST:LAST:COUNT.

    The values of a logarithmic range have equal ratios, except that the values between FIRST and LAST are
    rounded to six digits.
    """
    if ":" not in text:
        return text.split(",")
    kind, *parts = text.split(":")
    try:
        if kind == "log":
            first, last, count = parts
            if not 2 <= int(count) <= MOST_PLANS or not 0 < float(first) * float(last) < np.inf:
                raise ValueError
            between = np.geomspace(float(first), float(last), int(count))[1:-1]
            return [first, *(f"{number:.6g}" for number in between), last]
        numbers = range(*map(int, (kind, *parts)))
        len(numbers)  # raises OverflowError if there are too many
        return numbers
    except (TypeError, ValueError, OverflowError):
        takes = "a range of whole numbers FIRST:END or FIRST:END:STEP, or log:FIRST:LAST:COUNT"
        raise BadValue("grid", f"takes {takes}, not {text!r}") from None
