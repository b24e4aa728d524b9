"""The flags of each command, those of the published code and its older names included, and the task and
model that they say. Nothing here loads what a run takes."""

import argparse
from collections.abc import Callable

from iclcore import checks
from iclcore.cli.parser import (
    COUNT,
    POSITIVE,
    SEED,
    SHARE,
    SIZE,
    Parser,
    flag,
    folder,
    listed,
    writable,
)
from iclcore.models import CubicMLP, MergedAttention, Model, SeparateAttention
from iclcore.task import SPECTRA, RegressionTask


def problem(parser: Parser) -> None:
    """The flags that name a task and a model."""
    add = parser.add_argument
    add("--model", choices=("attnM", "attnS", "mlp"), default="attnM",
        help="merged, separate, MLP(z); train also takes multihead")  # fmt: skip
    add("--heads", "--head_num", "--head", type=COUNT, default=1, help="heads")
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


def training(parser: Parser) -> None:
    """The flags of ``train`` for all models but multihead."""
    problem(parser)
    add = parser.add_argument
    add("--icl", type=SHARE, default=1.0, help="share of sequences with a task vector of their own")
    add("--trainset_size", type=COUNT, default=5000, help="training sequences")
    add("--testset_size", "--testset", type=SIZE, default=0, help="sequences of each test set")
    add("--track_value", action="store_true", help="record each head's value weight")
    add("--engine", default="auto",
        help="moments, autograd or published; auto: the fast one that gives the published curve")  # fmt: skip
    saving(parser, seed=10)


def multihead(parser: Parser) -> None:
    """The flags of ``train --model multihead``."""
    add = parser.add_argument
    add("--model", choices=("multihead",), help="multi-head softmax attention on several tasks")
    add("--tasks", type=COUNT, help="number I of tasks (3)")
    add("--heads", "--head_num", "--head", type=COUNT, help="heads H (one a task)")
    add("--dims", type=listed(COUNT), default=[10], metavar="d,d,…",
        help="inputs of a task: one number for all (10) or one each")  # fmt: skip
    add("--in_dim", type=COUNT, help="all inputs, only to check: the sum of --dims")
    add("--seq_len", type=flag(checks.whole, int, 3), default=101,
        help="tokens, the query included: L + 1 (101)")  # fmt: skip
    add("--noise", type=flag(checks.least, float, 0), default=0.0, help="variance of labels' noise")
    add("--signal", type=listed(POSITIVE), metavar="s,s,…",
        help="power of the noiseless label: one number or one a task (its d)")  # fmt: skip
    add("--start", choices=("aligned", "random"), default="aligned",
        help="head i leans to task i, or log-normal")  # fmt: skip
    add("--width", type=COUNT, help="rows d_e of key and query (all inputs)")
    add("--batch", type=COUNT, default=256, help="fresh contexts a step")
    add("--epoch", type=COUNT,
        help="steps, with --lr (without both: 1,600 at rates .02, .01, .004)")  # fmt: skip
    add("--lr", type=POSITIVE, help="learning rate, with --epoch")
    add("--engine", choices=("full", "spectral"), default="full",
        help="all matrices, or only ω and μ")  # fmt: skip
    add("--track_value", action="store_true", help="record ω and μ of each head and task")
    saving(parser, seed=0)


def saving(parser: Parser, seed: int) -> None:
    """The flags of every run: its seed, what to record and where to."""
    add = parser.add_argument
    add("--seed", type=SEED, default=seed, help="same seed, same curve")
    add("--save", type=writable, metavar="F.csv",
        help="the curve, a row a step; F.npz: weights too")  # fmt: skip
    add("--json", type=writable, metavar="F.json", help="settings, versions, seconds, final loss")
    add("--show", action="store_true", help="open a window, or save a picture where there is none")


def sweep(parser: Parser) -> None:
    add = parser.add_argument
    add("--grid", required=True, metavar='"rank=1,2,4 seed=0:6"',
        help="flags with their values: a list, or a range without its end")  # fmt: skip
    add("--out", required=True, type=folder, metavar="FOLDER",
        help="a file a run, table.csv, table.parquet, figure.png; what it has is not done again")  # fmt: skip
    add("--jobs", type=COUNT, help="runs at a time on this machine (its cores)")
    add("--scheduler", metavar="tcp://HOST:PORT", help="a Dask scheduler whose workers do the runs")
    parser.set_defaults(rest=[])


def theory(parser: Parser) -> None:
    problem(parser)
    parser.add_argument("--save", type=writable, metavar="F.csv", help="a file, not the terminal")


def task_and_model(options: argparse.Namespace, refuse: Callable) -> tuple[RegressionTask, Model]:
    """What the flags of ``problem`` say; those that contradict one another are refused."""
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
        "heads": options.heads,
        "init": options.init,
        "divisor": "tokens" if options.vary_len else "one",
    }
    if mlp:
        return task, CubicMLP(**shared)
    if options.model == "attnM":
        return task, MergedAttention(**shared, softmax=options.softmax)
    return task, SeparateAttention(**shared, rank=options.rank, softmax=options.softmax)
