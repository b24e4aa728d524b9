"""``python -m iclcore train --model multihead``: the second paper's model, by its own flags."""

import argparse
import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from iclcore import checks, multihead, spectral
from iclcore.cli_common import COUNT, POSITIVE, Parser, check_files, flag, report, saving_flags
from iclcore.cli_sizes import needs_of_multihead, within
from iclcore.history import History
from iclcore.theory import icl_risk
from iclcore.theory.multihead import MultiTask, aligned_start, limit

ENGINES = {"full": multihead.train_full, "spectral": spectral.train_spectral}
STARTS = ("aligned", "random")


def listed(kind: Callable) -> Callable:
    """An argparse type: numbers of ``kind`` between commas."""

    def parse(text: str) -> list:
        return [kind(part) for part in text.split(",")]

    return parse


def training_flags(parser: Parser) -> None:
    add = parser.add_argument
    add("--model", choices=("multihead",), help="multi-head softmax attention on several tasks")
    add("--tasks", type=COUNT, help="number I of tasks (3)")
    add("--head_num", "--head", type=COUNT, help="heads H (one a task)")
    add("--dims", type=listed(COUNT), default=[10], metavar="d,d,…",
        help="inputs of a task: one number for all (10) or one each")  # fmt: skip
    add("--in_dim", type=COUNT, help="all inputs, only to check: the sum of --dims")
    add("--seq_len", type=flag(checks.whole, int, 3), default=101,
        help="tokens, the query included: L + 1 (101)")  # fmt: skip
    add("--noise", type=flag(checks.least, float, 0), default=0.0, help="variance of labels' noise")
    add("--signal", type=listed(POSITIVE), metavar="s,s,…",
        help="power of the noiseless label: one number or one a task (its d)")  # fmt: skip
    add("--start", choices=STARTS, default="aligned", help="head i leans to task i, or log-normal")
    add("--width", type=COUNT, help="rows d_e of key and query (all inputs)")
    add("--batch", type=COUNT, default=256, help="fresh contexts a step")
    add(
        "--epoch", type=COUNT, help="steps, with --lr (without both: 1,600 at rates .02, .01, .004)"
    )
    add("--lr", type=POSITIVE, help="learning rate, with --epoch")
    add("--engine", choices=tuple(ENGINES), default="full", help="all matrices, or only ω and μ")
    add("--track_value", action="store_true", help="record ω and μ of each head and task")
    saving_flags(parser, seed=0)
    parser.set_defaults(run=run_train)


def problem(options: argparse.Namespace, refuse: Callable) -> MultiTask:
    """The task of the flags; flags that contradict one another are refused."""
    dims = options.dims
    tasks = options.tasks or (len(dims) if len(dims) > 1 else 3)
    for name, given in (("dims", dims), ("signal", options.signal or [1])):
        if len(given) not in (1, tasks):
            refuse(f"argument --{name}: takes one number or {tasks}, one a task, not {len(given)}")
    inputs = dims[0] * tasks if len(dims) == 1 else sum(dims)
    within(needs_of_multihead(options, tasks, inputs), refuse)
    dims = dims * tasks if len(dims) == 1 else dims
    if options.in_dim not in (None, sum(dims)):
        refuse(f"argument --in_dim: takes {sum(dims)}, the sum of --dims, not {options.in_dim}")
    if options.width is not None and options.width < sum(dims):
        refuse(f"argument --width: takes at least {sum(dims)}, all inputs, not {options.width}")
    if (options.lr is None) != (options.epoch is None):
        given, wanted = ("--lr", "--epoch") if options.epoch is None else ("--epoch", "--lr")
        refuse(f"argument {given}: goes with {wanted}; without both the rates are .02, .01, .004")
    return MultiTask(dims, options.seq_len - 1, options.signal, options.noise)


def run_train(options: argparse.Namespace, refuse: Callable) -> int:
    task = problem(options, refuse)
    check_files(options, refuse)
    heads = options.head_num or task.tasks
    if options.start == "aligned":
        start = aligned_start(task, heads)
    else:
        start = spectral.random_start(task, heads, np.random.default_rng(options.seed))
    schedule = spectral.FIGURE_1
    if options.lr is not None:
        until = options.epoch * options.lr
        if not math.isfinite(until):
            refuse(
                f"argument --lr: takes less: {options.epoch} steps of it leave what a float holds"
            )
        schedule = ((until, options.lr),)
    history = ENGINES[options.engine](
        task, *start, schedule, batch=options.batch, width=options.width, seed=options.seed
    )
    say_owners(history, task)

    def draw():
        from iclcore import picture

        return picture.multihead_run(history, task)

    kept = history.series
    if not options.track_value:
        kept = {name: kept[name] for name in ("loss", "time")}
    return report(replace(history, series=kept), options, draw)


def say_owners(history: History, task: MultiTask) -> None:
    """Which head does most of each task, and the loss beside the limit's."""
    if history.ended == "diverged":
        return
    omega, mu = (a[-1] for a in spectral.spectra(history))
    owner = (omega * mu).argmax(0)
    last = history.loss[-200:]
    print(", ".join(f"task {i + 1}: head {h + 1}" for i, h in enumerate(owner)), end="; ")
    print(f"mean of the last {len(last)} batch losses {last.mean():.3f}", end="")
    if len(set(owner.tolist())) == task.tasks:
        exact = icl_risk.exact_loss(task, *(a.diagonal() for a in limit(task))).sum()
        print(f", limit of one head a task {exact:.3f}", end="")
    print()
