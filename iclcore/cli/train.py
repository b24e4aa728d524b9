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
from iclcore.models import feature_count
from iclcore.optimisers import PLAIN
from iclcore.sweep.plan import Plan, carry_out, prepare
from iclcore.task import Sequences
from iclcore.trainer import BY_TORCH

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
SECONDS = 2e10  # multiply-adds of a run that a dozen of are tried in seconds


def run(options: argparse.Namespace) -> int:
    plan = plan_of(options)
    check_files(options)
    within(of_run(plan))
    limit = None
    if not plan.own and plan.optimizer == PLAIN:
        from iclcore.stability import hopeless_rate  # with all of theory

        limit = hopeless_rate(plan.data, plan.model)
    if limit and plan.lr > limit:
        raise Refused(
            "--lr",
            f"takes at most {offered(limit)} with this model and task; {plan.lr:g} diverges",
        )
    picture = drawing(options, plan.kind in BY_TORCH or not (plan.own or plan.count is None))
    try:
        starts = prepare([plan])
    except ValueError as error:  # numbers whose averages are none
        raise flagged(error) from None
    with noted():  # a second Ctrl-C must not cost what the first one kept
        history = carry_out(starts, plan.name)
        if history.past_edge is not None:
            other = "; --engine published goes on as the authors' code does" * bool(plan.sequences)
            if plan.own:
                other = "; without --lr one is offered at which it does not"
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
        plan = Plan(data, model, optimizer=optimizer_of(options), **own)
        if plan.own and options.lr is None and plan.optimizer == PLAIN:
            raise Refused("--lr", f"is needed with --data{suited(plan)}")
    except ValueError as error:
        raise flagged(error) from None
    return plan


def flagged(error: ValueError) -> Refused:
    """What Python says of a parameter, said of its flag."""
    name, _, takes = str(error).partition(" ")
    return Refused(DRAW.get(name, f"--{name}"), takes)


def suited(plan: Plan) -> str:
    """What is said of a rate that suits arrays of one's own: which, where that is a matter of seconds."""
    data, model = plan.data, plan.model
    if model.linear:
        a_step = feature_count(model, data.dim, data.outputs) ** 2
    else:
        a_step = len(data) * data.x.shape[1] * model.heads
    if a_step * plan.steps > SECONDS:
        return "; with a smaller --epoch one is offered here"
    from iclcore.edge import calm_rate  # a refusal of other flags need not wait for it

    rate = offered(calm_rate(model, data, plan.steps, plan.seed))
    return f"; {rate} keeps a run of this --epoch below the edge of stability"


def offered(rate: float) -> str:
    """With two digits, and rounded down: what is offered must be taken."""
    unit = 10.0 ** (math.floor(math.log10(rate)) - 1)
    return f"{math.floor(rate / unit) * unit:g}"


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
        raise ValueError(f"{path} has no {min(missing)}, but {', '.join(arrays) or 'nothing'}")
    data = Sequences(arrays["x"], arrays["y"], every_length=every_length)
    if not data.finite:
        raise ValueError(f"{path} has a number that is not finite")
    return data
