"""How flags are read: errors in one line, values checked, paths tried before any work."""

import argparse
import difflib
import math
import os
import sys
from collections.abc import Callable
from pathlib import Path

from iclcore import checks
from iclcore.extras import MissingExtra
from iclcore.files import beside, is_stream, target


class Parser(argparse.ArgumentParser):
    """Errors are one line; flags are not to be abbreviated."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs, allow_abbrev=False)

    def error(self, message: str):
        self.exit(2, f"{self.prog}: {message}\n")


def attempt(act: Callable[[], int], parser: Parser, kept: str = "nothing is written") -> int:
    """The exit status of what a command does; ``kept`` says what an interruption leaves."""
    try:
        return act()
    except MissingExtra as error:
        parser.error(str(error))
    except KeyboardInterrupt:
        print(f"interrupted: {kept}", file=sys.stderr)
        return 130
    except BrokenPipeError:  # the reader of a pipe left
        sys.stdout = None
        return 0
    except OSError as error:  # a full disk
        print(f"{parser.prog}: could not write: {error}", file=sys.stderr)
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


def ending(*suffixes: str) -> Callable:
    """An argparse type: a path to write to, whose name says what is written; a device has any name."""

    def parse(text: str) -> Path:
        path = writable(text)
        if path.suffix not in suffixes and not is_stream(path):
            named = " or ".join(suffixes)
            raise argparse.ArgumentTypeError(f"takes a file that ends in {named}, not {text!r}")
        return path

    return parse


def folder(text: str) -> Path:
    """A folder to write in, there or to be made."""
    path = Path(text)
    try:
        if _is_writable(path):
            return path
    except OSError:  # a name that is too long, a file where a folder should be
        pass
    raise argparse.ArgumentTypeError(f"takes a folder to write in, not {text!r}")


def _is_writable(path: Path) -> bool:
    for each in (path, *path.absolute().parents):
        try:
            each.lstat()
        except FileNotFoundError:
            continue
        return each.is_dir() and os.access(each, os.W_OK)
    return False


def alike(unknown: str, parser: Parser, others: Parser | None = None) -> str:
    """The flag that was perhaps meant, whose it is among ``others``, or where all are listed."""
    if others and unknown.split("=")[0] in others._option_string_actions:
        return ", but one of train"
    close = difflib.get_close_matches(unknown.split("=")[0], parser._option_string_actions, 1)
    return f"; did you mean {close[0]}?" if close else "; --help lists them"
