"""The table of the reproduce page that says what was tried against the project."""

import csv
from collections.abc import Iterable

from make import ROOT

TABLE = ROOT / "book" / "iclbook" / "data" / "attacked.csv"
HEADER = ["what is tried", "how many", "lost", "command"]


def tell(new: Iterable[list[str]]) -> None:
    """Rows of what was not tried now stay as they are."""
    rows = {}
    if TABLE.exists():
        with TABLE.open(newline="") as file:
            rows = {row[0]: row for row in list(csv.reader(file))[1:]}
    rows |= {row[0]: row for row in new}
    with TABLE.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([HEADER, *sorted(rows.values())])
