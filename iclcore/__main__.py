"""The entry point of the command ``iclcore`` and of ``python -m iclcore``."""

import sys


def start() -> None:
    try:
        from iclcore.cli import main  # Ctrl-C may come while this loads

        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    start()
