"""``train``: the run that the flags say, on the published draw."""

import argparse
import math
import sys
from functools import cache

from iclcore.cli import chosen, model_of, optimizer_of, task_of
from iclcore.cli.memory import memory, of_run, of_shapes, within
from iclcore.cli.parser import Refused
from iclcore.cli.report import check_files, drawing, report
from iclcore.files import read_arrays
from iclcore.interrupts import noted
from iclcore.optimisers import PLAIN
from iclcore.sweep.plan import Plan, carry_out, prepare
from iclcore.task import Sequences

# flags of a published draw, by what they are in Python; arrays of one's own have all these by themselves
DRAW = {
    "dim": "--in_dim",
    "context": "--seq_len",
    "outputs": "--out_dim",
    "spectrum": "--spectrum",
    "in_context": "--icl",
    "sequences": "--trainset_size",
    "tests": "--testset_size",
}


def run(options: argparse.Namespace) -> int:
    plan = plan_of(options)
    check_files(options)
    within(of_run(plan))
    limit = None
    if not plan.own and plan.optimizer == PLAIN:
        from iclcore.stability import hopeless_rate  # with all of theory

        limit = hopeless_rate(plan.data, plan.model)
    if limit and plan.lr > limit:
        unit = 10.0 ** (math.floor(math.log10(limit)) - 1)
        most = math.floor(limit / unit) * unit  # rounded down: what is offered must be taken
        raise Refused(
            "--lr", f"takes at most {most:g} with this model and task; {plan.lr:g} diverges"
        )
    picture = drawing(options)
    starts = prepare([plan])
    with noted():  # a second Ctrl-C must not cost what the first one kept
        history = carry_out(starts, plan.name)
        if history.past_edge is not None:
            other = "; --engine published goes on as the authors' code does" * bool(plan.sequences)
            print(
                f"from step {history.past_edge} learning rate × sharpness exceeds 2, and rounding "
                f"decides how the run goes on{other * (history.engine != 'published')}",
                file=sys.stderr,
            )
    return report(history, options, lambda: picture.run(history))


def plan_of(options: argparse.Namespace) -> Plan:
    """A run as a sweep takes it."""
    model = model_of(options)
    if model.softmax and options.engine == "auto":
        from numba import config

        if config.DISABLE_JIT:
            raise Refused("--softmax", "takes compiled code, but NUMBA_DISABLE_JIT is set")
    data = own_data(options) if options.data else task_of(options)
    names = ("sequences", "tests", "steps", "lr", "seed", "values", "engine")
    own = chosen(options, *names)
    if own.get("sequences") == math.inf:
        own["sequences"] = None
    else:
        within(of_shapes(data, model))  # of which a run makes a table
    try:
        return Plan(data, model, optimizer=optimizer_of(options), **own)
    except ValueError as error:
        name, _, takes = str(error).partition(" ")
        raise Refused(DRAW.get(name, f"--{name}"), takes) from None


def own_data(options: argparse.Namespace) -> Sequences:
    """The arrays of ``--data``."""
    for name, flag in DRAW.items():
        if getattr(options, name) is not None:
            raise Refused(flag, "goes without --data, which has sequences of its own")
    try:
        return _sequences(options.data, options.every_length)
    except (OSError, ValueError) as error:
        why = f"{options.data}: {error.strerror}" if isinstance(error, OSError) else error
        raise Refused("--data", f"takes an npz file with arrays x and y: {why}") from None


@cache  # by all runs of a sweep
def _sequences(path: str, every_length: bool) -> Sequences:
    arrays = read_arrays(path, memory() // 3)  # as read, as arrays, as floats
    if missing := {"x", "y"} - arrays.keys():
        raise ValueError(f"{path} has no {min(missing)}")
    data = Sequences(arrays["x"], arrays["y"], every_length=every_length)
    if not data.finite:
        raise ValueError(f"{path} has a number that is not finite")
    return data
