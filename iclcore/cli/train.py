"""``train``: the run that the flags say, on the published draw."""

import argparse
import math
import sys
from collections.abc import Callable

from iclcore.cli import DRAW, chosen, model_of, task_of
from iclcore.cli.memory import of_run, of_shapes, within
from iclcore.cli.report import check_files, drawing, report
from iclcore.interrupts import noted
from iclcore.stability import hopeless_rate
from iclcore.sweep.plan import Plan, carry_out, prepare


def run(options: argparse.Namespace, refuse: Callable) -> int:
    plan = plan_of(options, refuse)
    check_files(options, refuse)
    within(of_run(plan), refuse)
    limit = hopeless_rate(plan.task, plan.model)
    if limit and plan.lr > limit:
        unit = 10.0 ** (math.floor(math.log10(limit)) - 1)
        most = math.floor(limit / unit) * unit  # rounded down: what is offered must be taken
        refuse(
            f"argument --lr: takes at most {most:g} with this model and task; {plan.lr:g} diverges"
        )
    picture = drawing(options)
    starts = prepare([plan])
    with noted():  # a second Ctrl-C must not cost what the first one kept
        history = carry_out(starts, plan)
        if history.past_edge is not None:
            other = "; --engine published goes on as the authors' code does" * bool(plan.sequences)
            print(
                f"from step {history.past_edge} learning rate × sharpness exceeds 2, and rounding "
                f"decides how the run goes on{other * (history.engine != 'published')}",
                file=sys.stderr,
            )
    return report(history, options, picture and picture.run)


def plan_of(options: argparse.Namespace, refuse: Callable) -> Plan:
    """A run as a sweep takes it."""
    model = model_of(options, refuse)
    if model.softmax and options.engine == "auto":
        from numba import config

        if config.DISABLE_JIT:
            refuse("argument --softmax: takes compiled code, but NUMBA_DISABLE_JIT is set")
    task = task_of(options)
    names = ("sequences", "tests", "steps", "lr", "seed", "values", "engine")
    own = chosen(options, *names)
    if own.get("sequences") == math.inf:
        own["sequences"] = None
    else:
        within(of_shapes(task, model), refuse)  # of which a run makes a table
    try:
        return Plan(task, model, **own)
    except ValueError as error:
        name, _, takes = str(error).partition(" ")
        refuse(f"argument {DRAW.get(name, f'--{name}')}: {takes}")
