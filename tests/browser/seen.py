"""What is seen of an explorer: its drawing, and the numbers that it exports."""

import csv

import numpy as np

from iclbook import explorers

KINDS = {getattr(explorers, name).name: getattr(explorers, name) for name in explorers.__all__}

# three frames on, for a new size is heard of in one and drawn in the next; and no run still computed
# away from the page's thread
REST = """async () => {
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    do { await frame(); await frame(); await frame(); }
    while (document.querySelector("[aria-busy=true]")); }"""

# a real frame, whatever the page's clock says: every observer has heard of the page's own size by then
LAID_OUT = """() => new Promise((done) =>
    new ResizeObserver(() => done()).observe(document.body))"""


def frames(page):
    page.evaluate(REST)


def drawing(part) -> str:
    """What is drawn; a mark that a pointer left and that was taken off leaves an empty class."""
    drawn = part.locator(".ex-panels").evaluate("each => each.innerHTML")
    return drawn.replace(' class=""', "")


def table(page) -> list[list[str]]:
    with page.expect_download() as download:
        page.get_by_role("button", name="Download CSV").click()
    lines = download.value.path().read_text("utf-8-sig").splitlines()
    rows = list(csv.reader(line for line in lines if not line.startswith("#")))
    assert rows[0] == ["panel", "series", "x", "y"]
    return rows[1:]


def lines_of(page) -> dict:
    """(panel, series) → x, y of what was drawn, from the CSV."""
    found: dict = {}
    for panel, series, x, y in table(page):
        try:
            point = float(x), float(y)
        except ValueError:
            continue  # a level, a mark or a cell of a matrix
        found.setdefault((panel, series), []).append(point)
    return {key: np.array(points).T for key, points in found.items()}
