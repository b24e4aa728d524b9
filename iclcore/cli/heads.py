"""``train --model multihead``: the second paper's model, by its own flags."""

import argparse
from collections import Counter
from dataclasses import replace

import numpy as np

from iclcore.cli.memory import largest, within
from iclcore.cli.parser import Refused
from iclcore.cli.report import check_files, drawing, report
from iclcore.heads import full_model, spectral
from iclcore.heads.theory import MultiTask, aligned_start, limit
from iclcore.history import History


def problem(options: argparse.Namespace) -> MultiTask:
    """The task of the flags; flags that contradict one another are refused."""
    dims = options.dims
    tasks = options.tasks or (len(dims) if len(dims) > 1 else 3)
    for name, given in (("dims", dims), ("signal", options.signal or [1])):
        if len(given) not in (1, tasks):
            raise Refused(f"--{name}", f"takes one number or {tasks}, one a task, not {len(given)}")
    inputs = dims[0] * tasks if len(dims) == 1 else sum(dims)
    if options.start == "published":
        as_published(options, tasks)
    within(of_run(options, tasks, inputs))
    dims = dims * tasks if len(dims) == 1 else dims
    if options.dim not in (None, sum(dims)):
        raise Refused("--in_dim", f"takes {sum(dims)}, the sum of --dims, not {options.dim}")
    if options.width is not None and options.width < sum(dims):
        raise Refused("--width", f"takes at least {sum(dims)}, all inputs, not {options.width}")
    if (options.lr is None) != (options.steps is None):
        given, wanted = ("--lr", "--epoch") if options.steps is None else ("--epoch", "--lr")
        raise Refused(given, f"goes with {wanted}; without both the rates are .02, .01, .004")
    return MultiTask(dims, options.context, options.signal, options.noise)


def as_published(options: argparse.Namespace, tasks: int) -> None:
    """What the published start does not draw is refused."""
    takes = {
        "dims": (len(set(options.dims)) == 1, "one size for all tasks"),
        "heads": (options.heads in (None, tasks), f"{tasks}, one a task,"),
        "signal": (options.signal is None, "no value, s = d,"),
        "width": (options.width is None, "no value, d_e is all inputs and labels,"),
        "engine": (options.engine == "full", "full"),
    }
    for name, (drawn, what) in takes.items():
        if not drawn:
            raise Refused(f"--{name}", f"takes {what} with --start published")


def run(options: argparse.Namespace) -> int:
    task = problem(options)
    check_files(options)
    heads = options.heads or task.tasks
    schedule = spectral.FIGURE_1
    if options.lr is not None:
        schedule = ((options.steps * options.lr, options.lr),)
    picture = drawing(options, options.engine == "full")
    settings = {"batch": options.batch, "seed": options.seed}
    if options.start == "published":
        history = full_model.train_published(task, schedule, **settings)
    else:
        if options.start == "aligned":
            start = aligned_start(task, heads)
        else:
            start = spectral.random_start(task, heads, np.random.default_rng(options.seed))
        train = full_model.train_full if options.engine == "full" else spectral.train_spectral
        history = train(task, *start, schedule, width=options.width, **settings)
    say_owners(history, task)

    kept = history
    if not options.values:
        kept = replace(history, series={name: history.series[name] for name in ("loss", "time")})
    return report(kept, options, lambda: picture.multihead_run(history, task))


def say_owners(history: History, task: MultiTask) -> None:
    """Which head does most of each task, and the loss beside the limit's."""
    if history.ended == "diverged":
        return
    omega, mu = (a[-1] for a in spectral.spectra(history))
    owner = (omega * mu).argmax(0)
    last = history.loss[-200:]
    said = ", ".join(f"task {i + 1}: head {h + 1}" for i, h in enumerate(owner))
    said += f"; last {len(last)} batch losses ({history.settings['loss']}) {last.mean():.3f}"
    if len(set(owner.tolist())) == task.tasks:
        from iclcore.heads import risk

        exact = risk.exact_loss(task, *(a.diagonal() for a in limit(task))).sum()
        exact *= spectral.share(history)
        said += f", limit of one head a task {exact:.3f}"
    print(said)


def of_run(options: argparse.Namespace, tasks: int, inputs: int) -> Counter[str]:
    """What a run holds in memory, as ``memory.of_run`` says for the other models."""
    published = options.start == "published"
    heads, width = options.heads or tasks, options.width or inputs + tasks * published
    size, context, batch = inputs + tasks, options.context, options.batch
    steps = options.steps or len(spectral.learning_rates(spectral.FIGURE_1))
    shape = {"--tasks": tasks, "--heads": heads, "--dims": inputs // tasks}
    held = 1000 * tasks + 100 * heads * tasks
    if options.engine == "spectral":  # spectral.CHUNK sequences at a time
        seen = 8 * min(batch, spectral.CHUNK) * (context * (2 * tasks + 4 * heads) + 3 * heads**2)
        seen += 16 * heads * tasks * (batch // spectral.CHUNK)
    else:
        held += 16 * heads * (2 * width * size + tasks * (size + tasks)) + 8 * inputs * tasks
        seen = (10 if published else 6) * batch * size * context
        seen += 16 * heads * batch * (context + size) + 4 * batch * inputs * tasks
        held += 8 * batch * heads * width
    found = Counter()
    found[largest(shape | {"--epoch": steps})] += steps * (48 * heads * tasks + 1500)
    found[largest(shape | {"--width": options.width or 0})] += held
    found[largest(shape | {"--batch": batch, "--seq_len": context})] += seen
    return found
