"""``iclcore train``: the published flags; ``sweep``: a grid over them; ``theory``: their formulas.

Flags are read in ``parser``; here is what they say: a task, a model, an optimiser. A refusal takes no
longer than reading them: what a command does, and what that loads, is in a module of its own.

Exit status 2: a line says which flag was wrong, before any work. 3: the loss stopped being finite.
130, 143 and 129: interrupted, by Ctrl-C, SIGTERM and SIGHUP. From 3 on what was recorded is kept.
"""

import argparse
import sys
from importlib import import_module

from iclcore.cli.parser import Parser, Refused, alike, attempt, build_parser, train_flags
from iclcore.models import CubicMLP, MergedAttention, Model, SeparateAttention
from iclcore.optimisers import Adam, GradientDescent, Optimizer
from iclcore.task import RegressionTask


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
    return attempt(lambda: import_module(f"iclcore.cli.{options.room}").run(options), parser, kept)


def chosen(options: argparse.Namespace, *names: str) -> dict:
    """Those that have a value; the others keep what they are by default."""
    given = {name: getattr(options, name, None) for name in names}
    return {name: value for name, value in given.items() if value is not None}


def task_of(options: argparse.Namespace) -> RegressionTask:
    names = ("dim", "context", "outputs", "spectrum", "in_context", "every_length")
    return RegressionTask(**chosen(options, *names))


def optimizer_of(options: argparse.Namespace) -> Optimizer:
    if options.optimizer == "adam":
        if options.momentum is not None:
            raise Refused("--momentum", "goes with --optimizer sgd, not adam, which has its own")
        return Adam(**chosen(options, "weight_decay"))
    return GradientDescent(**chosen(options, "momentum", "weight_decay"))


def model_of(options: argparse.Namespace) -> Model:
    """Flags that contradict one another are refused."""
    mlp = options.model == "mlp"
    if mlp and not options.cubic_feat:
        raise Refused("--model", "mlp takes cubic features, so give --cubic_feat with it")
    if options.cubic_feat and not mlp:
        raise Refused("--cubic_feat", f"goes with --model mlp, not {options.model}")
    for name, given in {"vary_len": options.every_length, "softmax": options.softmax}.items():
        if mlp and given:
            raise Refused(f"--{name}", "takes --model attnM or attnS, not mlp")
    if options.rank > 1 and options.model != "attnS":
        raise Refused("--rank", f"goes with --model attnS, not {options.model}")
    shared = {"heads": options.heads, "init": options.init}
    shared["divisor"] = "tokens" if options.every_length else "one"
    if mlp:
        return CubicMLP(**shared)
    if options.model == "attnM":
        return MergedAttention(**shared, softmax=options.softmax)
    return SeparateAttention(**shared, rank=options.rank, softmax=options.softmax)
