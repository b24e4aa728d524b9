"""``iclcore train``: the published flags; ``sweep``: a grid over them; ``theory``: their formulas.

A refusal takes no longer than reading flags: what a command does, and what that loads, is in a module
of its own, imported when its flags are right.

Exit status 2: a line says which flag was wrong, before any work. 3: the loss stopped being finite.
130, 143 and 129: interrupted, by Ctrl-C, SIGTERM and SIGHUP. From 3 on what was recorded is kept.
"""

import sys
from importlib import import_module

from iclcore import __version__
from iclcore.cli import flags
from iclcore.cli.parser import Parser, alike, attempt

DESCRIPTION = "The published experiments on in-context learning, their sweeps and formulas."


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
    (flags.multihead if multihead else flags.training)(train)
    train.set_defaults(room="multihead" if multihead else "train")
    sweep = commands.add_parser(
        "sweep",
        help="many runs: every combination of a grid over the flags of train",
        epilog="All other flags are those of train (train --help) and hold for every run.",
    )
    flags.sweep(sweep)
    sweep.set_defaults(room="sweep")
    theory = commands.add_parser("theory", help="plateau losses, time course, scalar ODE as CSV")
    flags.theory(theory)
    theory.set_defaults(room="theory")
    return parser


def main(argv: list[str] | None = None) -> int:
    argv = sys.argv[1:] if argv is None else argv
    model = Parser(add_help=False)  # the flag that says which flags there are
    model.add_argument("--model", nargs="?")
    multihead = argv[:1] == ["train"] and model.parse_known_args(argv)[0].model == "multihead"
    parser = build_parser(multihead)
    options, unknown = parser.parse_known_args(argv)
    parser.prog = f"iclcore {options.command}"
    sweep = options.command == "sweep"
    if sweep:
        options.rest = unknown  # flags of train
    elif unknown:
        command = options.command + " --model multihead" * multihead
        parser.error(f"argument {unknown[0]}: is no flag of {command}{alike(unknown[0], options)}")
    kept = f"finished runs are kept in {options.out}" if sweep else "nothing is written"
    return attempt(
        lambda: import_module(f"iclcore.cli.{options.room}").run(options, parser.error),
        parser,
        kept,
    )
