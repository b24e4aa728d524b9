"""The command ``train --model multihead``, which trains the second paper's model."""

import argparse
from dataclasses import replace

import numpy as np

from iclcore.checks import BadValue, positive, whole
from iclcore.cli.flags import given
from iclcore.cli.report import check_outputs, picture_path, report, show
from iclcore.heads import full_model, spectral
from iclcore.heads.schedule import FIGURE_1, Schedule
from iclcore.heads.theory import MultiTask, aligned_start, limit
from iclcore.history import History


def run(options: argparse.Namespace) -> int:
    task, schedule = task_of(options), schedule_of(options)
    check_outputs(options)
    settings = {"batch": options.batch, "seed": options.seed}
    if options.start == "published":
        history = full_model.train_published(task, schedule, **settings)
    else:
        heads = task.tasks if options.heads is None else options.heads
        if options.start == "aligned":
            start = aligned_start(task, heads)
        else:
            start = spectral.random_start(task, heads, np.random.default_rng(options.seed))
        train = full_model.train_full if options.engine == "full" else spectral.train_spectral
        history = train(task, *start, schedule, width=options.width, **settings)
    if history.ended != "diverged":
        say_owners(history, task)
    saved = history
    if not options.values:
        saved = replace(history, series={name: history.series[name] for name in ("loss", "time")})
    status = report(saved, options)
    if options.show:
        from iclcore.cli import plots

        show(plots.multihead_run(history, task), picture_path(options))
    return status


def task_of(options: argparse.Namespace) -> MultiTask:
    """Return the task; flags that contradict each other are refused."""
    dims, tasks = options.dims, options.tasks
    if tasks is None:
        tasks = len(dims) if len(dims) > 1 else 3
    if len(dims) == 1:
        dims = dims * whole("tasks", tasks)
    if len(dims) != tasks:
        raise BadValue("dims", f"takes one number or {tasks}, one per task, not {len(dims)}")
    if options.start == "published":
        fixed = {"heads": tasks, "signal": None, "width": None, "engine": "full"}
        for name in given(options, *fixed):
            if getattr(options, name) != fixed[name]:
                raise BadValue(name, "takes its default with --start published")
    if options.dim not in (None, sum(dims)):
        raise BadValue("dim", f"takes {sum(dims)}, the sum of --dims, not {options.dim}")
    return MultiTask(dims, options.context, options.signal, options.noise)


def schedule_of(options: argparse.Namespace) -> Schedule:
    """Return the learning rates: one for all steps, or those of the paper's figure 1."""
    if options.lr is None and options.steps is None:
        return FIGURE_1
    if options.lr is None or options.steps is None:
        missing, other = ("lr", "--epoch") if options.lr is None else ("steps", "--lr")
        raise BadValue(
            missing, f"is needed with {other}; without both, the rates are .02, .01, .004"
        )
    lr = positive("lr", options.lr)
    return ((whole("steps", options.steps) * lr, lr),)


def say_owners(history: History, task: MultiTask) -> None:
    """Print which head contributes most to each task, the mean last loss, and the loss at the limit."""
    omega, mu = history.series["omega"][-1], history.series["mu"][-1]
    owner = (omega * mu).argmax(0)
    line = ", ".join(f"task {i + 1}: head {h + 1}" for i, h in enumerate(owner))
    last = history.loss[-200:]
    line += f"; last {len(last)} batch losses ({history.settings['loss']}) {last.mean():.3f}"
    if len(set(owner.tolist())) == task.tasks:
        from iclcore.heads import risk

        exact = risk.exact_loss(task, *(a.diagonal() for a in limit(task))).sum()
        line += f", limit of one head per task {exact * history.settings['loss_scale']:.3f}"
    print(line)
