"""The flags of each command and their meaning in Python. Their names are those of the published code."""

import argparse
import difflib
import math
import tempfile
from collections.abc import Callable
from pathlib import Path

from iclcore import __version__
from iclcore.checks import BadValue
from iclcore.models import CubicMLP, MergedAttention, Model, SeparateAttention
from iclcore.optimisers import Adam, GradientDescent, Optimizer
from iclcore.task import SPECTRA, RegressionTask

# Parameters whose flag has another name. The classes that take the values check them.
FLAGS = {
    "dim": "--in_dim",
    "context": "--seq_len",
    "outputs": "--out_dim",
    "in_context": "--icl",
    "sequences": "--trainset_size",
    "tests": "--testset_size",
    "steps": "--epoch",
    "every_length": "--vary_len",
    "values": "--track_value",
    "plans": "--grid",
}

# Parameters of a task (the first five) and of the sequences that are drawn from it (the last two).
TASK_FLAGS = ("dim", "context", "outputs", "spectrum", "in_context", "sequences", "tests")


class Parser(argparse.ArgumentParser):
    """A parser that prints each error on one line and accepts no abbreviated flags."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs, allow_abbrev=False)
        self.register("action", None, OneName)

    def error(self, message: str):
        self.exit(2, f"{self.prog}: {' '.join(message.split())}\n")


class OneName(argparse.Action):
    """Store the value of a flag. Refuse the flag if it is given under two of its names."""

    def __call__(self, parser, namespace, values, option_string=None):
        used = vars(namespace).setdefault("used", {}).setdefault(self.dest, option_string)
        if used != option_string:
            raise argparse.ArgumentError(self, f"{used} and {option_string} are the same flag")
        setattr(namespace, self.dest, values)


def flag_of(name: str) -> str:
    """Return the flag of a parameter."""
    return FLAGS.get(name, f"--{name}")


def read(argv: list[str]) -> argparse.Namespace:
    """Return the flags, the ``parser`` of the command, and the name of the ``module`` that carries it out.

    If ``argv`` is empty, the help is shown.
    """
    argv = argv or ["--help"]
    words = " ".join(argv).replace("=", " ")
    multihead = words.startswith("train ") and "--model multihead" in words
    options, unknown = build_parser(multihead).parse_known_args(argv)
    if options.command == "sweep":
        options.rest = unknown  # flags of train
    elif unknown:
        options.parser.error(unknown_flag(unknown[0], options.parser))
    options.words = argv[1:]
    return options


def unknown_flag(unknown: str, parser: Parser) -> str:
    """Return the message about a flag that ``parser`` does not have. It suggests the most similar flag."""
    flags = parser._option_string_actions
    known = {"learning_rate": "--lr"} | FLAGS  # FLAGS has the names in Python
    known = {name: flag for name, flag in known.items() if flag in flags}
    known |= {flag.lstrip("-"): flag for flag in flags}
    close = difflib.get_close_matches(unknown.split("=")[0].strip("-").replace("-", "_"), known, 1)
    hint = f"did you mean {known[close[0]]}?" if close else "--help lists the flags"
    return f"argument {unknown}: is not a flag of this command; {hint}"


# -- what flags mean ------------------------------------------------------------------------------


def given(options: argparse.Namespace, *names: str) -> dict:
    """Return the flags of these names that have a value. The other parameters keep Python's defaults."""
    values = {name: getattr(options, name, None) for name in names}
    return {name: value for name, value in values.items() if value is not None}


def task_of(options: argparse.Namespace) -> RegressionTask:
    names = ("dim", "context", "outputs", "spectrum", "in_context", "every_length")
    return RegressionTask(**given(options, *names))


def optimizer_of(options: argparse.Namespace) -> Optimizer:
    if options.optimizer == "adam":
        if options.momentum:
            raise BadValue("momentum", "is only for --optimizer sgd; adam has momentum of its own")
        return Adam(**given(options, "weight_decay"))
    return GradientDescent(**given(options, "momentum", "weight_decay"))


def model_of(options: argparse.Namespace) -> Model:
    """Return the model. Refuse flags that contradict each other."""
    mlp = options.model == "mlp"
    if mlp != options.cubic_feat or (mlp and (options.softmax or options.every_length)):
        raise BadValue("model", "takes mlp with --cubic_feat, without --softmax and --vary_len")
    if options.rank != 1 and options.model != "attnS":
        raise BadValue("rank", f"is only for --model attnS, not {options.model}")
    shared = given(options, "heads", "init")
    shared["divisor"] = "tokens" if options.every_length else "one"
    if mlp:
        return CubicMLP(**shared)
    if options.model == "attnM":
        return MergedAttention(**shared, softmax=options.softmax)
    return SeparateAttention(**shared, rank=options.rank, softmax=options.softmax)


def check_output(name: str, path: Path, force: bool, *suffixes: str) -> None:
    """Refuse a path that cannot be written to. Without --force, also refuse a file that exists."""
    if suffixes and path.suffix not in suffixes:
        ends = " or ".join(suffixes)
        raise BadValue(name, f"takes a file that ends in {ends}, not {str(path)!r}")
    try:
        tempfile.TemporaryFile(dir=path.parent).close()
        unusable = path.exists() and not path.is_file()
    except OSError:
        unusable = True
    if unusable:
        raise BadValue(name, f"takes a file in a writable folder, not {str(path)!r}")
    if path.exists() and not force:
        raise BadValue(name, f"would overwrite {str(path)!r}; --force allows it")


# -- the flags of each command --------------------------------------------------------------------


def build_parser(multihead: bool = False) -> Parser:
    """Return the parser of all commands. ``train --model multihead`` has flags of its own."""
    # Each example must fit into one line of the help, because argparse would wrap it.
    example = "example: iclcore train --model attnS --heads 5 --epoch 10001 --lr 0.02"
    text = "Train linear attention on in-context regression, and compare it with theory."
    parser = Parser(prog="iclcore", description=text, epilog=example)
    parser.add_argument("--version", action="version", version=f"iclcore {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="train|sweep|theory")

    text = "--model multihead has flags of its own: --model multihead --help lists them."
    if multihead:
        text, example = "", "example: iclcore train --model multihead --lr 0.02 --epoch 200"
    line = "train one model, as in the published code"
    train = commands.add_parser("train", help=line, description=text, epilog=example)
    (multihead_flags if multihead else train_flags)(train)
    add = train.add_argument
    if not multihead:
        add("--like", metavar="F", help="take all other flags from the saved run F.csv or F.npz")
    add("--save", type=Path, metavar="F.csv", help="save the loss at each step; npz: also weights")
    add("--json", type=Path, metavar="F.json", help="save settings, versions, times, final loss")
    add("--show", action="store_true", help="show a picture, or save it if there is no display")
    add("--force", action="store_true", help="overwrite files that exist")
    train.set_defaults(parser=train, module="heads" if multihead else "train")

    text = "All other flags are those of train (see train --help) and apply to every run."
    example = 'example: iclcore sweep --grid "rank=1,2 seed=0:4" --model attnS --out runs'
    line = "train a run for each point of a grid of flags"
    sweep = commands.add_parser("sweep", help=line, description=text, epilog=example)
    add = sweep.add_argument
    line = "values of flags: lists or ranges, heads=1,2 or seed=0:6 or lr=log:1e-3:1e-1:5"
    add("--grid", required=True, metavar='"rank=1,2 seed=0:6"', help=line)
    add("--out", required=True, type=Path, metavar="FOLDER", help="folder for runs, table, figure")
    add("--jobs", type=int, help="number of runs at a time (number of cores)")
    add("--scheduler", metavar="tcp://HOST:PORT", help="train on the workers of a Dask scheduler")
    add("--dry-run", action="store_true", help="only count all runs and those already in FOLDER")
    sweep.set_defaults(parser=sweep, module="sweep")

    text = "Rows: plateau_loss is the loss with index eigenvectors learned; merged_loss is the "
    text += "loss of attnM and mlp on white input; head_value is the value weight of a head of "
    text += "attnS with rank 1 that learns eigenvector index."
    example = "example: iclcore theory --model attnS --heads 4 --epoch 10001 --lr 0.02"
    line = "print what theory predicts for these flags, as CSV"
    theory = commands.add_parser("theory", help=line, description=text, epilog=example)
    problem_flags(theory)
    add = theory.add_argument
    add("--save", type=Path, metavar="F.csv", help="save the CSV in a file instead of printing it")
    add("--force", action="store_true", help="overwrite a file that exists")
    theory.set_defaults(parser=theory, module="theory", lr=0.001)
    return parser


def problem_flags(parser: Parser) -> None:
    """Add the flags that describe a task and a model."""
    add = parser.add_argument
    add("--model", choices=("attnM", "attnS", "mlp"), default="attnM", help="the model (attnM)")
    add("--heads", "--head_num", "--head", type=int, default=1, help="number of heads (1)")
    add("--rank", "--KQ_dim", type=int, default=1, help="rank of key and query, only for attnS (1)")
    add("--init", type=float, default=0.01, help="scale of the initial weights (0.01)")
    add("--in_dim", dest="dim", type=int, help="dimension D of x (4)")
    add("--out_dim", dest="outputs", type=int, help="dimension of y (1)")
    add("--seq_len", dest="context", type=context(2), metavar="T", help="tokens, with query (32)")
    one = parser.add_mutually_exclusive_group().add_argument
    one("--spectrum", choices=SPECTRA, help="eigenvalues: linear (default), as 1/d, or equal")
    one("--white_cov", dest="spectrum", action="store_const", const="white", help="white spectrum")
    add("--vary_len", dest="every_length", action="store_true", help="average over context lengths")
    add("--epoch", dest="steps", type=int, default=6001, help="number of steps (6001)")
    add("--lr", type=float, help="learning rate (0.001)")
    add("--softmax", action="store_true", help="take the softmax of the scores")
    add("--cubic_feat", action="store_true", help="use cubic features z; mlp needs this flag")


def train_flags(parser: Parser) -> None:
    """Add the flags of a run, for all models except multihead; ``sweep`` takes the same flags."""
    problem_flags(parser)
    add = parser.add_argument
    add("--data", metavar="F.npz", help="your own arrays: x (P, T, D), y (P, T) or (P, T, O)")
    add("--test", metavar="F.npz", help="held-out arrays; test_held_out is the error on them")
    add("--icl", dest="in_context", type=float, help="share of sequences with their own task (1)")
    add("--trainset_size", dest="sequences", type=sequence_count, help="sequences, or inf (5000)")
    add("--testset_size", "--testset", dest="tests", type=int, help="sequences per test set (0)")
    add("--track_value", dest="values", action="store_true", help="record each head's value weight")
    add("--optimizer", choices=("sgd", "adam"), default="sgd", help="the optimizer (sgd)")
    add("--momentum", type=float, help="as in torch.optim.SGD (0)")
    add("--weight_decay", type=float, help="as in torch.optim: added to the gradient (0)")
    add("--engine", default="auto", help="auto, published, moments, population, ... (auto)")
    add("--seed", type=int, default=10, help="seed of data and weights (10)")


def multihead_flags(parser: Parser) -> None:
    """Add the flags of ``train --model multihead``."""
    add = parser.add_argument
    add("--model", choices=("multihead",), help="multi-head softmax attention on several tasks")
    add("--tasks", type=int, help="number of tasks, I (3)")
    add("--heads", "--head_num", "--head", type=int, help="number of heads, H (one per task)")
    add("--dims", type=whole_numbers, default=[10], metavar="d,...", help="inputs per task (10)")
    add("--in_dim", dest="dim", type=int, help="must be the sum of --dims; only a check")
    add("--seq_len", dest="context", type=context(3), default=100, metavar="T", help="tokens (101)")
    add("--noise", type=float, default=0.0, help="variance of the labels' noise (0)")
    add("--signal", type=numbers, metavar="s,...", help="power of the noiseless labels (d each)")
    text = "aligned: head i prefers task i; random: log-normal; published: start, draws and loss "
    text += "(a mean over tasks) as in the authors' code"
    add("--start", choices=("aligned", "random", "published"), default="aligned", help=text)
    add("--width", type=int, help="rows of key and query, d_e (number of inputs)")
    add("--batch", type=int, default=256, help="fresh contexts at each step (256)")
    add("--epoch", dest="steps", type=int, help="number of steps, needs --lr (1,600, as figure 1)")
    add("--lr", type=float, help="learning rate, needs --epoch")
    add("--engine", choices=("full", "spectral"), default="full", help="the engine (full)")
    add("--track_value", dest="values", action="store_true", help="record omega and mu")
    add("--seed", type=int, default=0, help="seed of data and weights (0)")


def context(least: int) -> Callable[[str], int]:
    """Return an argparse type that turns a number of tokens into the context length (one less)."""

    def tokens(text: str) -> int:
        if int(text) < least:
            raise argparse.ArgumentTypeError(f"takes at least {least} tokens, not {text}")
        return int(text) - 1

    return tokens


def sequence_count(text: str) -> float:
    return math.inf if text == "inf" else int(text)


def whole_numbers(text: str) -> list[int]:
    return [int(part) for part in text.split(",")]


def numbers(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]
