"""What all commands share: how flags are read, and what is done with a run when it ends."""

import argparse
import difflib
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from iclcore import checks
from iclcore.history import History, write_whole

if TYPE_CHECKING:  # it loads matplotlib
    from iclcore.figures import Figure


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
POSITIVE, SHARE = flag(checks.positive, float), flag(checks.share, float)


def writable(text: str) -> Path:
    """A path that a file can be written to, tried before any work."""
    path = Path(text)
    if path.is_dir() or not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise argparse.ArgumentTypeError(f"takes a file in a folder to write in, not {text!r}")
    return path


def saving_flags(parser: Parser, seed: int) -> None:
    """The flags of every run: its seed, what to record and where to."""
    add = parser.add_argument
    add("--seed", type=SIZE, default=seed, help="same seed, same curve")
    add("--save", type=writable, metavar="F.csv", help="the curve, a row a step")
    add("--json", type=writable, metavar="F.json", help="settings, versions, seconds, final loss")
    add("--show", action="store_true", help="open a window, or save a picture where there is none")


def alike(unknown: str, options: argparse.Namespace) -> str:
    """The flag that was perhaps meant, or where all are listed."""
    known = [f"--{name}" for name in vars(options) if name not in ("command", "run")]
    close = difflib.get_close_matches(unknown.split("=")[0], known, 1)
    return f"; did you mean {close[0]}?" if close else "; --help lists them"


def report(history: History, options: argparse.Namespace, draw: Callable[[], "Figure"]) -> int:
    """Write what was asked for and say in a few lines what happened; ``draw`` makes its picture."""
    if options.save:
        history.to_csv(options.save)
    if options.json:
        record = history.record() | {"steps": len(history.loss), "final_loss": final_loss(history)}
        text = json.dumps(record, indent=2) + "\n"
        write_whole(options.json, lambda file: file.write(text.encode()))
    seconds = ", ".join(f"{name} {value:.3g}" for name, value in history.seconds.items())
    floor = "" if history.floor is None else f", least-squares floor {history.floor:.6f}"
    print(f"{len(history.loss)} steps, loss {final_loss(history)}{floor}")
    print(f"engine {history.engine}; seconds: {seconds}")
    if options.show:
        show(draw(), options.save or Path(f"{options.model}.csv"))
    if history.ended == "diverged":
        step = history.steps[-1]
        print(f"the loss is not finite at step {step}; --lr takes less here. "
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


def show(picture: "Figure", beside: Path) -> None:
    """A window where there is a display; else a picture beside the data."""
    import matplotlib
    import matplotlib.pyplot as plt

    interactive = plt.get_backend().lower() in (
        name.lower() for name in matplotlib.backends.backend_registry.list_builtin(
            matplotlib.backends.BackendFilter.INTERACTIVE)
    )  # fmt: skip
    figure = picture.figure
    if interactive:
        plt.figure(figure)  # hands it to the window manager
        plt.show()
        return
    path = beside.with_suffix(".png")
    figure.savefig(path, dpi=150)
    print(f"no display: the picture is in {path}")
