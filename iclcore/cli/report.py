"""The output of a run: its files, a few lines on the terminal, and a picture."""

import argparse
import json
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from iclcore.checks import BadValue
from iclcore.cli.flags import check_output, given
from iclcore.extras import needs
from iclcore.files import write_whole
from iclcore.history import History
from iclcore.trainer import delayed_interrupt

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def check_outputs(options: argparse.Namespace) -> None:
    """Raise an error before the run if a file cannot be written or the picture cannot be drawn."""
    picture = picture_path(options) if options.show else None
    read = given(options, "data", "test")
    users = {Path(path).resolve(): name for name, path in read.items()}
    for name, path in {"save": options.save, "json": options.json, "show": picture}.items():
        if path is not None:
            if (user := users.setdefault(path.resolve(), name)) != name:
                raise BadValue(name, f"takes a file of its own, not {path}, that of --{user}")
            check_output(name, path, options.force, *((".csv", ".npz") if name == "save" else ()))
    if options.show:
        with needs("plots"):
            import_module("iclcore.cli.plots")


def picture_path(options: argparse.Namespace) -> Path:
    """Return the path of the picture that --show saves if there is no display: beside the file of --save."""
    return (options.save or Path(options.model)).with_suffix(".png")


def report(history: History, options: argparse.Namespace) -> int:
    """Write the files, print what happened, and return the exit status."""
    finite = history.loss[np.isfinite(history.loss)]
    steps, final = len(finite), float(finite[-1]) if len(finite) else None
    with delayed_interrupt():  # a second Ctrl-C must not prevent the files from being written
        if options.save:
            write = history.to_npz if options.save.suffix == ".npz" else history.to_csv
            write(options.save)
        if options.json:
            record = history.record() | {"steps": steps, "final_loss": final}
            text = json.dumps(record, indent=2) + "\n"
            write_whole(options.json, lambda file: file.write(text.encode()))
    seconds = ", ".join(f"{name} {value:.3g}" for name, value in history.seconds.items() if value)
    floor = "" if history.floor is None else f", least-squares floor {history.floor:.6f}"
    print(f"{steps} steps, loss {'none' if final is None else f'{final:.8g}'}{floor}")
    for name in filter(lambda name: name.startswith("test_"), history.series):
        print(f"{name}: {history.series[name][-1]:.8g}")
    print(f"engine {history.engine}; seconds: {seconds}")
    saved = f"saved in {options.save}" if options.save else "not saved, without --save"
    if history.ended == "interrupted":
        print(f"interrupted after {steps} steps; they are {saved}", file=sys.stderr)
        return 130
    if history.ended == "diverged":
        flag, step = "--lr" if steps > 1 else "--init", history.steps[-1]
        line = f"the loss is not finite at step {step}: a smaller {flag} may help"
        print(f"{line}. The steps before it are {saved}", file=sys.stderr)
        return 3
    return 0


def show(figure: "Figure", path: Path) -> None:
    """Show the figure in a window or, if there is no display, save it as a picture."""
    import matplotlib.pyplot as plt
    from matplotlib.backends import BackendFilter, backend_registry

    if plt.get_backend().lower() in backend_registry.list_builtin(BackendFilter.INTERACTIVE):
        plt.figure(figure)  # makes pyplot manage this figure
        plt.show()
    else:
        save_picture(figure, path)
        print(f"no display: the picture is in {path}")


def save_picture(figure: "Figure", path: Path) -> None:
    write_whole(path, lambda file: figure.savefig(file, format="png", dpi=160))
