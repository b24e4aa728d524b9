"""What all commands share: how flags are read, and what is done with a run when it ends."""

import argparse
import difflib
import json
import os
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from iclcore import checks
from iclcore.history import History, beside, is_stream, target, write_whole
from iclcore.interrupts import noted

if TYPE_CHECKING:  # it loads matplotlib
    from iclcore.picture import Picture


class Parser(argparse.ArgumentParser):
    """Errors are one line; flags are not to be abbreviated."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs, allow_abbrev=False)

    def error(self, message: str):
        self.exit(2, f"{self.prog}: {message}\n")


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


def writable(text: str) -> Path:
    """A path that a file can be written to, tried before any work."""
    path = Path(text)
    try:
        if path.is_dir() or path.is_socket() or (path.exists() and not os.access(path, os.W_OK)):
            raise OSError
        if not is_stream(path):
            with beside(target(path)):
                pass
    except (OSError, ValueError):  # ValueError: a zero byte
        raise argparse.ArgumentTypeError(
            f"takes a file in a folder to write in, not {text!r}"
        ) from None
    return path


def saving_flags(parser: Parser, seed: int) -> None:
    """The flags of every run: its seed, what to record and where to."""
    add = parser.add_argument
    add("--seed", type=SEED, default=seed, help="same seed, same curve")
    add(
        "--save", type=writable, metavar="F.csv", help="the curve, a row a step; F.npz: weights too"
    )
    add("--json", type=writable, metavar="F.json", help="settings, versions, seconds, final loss")
    add("--show", action="store_true", help="open a window, or save a picture where there is none")


def check_files(options: argparse.Namespace, refuse: Callable) -> None:
    """Each output has a file of its own, and the picture's can be written too."""
    if options.show:
        try:
            writable(str(picture_of(options)))
        except argparse.ArgumentTypeError as error:
            refuse(f"argument --show: its picture {error}")
    files = {"--save": options.save, "--json": options.json}
    files["--show"] = picture_of(options) if options.show else None
    named = [(name, path.resolve()) for name, path in files.items() if path]
    for i, (name, path) in enumerate(named):
        for other, taken in named[:i]:
            if path == taken:
                refuse(
                    f"argument {name}: takes a file of its own, not that of {other}, {path.name}"
                )


def picture_of(options: argparse.Namespace) -> Path:
    """Where ``--show`` puts its picture if there is no display: beside the data."""
    return (options.save or Path(options.model)).with_suffix(".png")


def alike(unknown: str, options: argparse.Namespace) -> str:
    """The flag that was perhaps meant, or where all are listed."""
    known = [f"--{name}" for name in vars(options) if name not in ("command", "run")]
    close = difflib.get_close_matches(unknown.split("=")[0], known, 1)
    return f"; did you mean {close[0]}?" if close else "; --help lists them"


def report(history: History, options: argparse.Namespace, draw: Callable[[], "Picture"]) -> int:
    """Write what was asked for and say in a few lines what happened; ``draw`` makes its picture."""
    steps = int(np.isfinite(history.loss).sum())
    # an impatient second Ctrl-C must not cost the files; but a pipe may wait for its reader for ever
    waits = any(path and is_stream(path) for path in (options.save, options.json))
    with nullcontext() if waits else noted():
        if options.save:
            write = history.to_npz if options.save.suffix == ".npz" else history.to_csv
            write(options.save)
        if options.json:
            record = history.record() | {"steps": steps, "final_loss": final_loss(history)}
            text = json.dumps(record, indent=2) + "\n"
            write_whole(options.json, lambda file: file.write(text.encode()))
    spent = {name: value for name, value in history.seconds.items() if value}
    seconds = ", ".join(f"{name} {value:.3g}" for name, value in spent.items())
    floor = "" if history.floor is None else f", least-squares floor {history.floor:.6f}"
    final = final_loss(history)
    print(f"{steps} steps, loss {'none' if final is None else f'{final:.8g}'}{floor}")
    print(f"engine {history.engine}; seconds: {seconds}")
    if options.show:
        show(draw(), picture_of(options))
    if history.ended == "diverged":
        step = history.steps[-1]
        less = "--lr takes less here" if step else "--init takes less here"
        print(f"the loss is not finite at step {step}; {less}. "
              f"The {step} steps before it are kept", file=sys.stderr)  # fmt: skip
        return 3
    if history.ended == "interrupted":
        print(f"interrupted after {len(history.loss)} steps; they are kept", file=sys.stderr)
        return 130
    return 0


def final_loss(history: History) -> float | None:
    """The last finite loss."""
    finite = history.loss[np.isfinite(history.loss)]
    return float(finite[-1]) if len(finite) else None


def show(picture: "Picture", path: Path) -> None:
    """A window where there is a display; else a file."""
    try:
        import matplotlib.pyplot as plt
        from matplotlib.backends import BackendFilter, backend_registry

        windows = backend_registry.list_builtin(BackendFilter.INTERACTIVE)
        if plt.get_backend().lower() in (name.lower() for name in windows):
            plt.figure(picture.figure)  # hands it to the window manager
            plt.show()
            return
    except (ImportError, ValueError) as error:  # a backend that is not there
        print(f"no window: {str(error).splitlines()[0]}", file=sys.stderr)
    write_whole(path, lambda file: file.write(picture.file()))
    print(f"no display: the picture is in {path}")
