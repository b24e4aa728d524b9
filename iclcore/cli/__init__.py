"""The commands ``iclcore train``, ``sweep`` and ``theory``, and their exit status.

- 0: The command was carried out.
- 1: The operating system refused something, for instance because the disk is full.
- 2: A flag is wrong, and nothing was done.
- 3: The loss of a run stopped being finite, or runs of a sweep failed.
- 130: Ctrl-C was pressed.

After 3 and 130, everything that was recorded is saved.

Each command is a module with a function ``run``. The module is imported only after the flags were read, so
that a wrong flag is refused quickly.
"""

import sys
from collections.abc import Callable
from importlib import import_module

from iclcore.checks import BadValue
from iclcore.cli.flags import Parser, flag_of, read
from iclcore.extras import MissingExtra


def main(argv: list[str] | None = None) -> int:
    """Carry out one command and return its exit status."""
    options = read(sys.argv[1:] if argv is None else argv)
    command = f"iclcore.cli.{options.module}"
    return attempt(lambda: import_module(command).run(options), options.parser)


def attempt(act: Callable[[], int], parser: Parser) -> int:
    """Call ``act`` and return the exit status; an error that the user can correct is printed as one line."""
    try:
        return act()
    except BadValue as error:
        parser.error(f"argument {flag_of(error.name)}: {error.takes}")
    except MissingExtra as error:
        parser.error(str(error))
    except KeyboardInterrupt as error:  # the message of a sweep says how many runs are kept
        print(f"interrupted: {error}" if error.args else "interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:  # for instance ``iclcore theory | head``
        sys.stdout = None  # otherwise Python would try to flush it
        return 0
    except (OSError, MemoryError) as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        return 1
