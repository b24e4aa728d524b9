"""Sphinx role `said`: on a page that is no chapter, a number that a chapter quotes.

{said}`rank_one: levels .4f` is what that chapter's last cell printed for its mark `levels .4f`. So the page
follows the chapters. A number that none of them quotes is a warning, which the build takes for an error.
"""

import difflib
import re
from functools import lru_cache
from pathlib import Path

import nbformat
import prose
from chapters import chapters
from docutils import nodes
from sphinx.util import logging
from sphinx.util.docutils import SphinxRole

SAID = re.compile(r"\{said\}`(?P<what>[^`]+)`")
logger = logging.getLogger(__name__)


class Said(SphinxRole):
    def run(self):
        path = chapters().get(self.text.partition(":")[0])
        if path:
            self.env.note_dependency(str(path))
        try:
            return [nodes.Text(number(self.text))], []
        except ValueError as problem:
            logger.warning(str(problem), location=self.get_location())
            return [], []


def number(what: str) -> str:
    """What a chapter says: `rank_one: levels .4f`."""
    chapter, _, mark = (part.strip() for part in what.partition(":"))
    known = chapters()
    if chapter not in known:
        raise ValueError(f"{{said}}`{what}`: want CHAPTER: MARK, of {', '.join(known)}")
    path = known[chapter]
    record = _record(path, path.stat().st_mtime_ns)
    if mark not in record:
        close = difflib.get_close_matches(mark, record, 1, 0)
        raise ValueError(f"{{said}}`{what}`: the chapter has no such mark; nearest is {close}")
    return record[mark]


@lru_cache(maxsize=32)
def _record(path: Path, changed: int) -> dict[str, str]:
    return prose.recorded_numbers(nbformat.read(path, as_version=4))


def setup(app):
    app.add_role("said", Said())
    return {"parallel_read_safe": True, "parallel_write_safe": True}
