"""How flags are read: errors in one line, values checked, paths tried before any work. And the flags of each
command, those of the published code and its older names included, each kept under its name in Python."""

import argparse
import difflib
import math
import os
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from iclcore import __version__, checks
from iclcore.extras import MissingExtra
from iclcore.files import RUN_CSV, RUN_NPZ, beside, foreign, is_stream, target
from iclcore.task import SPECTRA


class Parser(argparse.ArgumentParser):
    """Errors are one line; flags are not to be abbreviated."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs, allow_abbrev=False)

    def error(self, message: str):
        self.exit(2, f"{self.prog}: {message}\n")


class Refused(Exception):
    """A flag that cannot be as it is given, in a line."""

    def __init__(self, flag: str, line: str):
        super().__init__(f"argument {flag}: {line}")
        self.flag, self.line = flag, line


def attempt(act: Callable[[], int], parser: Parser, kept: str = "nothing is written") -> int:
    """The exit status of what a command does; ``kept`` says what an interruption leaves."""
    try:
        return act()
    except (MissingExtra, Refused) as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        print(f"interrupted: {kept}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of a pipe left
        sys.stdout = None
        return 0
    except OSError as error:  # a full disk, no more processes: which, it says itself
        print(f"{parser.prog}: {error}", file=sys.stderr)
        sys.stdout = None
        return 1


def flag(check: Callable, kind: Callable, *limits) -> Callable:
    """An argparse type from a check; argparse puts the flag's name in front of what it says."""

    def parse(text: str):
        try:
            value = kind(text)
        except ValueError:
            value = text  # which the check refuses, saying what it takes
        try:
            return check("", value, *limits)
        except ValueError as error:
            raise argparse.ArgumentTypeError(str(error).strip()) from None

    return parse


COUNT, SIZE = flag(checks.whole, int), flag(checks.whole, int, 0)
SEED = flag(checks.seed, int)
POSITIVE, SHARE = flag(checks.positive, float), flag(checks.share, float)
NOISE = flag(checks.least, float, 0)
RATE = flag(checks.positive, float, checks.SINGLE)
DECAY = flag(checks.least, float, 0, checks.SINGLE)


def MANY(text: str) -> float:
    """An argparse type: a count, or inf."""
    return math.inf if text == "inf" else COUNT(text)


def context(least: int) -> Callable:
    """An argparse type: so many tokens, of which the last is the query and the others are the context."""
    tokens = flag(checks.whole, int, least)
    return lambda text: tokens(text) - 1


def listed(kind: Callable) -> Callable:
    """An argparse type: values of ``kind`` between commas."""

    def parse(text: str) -> list:
        return [kind(part) for part in text.split(",")]

    return parse


def writable(text: str, mark: bytes = b"") -> Path:
    """A path that a file can be written to, tried before any work; what is there is replaced if it has the
    ``mark`` of such a file."""
    path = Path(text)
    try:
        if path.is_dir() or path.is_socket() or (path.exists() and not os.access(path, os.W_OK)):
            raise OSError
        if not is_stream(path):
            with beside(target(path)):
                pass
        other = foreign(path, mark)
    except (OSError, ValueError):  # ValueError: a zero byte
        raise argparse.ArgumentTypeError(
            f"takes a file in a folder to write in, not {text!r}"
        ) from None
    if other:
        raise argparse.ArgumentTypeError(
            f"replaces only what such a command wrote, and {text!r} is something else: give another name"
        )
    return path


def ending(marks: dict[str, bytes]) -> Callable:
    """An argparse type: a path to write to, whose suffix says what is written; a device has any name."""

    def parse(text: str) -> Path:
        suffix = Path(text).suffix
        path = writable(text, marks.get(suffix, b""))
        if suffix not in marks and not is_stream(path):
            named = " or ".join(marks)
            raise argparse.ArgumentTypeError(f"takes a file that ends in {named}, not {text!r}")
        return path

    return parse


def spectrum(text: str) -> str:
    """An argparse type: the name of a law."""
    if text not in SPECTRA:
        raise argparse.ArgumentTypeError(
            f"takes one of {', '.join(SPECTRA)}, not {text!r}; in Python a RegressionTask takes eigenvalues "
            "or a covariance"
        )
    return text


def folder(text: str) -> Path:
    """A folder to write in, there or to be made."""
    path = Path(text)
    with suppress(OSError):  # a name that is too long, a file where a folder should be
        for each in (path, *path.absolute().parents):
            with suppress(FileNotFoundError):
                each.lstat()
                if each.is_dir() and os.access(each, os.W_OK):
                    return path
                break
    raise argparse.ArgumentTypeError(f"takes a folder to write in, not {text!r}")


def alike(unknown: str, parser: Parser, others: Parser | None = None) -> str:
    """The flag that was perhaps meant, whose it is among ``others``, or where all are listed."""
    if others and unknown.split("=")[0] in others._option_string_actions:
        return ", but one of train"
    known = {"learning_rate": "--lr"}  # and each flag's name in Python
    for name, action in parser._option_string_actions.items():
        known |= {action.dest: action.option_strings[0], name.lstrip("-"): name}
    word = unknown.split("=")[0].lstrip("-").replace("-", "_")
    close = difflib.get_close_matches(word, known, 1)
    return f"; did you mean {known[close[0]]}?" if close else "; --help lists them"


# -- the flags of each command --------------------------------------------------------------------

RECORD, FORMULAS = b'{\n  "settings": ', b'# {"task": '  # heads of --json, and of theory --save
DESCRIPTION = "Published runs, sweeps and formulas. The book's figures: python -m iclbook figure."


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
    add = train.add_argument
    add("--save", type=ending({".csv": RUN_CSV, ".npz": RUN_NPZ}), metavar="F.csv",
        help="the curve, a row a step; F.npz: weights too")  # fmt: skip
    add("--json", type=lambda text: writable(text, RECORD), metavar="F.json",
        help="settings, versions, seconds, final loss")  # fmt: skip
    add("--show", action="store_true", help="open a window, or save a picture where there is none")
    train.set_defaults(parser=train, room="heads" if multihead else "train")
    sweep = commands.add_parser(
        "sweep",
        help="many runs: every combination of a grid over the flags of train",
        epilog="All other flags are those of train (train --help) and hold for every run.",
    )
    add = sweep.add_argument
    add("--grid", required=True, metavar='"rank=1,2,4 seed=0:6"',
        help="flags with their values: a list, or a range without its end")  # fmt: skip
    add("--out", required=True, type=folder, metavar="FOLDER",
        help="a file a run, table.csv, table.parquet, figure.png; what it has is not done again")  # fmt: skip
    add("--jobs", type=COUNT, help="runs at a time on this machine (its cores)")
    add("--scheduler", metavar="tcp://HOST:PORT", help="a Dask scheduler whose workers do the runs")
    sweep.set_defaults(parser=sweep, room="sweep", rest=[])
    theory = commands.add_parser(
        "theory",
        help="plateau losses, time course, scalar ODE as CSV",
        epilog="plateau_loss: of every model, with index eigenvectors learned. merged_loss: attnM and mlp on "
        "white input. head_value: attnS of rank 1 with one output, learning eigenvector index alone.",
    )
    problem_flags(theory)
    theory.add_argument(
        "--save", type=ending({".csv": FORMULAS}), metavar="F.csv", help="a file, not the terminal"
    )
    theory.set_defaults(parser=theory, room="theory", lr=0.001)
    return parser


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
    one(
        "--spectrum",
        type=spectrum,
        metavar="|".join(SPECTRA),
        help="eigenvalues: ∝ d (default), ∝ 1/d, all equal",
    )
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
