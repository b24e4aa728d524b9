"""Sphinx role `said`: a number of a chapter on a page that is no chapter.

{said}`rank_one.level2` is the number that the chapter rank_one says by the name level2, so a page follows the
chapters. A number that no chapter says is a warning, which the build takes for an error.
"""

import difflib
import re
from functools import lru_cache
from pathlib import Path

import marks
import nbformat
from chapters import chapters
from docutils import nodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxRole

from iclbook import quote

SAID = re.compile(r"\{said\}`(?P<what>[^`]+)`")
logger = logging.getLogger(__name__)


class Said(SphinxRole):
    """The role."""

    def run(self):
        path = chapters().get(self.text.partition(".")[0])
        if path:
            self.env.note_dependency(str(path))
        try:
            return [nodes.Text(number(self.text))], []
        except ValueError as problem:
            logger.warning(str(problem), location=self.get_location())
            return [], []


def number(what: str) -> str:
    """Return a number by its chapter and name: `rank_one.level2` or `rank_one.levels[2]`."""
    chapter, _, name = what.partition(".")
    known = chapters()
    if chapter not in known:
        raise ValueError(f"{{said}}`{what}`: want CHAPTER.NAME, of {', '.join(known)}")
    path = known[chapter]
    numbers = _numbers(path, path.stat().st_mtime_ns)
    mark = quote.QUOTED.fullmatch(f"<!--{name}--><!--/-->")
    if mark is None or mark["name"] not in numbers:
        near = difflib.get_close_matches(name, numbers, 1, 0)
        raise ValueError(f"{{said}}`{what}`: no cell of the chapter says it; nearest is {near}")
    return quote.find(numbers, mark)


@lru_cache(maxsize=32)
def _numbers(path: Path, changed: int) -> dict[str, str]:
    return marks.numbers(nbformat.read(path, as_version=4))


def setup(app):
    app.add_role("said", Said())
    return {"parallel_read_safe": True, "parallel_write_safe": True}
