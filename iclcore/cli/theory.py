"""``theory``: the formulas for the same flags."""

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import asdict, replace

import numpy as np

from iclcore.cli import model_of, task_of
from iclcore.cli.parser import Refused
from iclcore.files import write_whole
from iclcore.models import CubicMLP, Model, SeparateAttention
from iclcore.task import RegressionTask

POINTS, ROWS = 201, 250_000  # of a table; rows take about ten seconds


def run(options: argparse.Namespace) -> int:
    """Tidy rows: quantity, index (number of components or eigenvector), step, value.

    ``plateau_loss``: the levels on which the model's loss waits. ``merged_loss``, of merged heads and of
    the MLP on white input: its course. ``head_value``, of separate heads of rank one that answer with one
    output: the scalar ODE of one that learns eigenvector ``index`` alone.
    """
    model, task = model_of(options), task_of(options)
    if options.softmax:
        raise Refused("--softmax", "has no closed form; leave it out")
    if sys.stdout is None and not options.save:
        raise Refused("--save", "takes a file, for standard output is closed")
    steps = np.unique([i * (options.steps - 1) // (POINTS - 1) for i in range(POINTS)])
    most = ROWS // max(len(steps), len(task.lengths))
    if task.dim > most and len(steps) >= len(task.lengths):
        raise Refused("--in_dim", f"takes at most {most} here, not {task.dim}")
    if task.dim > most:
        raise Refused("--seq_len", f"takes less with --vary_len, not {task.context + 1}")

    if isinstance(model, SeparateAttention) and task.dim * task.outputs > ROWS:
        raise Refused("--out_dim", f"takes at most {ROWS // task.dim} here, not {task.outputs}")

    from iclcore import theory

    lines = [f"# {json.dumps({'task': asdict(task), type(model).__name__: asdict(model)})}"]
    lines.append("quantity,index,step,value")
    lines += [f"plateau_loss,{m:g},,{float(x)!r}" for m, x in levels(model, task)]
    time = options.lr * steps
    try:
        if task.spectrum == "white" and not isinstance(model, SeparateAttention):
            c0 = options.heads * (options.init * options.init) / 2  # its mean over starts
            # the MLP's z has the last label alone, and the loss is the mean over all
            answered = replace(task, outputs=1) if isinstance(model, CubicMLP) else task
            slower = task.outputs / answered.outputs
            course = theory.white_course(answered, c0, time / slower, model.divisor)
            course = task.label_power - (task.label_power - course) / slower
            lines += [f"merged_loss,,{t},{float(x)!r}" for t, x in zip(steps, course, strict=True)]
        ode = isinstance(model, SeparateAttention) and model.rank == task.outputs == 1
        limits = theory.head_limit(task, model.divisor)[: model.heads if ode else 0]
        for d, limit in enumerate(limits, start=1):
            if options.init < limit:
                s = theory.head_course(task, d, time, options.init, model.divisor)
                lines += [f"head_value,{d},{t},{float(x)!r}" for t, x in zip(steps, s, strict=True)]
    except ValueError as error:  # a start too small or too large to compute with
        raise Refused(
            "--init", f"takes a start that floats can follow, not {options.init:g}: {error}"
        ) from None
    text = "\n".join(lines) + "\n"
    if options.save:
        write_whole(options.save, lambda file: file.write(text.encode()))
    else:
        sys.stdout.write(text)
    return 0


def levels(model: Model, task: RegressionTask) -> Iterator[tuple[float, float]]:
    """How many eigenvectors are learned, the mean over outputs, and the loss there, while starts are small.

    Merged heads and the MLP learn all at once, the MLP of the last output only: the others are not in z.
    A separate head learns as many as its rank: each for all outputs, or for one by its key's label column.
    """
    from iclcore.theory import plateau_losses

    if isinstance(model, SeparateAttention):
        losses, parts = plateau_losses(task), task.outputs
        end = min(task.dim, model.heads * model.rank)
        for m in range(end * parts + 1):
            whole, part = divmod(m, parts)
            gain = losses[whole] - losses[whole + 1] if part else 0
            yield m / parts, losses[whole] - gain * part / parts
    else:
        first, *_, last = plateau_losses(task)
        share = 1 / task.outputs if isinstance(model, CubicMLP) else 1
        yield 0, first
        yield share * task.dim, first - share * (first - last)
