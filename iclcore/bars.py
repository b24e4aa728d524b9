"""A progress bar for work that takes more than a second, on a terminal and in a notebook."""

import os
import sys
import time
import warnings
from threading import current_thread, main_thread
from typing import Any

DELAY = 1  # seconds of work before a bar appears


class Bar:
    """A progress bar over ``total`` units of a kind such as "steps". It appears after one second of work.

    No bar appears outside the main thread, if the environment variable TQDM_DISABLE is set, if tqdm is not
    installed, or if stderr is neither a terminal nor the output of a notebook. Use the class in a with block;
    the end of the block removes the bar.
    """

    def __init__(self, total: int, unit: str):
        self.total, self.unit, self.began = total, unit, time.perf_counter()
        self.hidden = bool(os.environ.get("TQDM_DISABLE")) or current_thread() is not main_thread()
        self.bar: Any = None

    def show(self, done: int, text: str = "") -> None:
        """Show the number of units that are done, and a text such as the loss."""
        if self.hidden or time.perf_counter() - self.began < DELAY:
            return
        if self.bar is None:
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter(
                        "ignore"
                    )  # without ipywidgets, tqdm shows text, as we want
                    from tqdm.auto import tqdm
            except ModuleNotFoundError:
                self.hidden = True
                return
            notebook = type(sys.stderr).__module__.startswith("ipykernel")
            self.bar = tqdm(
                total=self.total, initial=done, unit=f" {self.unit}", postfix=text, leave=False,
                disable=False if notebook else None,  # None hides it in a pipe
            )  # fmt: skip
            if not self.bar.disable:
                self.bar.start_t -= DELAY
        self.bar.set_postfix_str(text, refresh=False)
        self.bar.update(done - self.bar.n)

    def write(self, line: str) -> None:
        """Print a line on stderr, above the bar."""
        (self.bar.write if self.bar else print)(line, file=sys.stderr)

    def __enter__(self) -> "Bar":
        return self

    def __exit__(self, *_: object) -> None:
        if self.bar is not None:
            self.bar.close()
