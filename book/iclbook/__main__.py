"""``python -m iclbook figure NAME`` draws one figure of the book by running the cells of its chapter."""

import argparse
import difflib
import os
import sys
import warnings
from collections.abc import Iterable
from itertools import chain, count
from pathlib import Path

from iclbook import CITE, chapter
from iclcore.checks import BadValue
from iclcore.cli import attempt
from iclcore.cli.flags import Parser, check_output
from iclcore.extras import MissingExtra, needs
from iclcore.versions import versions

# The chapters are beside this package in a checkout; a downloaded chapter is in the working directory.
PLACES = (chapter.BESIDE, Path(), Path("book"))
BOOK = next((each for each in PLACES if chapter.notebooks(each)), Path())


def main(argv: list[str] | None = None) -> int:
    """Draw one figure of the book or, without a name, list all; return the exit status."""
    argv = sys.argv[1:] if argv is None else argv
    where = Parser(prog="python -m iclbook figure", add_help=False)
    where.add_argument(
        "--book", type=Path, default=BOOK, metavar="FOLDER", help="of the chapters; default: %(default)s"
    )  # fmt: skip
    parser = Parser(prog="python -m iclbook", description="The figures of the book.")
    commands = parser.add_subparsers(dest="command", required=True, metavar="figure")
    told = "draw NAME, its chapter's settings being flags; without a name, list all"
    usage = f"{where.prog} [NAME] [--book FOLDER] [--save F] [--SETTING X ...]"
    picture = commands.add_parser(
        "figure", parents=[where], help=told, description=told, usage=usage
    )
    picture.add_argument("name", nargs="?", metavar="NAME", help="chapter.figure")
    picture.add_argument(
        "--save",
        type=Path,
        metavar="F",
        help="F.png, F.svg or, for its numbers, F.csv; an animation is F.webp; default: NAME.png here, "
        "or the next NAME-2.png",
    )
    picture.add_argument(
        "--force", action="store_true", help="overwrite a file that is there already"
    )
    if argv[:1] != ["figure"]:
        parser.parse_args(argv[:1])  # exits: it prints the help, or what is wrong with the command
    name = next((word for word in argv[1:2] if not word.startswith("-")), None)
    try:
        figure, cells = found(name, where.parse_known_args(argv)[0].book) if name else (None, [])
        known = chapter.parameters(cells)
        settings_flags(picture, known.values())
        options, rest = parser.parse_known_args(argv)
        if rest:
            raise ValueError(f"no {rest[0]}; NAME stands first, and NAME --help lists its flags")
        if figure is None:
            return attempt(lambda: listed(options.book), picture)
        check_output("save", options.save or unused(name, ".png"), options.force)
        if options.save:
            with needs("book"):
                check_suffix(options.save, figure.name, result_class(figure))
    except BadValue as error:
        picture.error(f"argument --{error.name}: {error.takes}")
    except (ValueError, MissingExtra) as error:
        picture.error(str(error))
    given = {name: value for name, value in vars(options).items() if name in known}
    return attempt(lambda: drawn(figure, cells, given, options.save, picture), picture)


def listed(folder: Path) -> int:
    """Print the name and the caption of every figure that can be drawn."""
    for name, path in in_folder(folder).items():
        for figure in chapter.figures(name, chapter.read(path)).values():
            print(f"{figure.name:<36} {figure.plain}")
    return 0


def drawn(
    figure: chapter.Figure, cells: list[dict], given: dict, path: Path | None, parser: Parser
) -> int:
    """Draw the figure, write it, and print what it shows."""
    try:
        with needs("book"), warnings.catch_warnings():
            warnings.showwarning = print_warning
            made, numbers = chapter.draw(figure, cells, given)
        if path:
            check_suffix(path, figure.name, type(made))  # the cell does not always tell the class
    except ValueError as error:
        parser.exit(1, f"{parser.prog}: {figure.name}: {error}\n")
    path = path or unused(figure.name, made.suffixes[0])
    settings = chapter.values(cells, given)
    made.save(path, about(figure, figure.told(numbers), settings, given))
    print(f"{path}: {made.alt}")
    return 0


def print_warning(message: Warning, *where: object) -> None:
    """Print a warning as one line, without the line of code that it came from."""
    print(f"warning: {' '.join(str(message).split())}", file=sys.stderr)


def result_class(figure: chapter.Figure) -> type | None:
    """Return the class of the figure before it is drawn, if the call in its cell tells."""
    from iclbook import plot

    made = getattr(getattr(plot, figure.by, None), "__annotations__", {}).get("return")
    return made if hasattr(made, "suffixes") else None


def check_suffix(path: Path, name: str, drawn_as: type | None) -> None:
    """Refuse a file format that this class of figure cannot be written in."""
    if drawn_as and path.suffix.lower() not in drawn_as.suffixes:
        *rest, last = drawn_as.suffixes
        ends = f"{', '.join(rest)} or {last}" if rest else last
        raise ValueError(
            f"argument --save: {name} is {drawn_as.kind}: takes a file in {ends}, not {str(path)!r}"
        )


def about(figure: chapter.Figure, told: str, settings: dict, given: dict) -> dict:
    """Return what a file says about the figure in it."""
    return {
        "figure": figure.name,
        "shows": told,
        "settings": settings,
        "set by flags": given,
        "iclcore": versions()["iclcore"],
        "cite": f"{CITE}, figure {figure.name}.",
    }


def unused(name: str, suffix: str) -> Path:
    """Return a path that does not exist yet: NAME.png, else NAME-2.png and so on."""
    names = chain([name], (f"{name}-{n}" for n in count(2)))
    return next(path for each in names if not os.path.lexists(path := Path(f"{each}{suffix}")))


def found(name: str, folder: Path) -> tuple[chapter.Figure, list[dict]]:
    """Return the figure and the cells of its chapter."""
    stem, chapters = name.partition(".")[0], in_folder(folder)
    cells = chapter.read(chapters[stem]) if stem in chapters else []
    known = chapter.figures(stem, cells)
    if name in known:
        return known[name], cells
    hint = f"; this chapter has {', '.join(known)}"
    if name != stem or not known:
        there = known or [
            each
            for own, path in chapters.items()
            for each in chapter.figures(own, chapter.read(path))
        ]
        close = [each for each in there if each.partition(".")[2].startswith(name)]
        close = close or difflib.get_close_matches(name, there, 1)
        hint = (
            f"; did you mean {' or '.join(close)}?" if close else "; without a name all are listed"
        )
    raise ValueError(f"argument NAME: {name!r} is no figure{hint}")


def in_folder(folder: Path) -> dict[str, Path]:
    """Return the chapters in a folder by name."""
    if names := chapter.notebooks(folder):
        return names
    if folder == BOOK:
        raise ValueError("no chapters here: run this in the clone, or give --book CLONE/book")
    raise ValueError(
        f"argument --book: takes a folder with chapters (*.ipynb), not {str(folder)!r}"
    )


def settings_flags(parser: Parser, known: Iterable[chapter.Parameter]) -> None:
    """Add a flag for each line of the chapter's parameters cell."""

    def typed(parameter: chapter.Parameter):
        def parse(text: str):
            try:
                return parameter.typed(text)
            except ValueError as error:
                raise argparse.ArgumentTypeError(str(error)) from None

        return parse

    for each in known:
        told = f"{each.default}: {each.comment}".replace("%", "%%")
        parser.add_argument(
            f"--{each.name}", type=typed(each), default=argparse.SUPPRESS, metavar="X", help=told
        )


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
