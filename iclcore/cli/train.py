"""The command ``train``, which trains one model on a published draw or on the user's own arrays."""

import argparse
import math
import sys
import warnings
from dataclasses import replace
from functools import cache
from pathlib import Path

from iclcore.checks import BadValue
from iclcore.cli.advice import next_drop
from iclcore.cli.flags import TASK_FLAGS, given, model_of, optimizer_of, task_of
from iclcore.cli.like import like
from iclcore.cli.report import check_outputs, picture_path, report, show
from iclcore.files import read_npz
from iclcore.history import History
from iclcore.moments import features
from iclcore.optimisers import PLAIN
from iclcore.sweep_plan import Plan, carry_out
from iclcore.task import Sequences
from iclcore.trainer import delayed_interrupt

# A run with more multiplications takes minutes, so its learning rate is not searched for by trial runs.
AFFORDABLE = 2e10


def run(options: argparse.Namespace) -> int:
    if options.like:
        options = like(options)
    plan = plan_of(options)
    check_outputs(options)
    with delayed_interrupt(), warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # the lines below name flags instead
        history = carry_out(plan)
        say_rise(history, options)
        status = report(history, options)
        if line := next_drop(plan, history):
            print(line)
    if options.show:
        from iclcore.cli import plots

        show(plots.run(history), picture_path(options))
    return status


def plan_of(options: argparse.Namespace) -> Plan:
    """Return the plan of the run that the flags describe."""
    values = given(options, "sequences", "tests", "steps", "lr", "seed", "values", "engine")
    if values.get("sequences") == math.inf:
        values["sequences"] = None
    if options.test and not options.data:
        raise BadValue("test", "is only for --data; --testset_size draws test sets of a task")
    data = own_data(options) if options.data else task_of(options)
    plan = Plan(data, model_of(options), optimizer=optimizer_of(options), **values)
    if options.data and options.lr is None and plan.optimizer == PLAIN:
        raise BadValue("lr", f"is needed with --data; {offer(plan)}")
    return plan


def own_data(options: argparse.Namespace) -> Sequences:
    """Return the sequences in the files of --data and --test. Refuse flags that describe a task."""
    for name in given(options, *TASK_FLAGS):
        raise BadValue(name, "cannot be used with --data, which has its own sequences")
    return read_data(options.data, options.test, options.every_length)


@cache  # the runs of a sweep share one copy
def read_data(path: str, test: str | None, every_length: bool) -> Sequences:
    """Return the sequences in the file ``path``. Those in the file ``test`` are held out."""
    data = read_sequences("data", path, every_length)
    if test is None:
        return data
    held_out = read_sequences("test", test, every_length)
    if (held_out.dim, held_out.outputs) != (data.dim, data.outputs):
        sizes = f"D = {data.dim} and O = {data.outputs}, as in --data"
        takes = f"takes arrays with {sizes}, not {held_out.dim} and {held_out.outputs}"
        raise BadValue("test", takes)
    return replace(data, tests={"held_out": held_out})


def read_sequences(flag: str, path: str, every_length: bool) -> Sequences:
    """Return the sequences in the npz file that the flag names."""
    try:
        arrays = read_npz(path)
        return Sequences(arrays["x"], arrays["y"], every_length=every_length, name=Path(path).name)
    except KeyError as error:
        reason = f"{path} has no {error}"
    except (OSError, ValueError) as error:
        reason = str(error)
    raise BadValue(flag, f"takes an npz file with arrays x and y: {reason}")


def offer(plan: Plan) -> str:
    """Return a text that suggests a learning rate for the user's own arrays, if the search takes seconds."""
    data, model = plan.data, plan.model
    step = data.x.size * model.heads
    if model.linear:
        step = features(model, data.dim, data.outputs).size ** 2
    if step * plan.steps > AFFORDABLE:
        return "with a smaller --epoch, this message suggests a rate"
    from iclcore.stability import monotone_rate

    rate = monotone_rate(model, data, plan.steps, plan.seed)
    return f"with --lr {rate:g}, the loss never rises in this many steps"


def say_rise(history: History, options: argparse.Namespace) -> None:
    """Print a warning if the loss rose. With small steps of gradient descent it never rises."""
    if history.first_rise is not None and history.ended != "diverged":
        line = f"the loss rises at step {history.first_rise}: the learning rate is too large for "
        line += "this run to follow gradient flow"
        if not options.data and options.sequences != math.inf and history.engine != "published":
            line += "; --engine published repeats the authors' run, in minutes and with PyTorch"
        print(line, file=sys.stderr)
