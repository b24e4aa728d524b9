"""``python -m iclcore train``: the published flags; ``theory``: the formulas for the same flags.

Exit status 2: a line says which flag was wrong, before any work. 3: the loss stopped being finite.
130, 143 and 129: interrupted, by Ctrl-C, SIGTERM and SIGHUP. From 3 on what was recorded is kept.
"""

import argparse
import io
import json
import math
import sys
from collections.abc import Callable
from dataclasses import asdict

import numpy as np
from numba import config

from iclcore import checks, cli_multihead, cli_sweep, theory
from iclcore.cli_common import (
    COUNT,
    POSITIVE,
    SHARE,
    SIZE,
    Parser,
    alike,
    check_files,
    flag,
    report,
    saving_flags,
    writable,
)
from iclcore.cli_sizes import enough_memory, shapes, within
from iclcore.history import write_whole
from iclcore.interrupts import noted
from iclcore.models import CubicMLP, MergedAttention, Model, SeparateAttention
from iclcore.run import Run, carry_out, prepare
from iclcore.stability import hopeless_rate
from iclcore.task import SPECTRA, RegressionTask
from iclcore.trainer import ENGINES

DESCRIPTION = "The published experiments on in-context learning, their sweeps and formulas."
THEORY_POINTS, THEORY_ROWS = 201, 250_000  # of a table; rows take about ten seconds


def problem_flags(parser: Parser) -> None:
    """The flags that name a task and a model: those of the published code, older names included."""
    add = parser.add_argument
    add(
        "--model",
        choices=("attnM", "attnS", "mlp"),
        default="attnM",
        help="merged, separate, MLP(z); train also takes multihead",
    )
    add("--head_num", "--head", type=COUNT, default=1, help="heads")
    add("--rank", "--KQ_dim", type=COUNT, default=1, help="rank of key and query (attnS)")
    add("--init", type=POSITIVE, default=0.01, help="scale of the initial weights")
    add("--in_dim", type=COUNT, default=4, help="dimension D of x")
    add("--out_dim", type=COUNT, default=1, help="dimension of y")
    add("--seq_len", type=flag(checks.whole, int, 2), default=32, help="tokens, the query included")
    add("--spectrum", choices=SPECTRA, help="eigenvalues: ∝ d (default), ∝ 1/d, all equal")
    add("--white_cov", action="store_true", help="the same as --spectrum white")
    add("--vary_len", action="store_true", help="mean over all context lengths")
    add("--epoch", type=COUNT, default=6001, help="steps")
    add("--lr", type=POSITIVE, default=0.001, help="learning rate")
    add("--softmax", action="store_true", help="softmax of the scores")
    add("--cubic_feat", action="store_true", help="cubic features z, which mlp takes")


def training_flags(parser: Parser) -> None:
    """The flags of ``train`` for all models but multihead, which has its own."""
    problem_flags(parser)
    add = parser.add_argument
    add("--icl", type=SHARE, default=1.0, help="share of sequences with a task vector of their own")
    add("--trainset_size", type=COUNT, default=5000, help="training sequences")
    add("--testset_size", "--testset", type=SIZE, default=0, help="sequences of each test set")
    add("--track_value", action="store_true", help="record each head's value weight")
    add(
        "--engine",
        choices=ENGINES,
        default="auto",
        help="auto: the fast one that gives the published curve",
    )
    saving_flags(parser, seed=10)
    parser.set_defaults(run=run_train)


def build_parser(multihead: bool = False) -> Parser:
    parser = Parser(prog="python -m iclcore", description=DESCRIPTION)
    commands = parser.add_subparsers(dest="command", required=True, metavar="train|sweep|theory")

    run = commands.add_parser(
        "train",
        help="the published experiment, exactly and fast",
        epilog="--model multihead has flags of its own: --model multihead --help lists them.",
    )
    (cli_multihead.training_flags if multihead else training_flags)(run)

    cli_sweep.add_command(commands)

    formulas = commands.add_parser("theory", help="plateau losses, time course, scalar ODE as CSV")
    problem_flags(formulas)
    formulas.add_argument("--save", type=writable, metavar="F.csv", help="a file, not the terminal")
    formulas.set_defaults(run=run_theory)
    return parser


def main(argv: list[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    # a terminal without Greek letters shows a question mark
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")
    model = Parser(add_help=False)  # the flag that says which flags there are
    model.add_argument("--model", nargs="?")
    multihead = argv[:1] == ["train"] and model.parse_known_args(argv)[0].model == "multihead"
    parser = build_parser(multihead)
    options, unknown = parser.parse_known_args(argv)
    parser.prog = f"python -m iclcore {options.command}"
    if options.command == "sweep":
        options.rest = unknown  # flags of train
    elif unknown:
        command = options.command + " --model multihead" * multihead
        parser.error(f"argument {unknown[0]}: is no flag of {command}{alike(unknown[0], options)}")
    try:
        return options.run(options, parser.error)
    except KeyboardInterrupt:
        sweep = options.command == "sweep"
        kept = f"finished runs are kept in {options.out}" if sweep else "nothing is written"
        print(f"interrupted: {kept}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of a pipe left
        sys.stdout = None
        return 0
    except OSError as error:  # a full disk
        print(f"{parser.prog}: could not write: {error}", file=sys.stderr)
        sys.stdout = None
        return 1


def problem(options: argparse.Namespace, refuse: Callable) -> tuple[RegressionTask, Model]:
    """Task and model of the flags; flags that contradict one another are refused."""
    mlp = options.model == "mlp"
    if mlp and not options.cubic_feat:
        refuse("argument --model: mlp takes cubic features, so give --cubic_feat with it")
    if options.cubic_feat and not mlp:
        refuse(f"argument --cubic_feat: goes with --model mlp, not {options.model}")
    for name in ("vary_len", "softmax"):
        if mlp and getattr(options, name):
            refuse(f"argument --{name}: takes --model attnM or attnS, not mlp")
    if options.rank > 1 and options.model != "attnS":
        refuse(f"argument --rank: goes with --model attnS, not {options.model}")
    if options.white_cov and options.spectrum not in (None, "white"):
        refuse(f"argument --white_cov: contradicts --spectrum {options.spectrum}")
    task = RegressionTask(
        dim=options.in_dim,
        context=options.seq_len - 1,
        outputs=options.out_dim,
        spectrum="white" if options.white_cov else options.spectrum or "linear",
        in_context=getattr(options, "icl", 1.0),
        every_length=options.vary_len,
    )
    shared = {
        "heads": options.head_num,
        "init": options.init,
        "divisor": "tokens" if options.vary_len else "one",
    }
    if mlp:
        return task, CubicMLP(**shared)
    if options.model == "attnM":
        return task, MergedAttention(**shared, softmax=options.softmax)
    return task, SeparateAttention(**shared, rank=options.rank, softmax=options.softmax)


def run_of(
    options: argparse.Namespace, task: RegressionTask, model: Model, refuse: Callable
) -> Run:
    """The run that the flags of ``train`` say."""
    within(shapes(task, model), refuse)  # of which a run makes a table
    if model.softmax and config.DISABLE_JIT and options.engine == "auto":
        refuse("argument --softmax: takes compiled code, but NUMBA_DISABLE_JIT is set")
    try:
        return Run(
            task,
            model,
            sequences=options.trainset_size,
            tests=options.testset_size,
            steps=options.epoch,
            lr=options.lr,
            seed=options.seed,
            values=options.track_value,
            engine=options.engine,
        )
    except ValueError as error:
        name, _, takes = str(error).partition(" ")
        flag = {"sequences": "trainset_size", "tests": "testset_size"}.get(name, name)
        refuse(f"argument --{flag}: {takes}")


def run_train(options: argparse.Namespace, refuse: Callable) -> int:
    task, model = problem(options, refuse)
    check_files(options, refuse)
    run = run_of(options, task, model, refuse)
    enough_memory(run, refuse)
    limit = hopeless_rate(task, model)
    if limit and options.lr > limit:
        unit = 10.0 ** (math.floor(math.log10(limit)) - 1)
        most = math.floor(limit / unit) * unit  # rounded down: what is offered must be taken
        refuse(
            f"argument --lr: takes at most {most:g} with this model and task; "
            f"{options.lr:g} diverges"
        )
    starts = prepare([run])
    with noted():  # a second Ctrl-C must not cost what the first one kept
        history = carry_out(starts, run)
        if history.past_edge is not None:
            other = "; --engine published goes on as the authors' code does"
            print(
                f"from step {history.past_edge} learning rate × sharpness exceeds 2, and rounding "
                f"decides how the run goes on{other * (history.engine != 'published')}",
                file=sys.stderr,
            )

    def draw():
        from iclcore import picture

        return picture.run(history, task)

    return report(history, options, draw)


def run_theory(options: argparse.Namespace, refuse: Callable) -> int:
    """Tidy rows: quantity, index (number of components or eigenvector), step, value."""
    task, model = problem(options, refuse)
    if options.softmax:
        refuse("argument --softmax: has no closed form; leave it out")
    if sys.stdout is None and not options.save:
        refuse("argument --save: takes a file, for standard output is closed")
    steps = np.unique(
        [i * (options.epoch - 1) // (THEORY_POINTS - 1) for i in range(THEORY_POINTS)]
    )
    most = THEORY_ROWS // max(len(steps), len(task.lengths))
    if task.dim > most and len(steps) >= len(task.lengths):
        refuse(f"argument --in_dim: takes at most {most} here, not {task.dim}")
    if task.dim > most:
        refuse(f"argument --seq_len: takes less with --vary_len, not {options.seq_len}")
    lines = [f"# {json.dumps({'task': asdict(task), type(model).__name__: asdict(model)})}"]
    lines.append("quantity,index,step,value")
    lines += [f"plateau_loss,{m},,{x:.17g}" for m, x in enumerate(theory.plateau_losses(task))]
    with np.errstate(over="ignore"):  # the end of all time
        time = options.lr * steps
    try:
        if task.spectrum == "white":
            c0 = options.head_num * (options.init * options.init) / 2  # its mean over starts
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
