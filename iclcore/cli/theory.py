"""The command ``theory``: the values of the formulas for the flags of ``train``."""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace

import numpy as np

from iclcore.checks import BadValue, positive, whole
from iclcore.cli.flags import check_output, model_of, task_of
from iclcore.files import write_whole
from iclcore.models import CubicMLP, Model, SeparateAttention
from iclcore.task import RegressionTask

STEPS = 201  # the number of steps at which a time course is written


def run(options: argparse.Namespace) -> int:
    model, task = model_of(options), task_of(options)
    if options.softmax:
        raise BadValue("softmax", "has no closed form; leave it out")
    last = whole("steps", options.steps) - 1
    steps = np.unique([i * last // (STEPS - 1) for i in range(STEPS)])
    time = positive("lr", options.lr) * steps
    if options.save:
        check_output("save", options.save, options.force, ".csv")
    header = json.dumps({"task": asdict(task), type(model).__name__: asdict(model)})
    try:
        lines = [f"# {header}", "quantity,index,step,value", *rows(task, model, steps, time)]
    except ValueError as error:  # from a start too small or too large to compute with
        takes = f"takes a start that floats can follow, not {options.init:g}: {error}"
        raise BadValue("init", takes) from None
    text = "\n".join(lines) + "\n"
    if options.save:
        write_whole(options.save, lambda file: file.write(text.encode()))
    else:
        sys.stdout.write(text)
    return 0


def rows(task: RegressionTask, model: Model, steps: np.ndarray, time: np.ndarray) -> Iterator[str]:
    """Yield the rows of the table, each with a quantity, an index, a step and a value.

    - ``plateau_loss`` is the loss of a plateau. The index is the number of eigenvectors learned.
    - ``merged_loss`` is the time course of the loss, for merged heads and for the MLP on white input.
    - ``head_value`` is the time course of a value weight, for separate heads of rank one with one output. It
      solves the scalar ODE for a head that learns only one eigenvector, whose number is the index.
    """
    from iclcore import theory

    for number, loss in zip(*theory.plateau_levels(model, task), strict=True):
        yield f"plateau_loss,{number:g},,{float(loss)!r}"
    courses = []
    if task.spectrum == "white" and not isinstance(model, SeparateAttention):
        c0 = model.heads * (model.init * model.init) / 2  # the mean over random starts
        # the MLP learns the last label alone, and the loss is the mean over all labels
        learned = replace(task, outputs=1) if isinstance(model, CubicMLP) else task
        slower = task.outputs / learned.outputs
        course = theory.white_course(learned, c0, time / slower, model.divisor)
        course = task.label_power - (task.label_power - course) / slower
        courses.append(("merged_loss", "", course))
    if isinstance(model, SeparateAttention) and model.rank == task.outputs == 1:
        for d, limit in enumerate(theory.head_limit(task, model.divisor)[: model.heads], start=1):
            if model.init < limit:
                course = theory.head_course(task, d, time, model.init, model.divisor)
                courses.append(("head_value", d, course))
    for quantity, index, course in courses:
        for step, value in zip(steps, course, strict=True):
            yield f"{quantity},{index},{step},{float(value)!r}"
