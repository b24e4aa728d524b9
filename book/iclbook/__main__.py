"""``python -m iclbook figure NAME``: one figure of the book, from nothing."""

import argparse
from pathlib import Path

from iclcore.cli.parser import Parser, attempt, writable
from iclcore.entry import enter
from iclcore.extras import needs
from iclcore.history import write_whole


def main(argv: list[str] | None = None) -> int:
    """Compute and draw one figure of the book; without a name, say which there are."""
    parser = Parser(prog="python -m iclbook", description="The figures of the book.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="figure")
    picture = commands.add_parser("figure", help="from nothing; no name lists them")
    picture.add_argument("name", nargs="?", help="chapter.figure")
    picture.add_argument("--scale", choices=("paper", "quick"), default="paper")
    picture.add_argument("--save", type=writable, metavar="F.png", help="default: NAME.png here")
    options = parser.parse_args(argv)
    parser.prog += " figure"
    return attempt(lambda: figure(options, parser), parser)


def figure(options: argparse.Namespace, parser: Parser) -> int:
    with needs("book"):
        from iclbook import gallery

    if options.name is None:
        print("\n".join(f"{name:<36} {gallery.title(name)}" for name in gallery.names()))
        return 0
    if options.name not in gallery.names():
        parser.error(f"argument name: {options.name!r} is no figure; without a name all are listed")
    if not options.save:
        try:
            writable(f"{options.name}.png")  # or with an animation's suffix
        except argparse.ArgumentTypeError as error:
            parser.error(f"argument --save: {error}")
    made = gallery.make(options.name, options.scale)
    path = options.save or Path(f"{options.name}{made.suffix}")
    write_whole(path, lambda file: file.write(made.file()))
    print(f"{path}: {made.alt}")
    return 0


if __name__ == "__main__":
    enter("python -m iclbook", main)
