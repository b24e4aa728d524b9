"""``iclcore train``: the published flags; ``sweep``: a grid over them; ``theory``: their formulas.

Here are the flags of each command, those of the published code and its older names included, each kept
under the name that it has in Python, and the task and model that they say. A refusal takes no longer than
reading them: what a command does, and what that loads, is in a module of its own.

Exit status 2: a line says which flag was wrong, before any work. 3: the loss stopped being finite.
130, 143 and 129: interrupted, by Ctrl-C, SIGTERM and SIGHUP. From 3 on what was recorded is kept.
"""

import argparse
import sys
from collections.abc import Callable
from importlib import import_module

from iclcore import __version__
from iclcore.cli.parser import (
    COUNT,
    DECAY,
    MANY,
    NOISE,
    POSITIVE,
    RATE,
    SEED,
    SHARE,
    SIZE,
    Parser,
    alike,
    attempt,
    context,
    ending,
    folder,
    listed,
    writable,
)
from iclcore.models import CubicMLP, MergedAttention, Model, SeparateAttention
from iclcore.optimisers import Adam, GradientDescent, Optimizer
from iclcore.task import SPECTRA, RegressionTask

DESCRIPTION = "The published experiments on in-context learning, their sweeps and formulas."
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


def build_parser(multihead: bool = False) -> Parser:
    """Each command names the module whose ``run`` does it."""
    parser = Parser(prog="iclcore", description=DESCRIPTION)
    parser.add_argument("--version", action="version", version=f"iclcore {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="train|sweep|theory")
    train = commands.add_parser(
        "train",
        help="the published experiment, exactly and fast",
        epilog="--model multihead has flags of its own: --model multihead --help lists them.",
    )
    (multihead_flags if multihead else train_flags)(train)
    saving_flags(train)
    train.set_defaults(parser=train, room="multihead" if multihead else "train")
    sweep = commands.add_parser(
        "sweep",
        help="many runs: every combination of a grid over the flags of train",
        epilog="All other flags are those of train (train --help) and hold for every run.",
    )
    sweep_flags(sweep)
    sweep.set_defaults(parser=sweep, room="sweep", rest=[])
    theory = commands.add_parser(
        "theory",
        help="plateau losses, time course, scalar ODE as CSV",
        epilog="plateau_loss: of every model, with index eigenvectors learned. merged_loss: attnM and mlp on "
        "white input. head_value: attnS of rank 1 with one output, learning eigenvector index alone.",
    )
    problem_flags(theory)
    theory.add_argument(
        "--save", type=ending(".csv"), metavar="F.csv", help="a file, not the terminal"
    )
    theory.set_defaults(parser=theory, room="theory", lr=0.001)
    return parser


def main(argv: list[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    for word in argv:  # of which argparse would make an empty list
        if word.startswith("-") and word.endswith("=--"):
            Parser(prog=f"iclcore {argv[0]}").error(f"argument {word[:-3]}: takes a value, not --")
    model = Parser(add_help=False)  # the flag that says which flags there are
    model.add_argument("--model", nargs="?")
    multihead = argv[:1] == ["train"] and model.parse_known_args(argv)[0].model == "multihead"
    options, unknown = build_parser(multihead).parse_known_args(argv)
    parser, sweep = options.parser, options.command == "sweep"
    if sweep:
        options.rest = unknown  # flags of train
    elif unknown:
        command = options.command + " --model multihead" * multihead
        train = Parser(add_help=False)
        train_flags(train)
        hint = alike(unknown[0], parser, train if options.command == "theory" else None)
        parser.error(f"argument {unknown[0]}: is no flag of {command}{hint}")
    kept = f"finished runs are kept in {options.out}" if sweep else "nothing is written"
    return attempt(
        lambda: import_module(f"iclcore.cli.{options.room}").run(options, parser.error),
        parser,
        kept,
    )


def problem_flags(parser: Parser) -> None:
    """The flags that name a task and a model."""
    add = parser.add_argument
    add("--model", choices=("attnM", "attnS", "mlp"), default="attnM",
        help="merged (default), separate, MLP(z); train also takes multihead")  # fmt: skip
    add("--heads", "--head_num", "--head", type=COUNT, default=1, help="heads (1)")
    add("--rank", "--KQ_dim", type=COUNT, default=1, help="rank of key and query, of attnS (1)")
    add("--init", type=POSITIVE, default=0.01, help="scale of the initial weights (0.01)")
    add("--in_dim", dest="dim", type=COUNT, help="dimension D of x (4)")
    add("--out_dim", dest="outputs", type=COUNT, help="dimension of y (1)")
    add("--seq_len", dest="context", type=context(2), metavar="T",
        help="tokens, the query included (32)")  # fmt: skip
    one = parser.add_mutually_exclusive_group().add_argument
    one("--spectrum", choices=SPECTRA, help="eigenvalues: ∝ d (default), ∝ 1/d, all equal")
    one("--white_cov", dest="spectrum", action="store_const", const="white",
        help="the same as --spectrum white")  # fmt: skip
    add(
        "--vary_len", dest="every_length", action="store_true", help="mean over all context lengths"
    )
    add("--epoch", dest="steps", type=COUNT, default=6001, help="steps (6001)")
    add("--lr", type=RATE, help="learning rate (0.001)")
    add("--softmax", action="store_true", help="softmax of the scores")
    add("--cubic_feat", action="store_true", help="cubic features z, which mlp takes")


def train_flags(parser: Parser) -> None:
    """The flags of a run, which a sweep takes too, of all models but multihead."""
    problem_flags(parser)
    add = parser.add_argument
    add("--data", metavar="F.npz",
        help="train on arrays of your own: x (P, T, D), y (P, T) or (P, T, O), the query last; "
        "without --lr a line says which rate they take")  # fmt: skip
    add("--icl", dest="in_context", type=SHARE,
        help="share of sequences with a task vector of their own (1)")  # fmt: skip
    add("--trainset_size", dest="sequences", type=MANY,
        help="training sequences (5000); inf: all there are, without a draw")  # fmt: skip
    add("--testset_size", "--testset", dest="tests", type=SIZE,
        help="sequences of each test set (0)")  # fmt: skip
    add("--track_value", dest="values", action="store_true", help="record each head's value weight")
    add("--optimizer", choices=("sgd", "adam"), default="sgd",
        help="gradient descent (default), or Adam with torch's defaults")  # fmt: skip
    add("--momentum", type=SHARE, help="as torch.optim.SGD has it (0)")
    add("--weight_decay", type=DECAY, help="as torch.optim has it: added to the gradient (0)")
    add("--engine", default="auto",
        help="moments, population (of inf), autograd or published; auto: the fast one that gives the "
        "published curve")  # fmt: skip
    add("--seed", type=SEED, default=10, help="same seed, same curve (10)")


def multihead_flags(parser: Parser) -> None:
    """The flags of a run of multihead."""
    add = parser.add_argument
    add("--model", choices=("multihead",), help="multi-head softmax attention on several tasks")
    add("--tasks", type=COUNT, help="number I of tasks (3)")
    add("--heads", "--head_num", "--head", type=COUNT, help="heads H (one a task)")
    add("--dims", type=listed(COUNT), default=[10], metavar="d,d,…",
        help="inputs of a task: one number for all (10) or one each")  # fmt: skip
    add("--in_dim", dest="dim", type=COUNT, help="all inputs, only to check: the sum of --dims")
    add("--seq_len", dest="context", type=context(3), default=100, metavar="T",
        help="tokens, the query included: L + 1 (101)")  # fmt: skip
    add("--noise", type=NOISE, default=0.0, help="variance of labels' noise (0)")
    add("--signal", type=listed(POSITIVE), metavar="s,s,…",
        help="power of the noiseless label: one number or one a task (its d)")  # fmt: skip
    add("--start", choices=("aligned", "random", "published"), default="aligned",
        help="head i leans to task i; log-normal; or the authors' start, draws and loss, "
        "the mean over tasks, not their sum")  # fmt: skip
    add("--width", type=COUNT, help="rows d_e of key and query (all inputs)")
    add("--batch", type=COUNT, default=256, help="fresh contexts a step (256)")
    add("--epoch", dest="steps", type=COUNT,
        help="steps, with --lr (without both: 1,600 at rates .02, .01, .004)")  # fmt: skip
    add("--lr", type=RATE, help="learning rate, with --epoch")
    add("--engine", choices=("full", "spectral"), default="full",
        help="all matrices, or only ω and μ")  # fmt: skip
    add("--track_value", dest="values", action="store_true",
        help="record ω and μ of each head and task")  # fmt: skip
    add("--seed", type=SEED, default=0, help="same seed, same curve (0)")


def saving_flags(parser: Parser) -> None:
    add = parser.add_argument
    add("--save", type=ending(".csv", ".npz"), metavar="F.csv",
        help="the curve, a row a step; F.npz: weights too")  # fmt: skip
    add("--json", type=writable, metavar="F.json", help="settings, versions, seconds, final loss")
    add("--show", action="store_true", help="open a window, or save a picture where there is none")


def sweep_flags(parser: Parser) -> None:
    add = parser.add_argument
    add("--grid", required=True, metavar='"rank=1,2,4 seed=0:6"',
        help="flags with their values: a list, or a range without its end")  # fmt: skip
    add("--out", required=True, type=folder, metavar="FOLDER",
        help="a file a run, table.csv, table.parquet, figure.png; what it has is not done again")  # fmt: skip
    add("--jobs", type=COUNT, help="runs at a time on this machine (its cores)")
    add("--scheduler", metavar="tcp://HOST:PORT", help="a Dask scheduler whose workers do the runs")


def chosen(options: argparse.Namespace, *names: str) -> dict:
    """Those that have a value; the others keep what they are by default."""
    given = {name: getattr(options, name, None) for name in names}
    return {name: value for name, value in given.items() if value is not None}


def task_of(options: argparse.Namespace) -> RegressionTask:
    names = ("dim", "context", "outputs", "spectrum", "in_context", "every_length")
    return RegressionTask(**chosen(options, *names))


def optimizer_of(options: argparse.Namespace, refuse: Callable) -> Optimizer:
    if options.optimizer == "adam":
        if options.momentum is not None:
            refuse("argument --momentum: goes with --optimizer sgd, not adam, which has its own")
        return Adam(**chosen(options, "weight_decay"))
    return GradientDescent(**chosen(options, "momentum", "weight_decay"))


def model_of(options: argparse.Namespace, refuse: Callable) -> Model:
    """Flags that contradict one another are refused."""
    mlp = options.model == "mlp"
    if mlp and not options.cubic_feat:
        refuse("argument --model: mlp takes cubic features, so give --cubic_feat with it")
    if options.cubic_feat and not mlp:
        refuse(f"argument --cubic_feat: goes with --model mlp, not {options.model}")
    for name, given in {"vary_len": options.every_length, "softmax": options.softmax}.items():
        if mlp and given:
            refuse(f"argument --{name}: takes --model attnM or attnS, not mlp")
    if options.rank > 1 and options.model != "attnS":
        refuse(f"argument --rank: goes with --model attnS, not {options.model}")
    shared = {
        "heads": options.heads,
        "init": options.init,
        "divisor": "tokens" if options.every_length else "one",
    }
    if mlp:
        return CubicMLP(**shared)
    if options.model == "attnM":
        return MergedAttention(**shared, softmax=options.softmax)
    return SeparateAttention(**shared, rank=options.rank, softmax=options.softmax)
