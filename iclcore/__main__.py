"""``python -m iclcore``, and the command ``iclcore``."""

from iclcore.entry import enter


def main() -> int:
    from iclcore.cli import main

    return main()


def start() -> None:
    enter("iclcore", main)


if __name__ == "__main__":
    start()
