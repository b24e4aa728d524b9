"""What every run leaves: its files, each of its own, a few lines, a picture."""

import argparse
import json
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from iclcore.cli.parser import Refused, writable
from iclcore.extras import needs
from iclcore.files import PICTURE, is_stream, write_whole
from iclcore.history import History
from iclcore.interrupts import noted

if TYPE_CHECKING:  # it loads matplotlib
    from iclcore.style import Picture


def check_files(options: argparse.Namespace) -> None:
    """Each output has a file of its own, and the picture's can be written too."""
    if options.show:
        try:
            writable(str(picture_of(options)), PICTURE)
        except argparse.ArgumentTypeError as error:
            raise Refused("--show", f"its picture {error}") from None
    data = getattr(options, "data", None)  # which must not be written over
    files = {"--data": data and Path(data), "--save": options.save, "--json": options.json}
    files["--show"] = picture_of(options) if options.show else None
    taken: dict[Path, str] = {}
    for name, path in files.items():
        real = path and path.resolve()
        if real and (other := taken.setdefault(real, name)) != name:
            raise Refused(name, f"takes a file of its own, not that of {other}, {real.name}")


def drawing(options: argparse.Namespace, torch: bool) -> ModuleType | None:
    """What draws the picture: loaded before the run, lest it be missing after. One line names torch too."""
    if not options.show:
        return None
    with needs("torch,plots" if torch else "plots"):
        from iclcore.cli import plots as picture

    return picture


def picture_of(options: argparse.Namespace) -> Path:
    """Where ``--show`` puts its picture if there is no display: beside the data."""
    return (options.save or Path(options.model)).with_suffix(".png")


def report(history: History, options: argparse.Namespace, draw: Callable[[], "Picture"]) -> int:
    """Write what was asked for and say in a few lines what happened; ``draw`` makes its picture."""
    finite = history.loss[np.isfinite(history.loss)]
    steps, final = len(finite), float(finite[-1]) if len(finite) else None
    # an impatient second Ctrl-C must not cost the files; but a pipe may wait for its reader for ever
    waits = any(path and is_stream(path) for path in (options.save, options.json))
    with nullcontext() if waits else noted():
        if options.save:
            write = history.to_npz if options.save.suffix == ".npz" else history.to_csv
            write(options.save)
        if options.json:
            record = history.record() | {"steps": steps, "final_loss": final}
            text = json.dumps(record, indent=2) + "\n"
            write_whole(options.json, lambda file: file.write(text.encode()))
    spent = {name: value for name, value in history.seconds.items() if value}
    seconds = ", ".join(f"{name} {value:.3g}" for name, value in spent.items())
    floor = "" if history.floor is None else f", least-squares floor {history.floor:.6f}"
    print(f"{steps} steps, loss {'none' if final is None else f'{final:.8g}'}{floor}")
    print(f"engine {history.engine}; seconds: {seconds}")
    if options.show:
        show(draw(), picture_of(options))
    where = f"kept in {options.save}" if options.save else "not kept, without --save"
    if history.ended == "diverged":
        step = history.steps[-1]
        less = "--lr takes less here" if step else "--init takes less here"
        kept = f"The {step} steps before it are {where}"
        print(f"the loss is not finite at step {step}; {less}. {kept}", file=sys.stderr)
        return 3
    if history.ended == "interrupted":
        print(f"interrupted after {len(history.loss)} steps; they are {where}", file=sys.stderr)
        return 130
    return 0


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
