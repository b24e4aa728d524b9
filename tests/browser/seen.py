"""What a browser shows of an explorer: its drawing, and the numbers that it exports."""

import csv

import numpy as np
from conftest import close
from javascript import shown

from iclbook.explorers.base import Explorer

# Three frames later a new size has been noticed and drawn; and no worker computes any more.
REST = """async () => {
    const frame = () => new Promise((done) => requestAnimationFrame(done));
    do { await frame(); await frame(); await frame(); }
    while (document.querySelector("[aria-busy=true]")); }"""

# A real frame, whatever the page's clock says: by then every observer knows the page's size.
LAID_OUT = """() => new Promise((done) =>
    new ResizeObserver(() => done()).observe(document.body))"""

# Once the page has drawn what came before, it follows a link in its own address and draws what comes of it.
FOLLOW = """async (link) => {
    const drawn = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
    await drawn();
    document.querySelector(".ex-notice").textContent = "";
    const { href } = location, changed = new Promise((done) => {
      addEventListener("hashchange", done, { once: true });
    });
    location.hash = link;
    if (location.href !== href) await changed;  // it may be the link of before
    await drawn(); }"""


def frames(page):
    page.evaluate(REST)


def drawing(part) -> str:
    """The pictures as text. A mark that a pointer left and that was removed leaves an empty class."""
    drawn = part.locator(".ex-panels").evaluate("each => each.innerHTML")
    return drawn.replace(' class=""', "")


def enter(part, label: str, value: object) -> None:
    """Type a number beside a control, and wait until it is drawn."""
    field = part.get_by_label(f"{label}, number")
    field.fill(str(value))
    field.press("Enter")
    frames(getattr(part, "page", part))


def click(page, name: str) -> None:
    page.get_by_role("button", name=name, exact=True).click()
    frames(page)


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


def compare_with_modules(page, explorer: Explorer) -> None:
    """Every curve has the numbers that the modules give outside a browser, where they equal Python's."""
    curves, drawn = shown(explorer)["curves"], lines_of(page)
    compared = [(panel, name) for panel, name in drawn if name in curves[panel]]
    assert compared
    for panel, name in compared:
        expected = np.array(curves[panel][name], dtype=float)
        close(drawn[panel, name], expected[:, np.isfinite(expected).all(0)])
