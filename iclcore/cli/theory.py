"""``theory``: the formulas for the same flags."""

import argparse
import json
import sys
from collections.abc import Callable
from dataclasses import asdict

import numpy as np

from iclcore.cli import model_of, task_of
from iclcore.files import write_whole

POINTS, ROWS = 201, 250_000  # of a table; rows take about ten seconds


def run(options: argparse.Namespace, refuse: Callable) -> int:
    """Tidy rows: quantity, index (number of components or eigenvector), step, value."""
    model, task = model_of(options, refuse), task_of(options)
    if options.softmax:
        refuse("argument --softmax: has no closed form; leave it out")
    if sys.stdout is None and not options.save:
        refuse("argument --save: takes a file, for standard output is closed")
    steps = np.unique([i * (options.steps - 1) // (POINTS - 1) for i in range(POINTS)])
    most = ROWS // max(len(steps), len(task.lengths))
    if task.dim > most and len(steps) >= len(task.lengths):
        refuse(f"argument --in_dim: takes at most {most} here, not {task.dim}")
    if task.dim > most:
        refuse(f"argument --seq_len: takes less with --vary_len, not {task.context + 1}")

    from iclcore import theory

    lines = [f"# {json.dumps({'task': asdict(task), type(model).__name__: asdict(model)})}"]
    lines.append("quantity,index,step,value")
    lines += [f"plateau_loss,{m},,{x:.17g}" for m, x in enumerate(theory.plateau_losses(task))]
    with np.errstate(over="ignore"):  # the end of all time
        time = options.lr * steps
    try:
        if task.spectrum == "white":
            c0 = options.heads * (options.init * options.init) / 2  # its mean over starts
            course = theory.white_course(task, c0, time, model.divisor)
            if not np.isfinite(course[0]):
                raise ValueError("its loss leaves what a float holds")
            lines += [f"merged_loss,,{t},{x:.17g}" for t, x in zip(steps, course, strict=True)]
        for d, limit in enumerate(theory.head_limit(task, model.divisor), start=1):
            if options.init < limit:
                s = theory.head_course(task, d, time, options.init, model.divisor)
                lines += [f"head_value,{d},{t},{x:.17g}" for t, x in zip(steps, s, strict=True)]
    except ValueError as error:  # a start too small or too large to compute with
        refuse(
            f"argument --init: takes a start that floats can follow, not {options.init:g}: {error}"
        )
    text = "\n".join(lines) + "\n"
    if options.save:
        write_whole(options.save, lambda file: file.write(text.encode()))
    else:
        sys.stdout.write(text)
    return 0
