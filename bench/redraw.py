"""What a moved control costs, in Chromium and in Firefox if it is installed, on the pages as they were built.

    python -m bench.redraw          every explorer of the book
    python -m bench.redraw task     those of one page

A redraw is computing, drawing and the page's layout. Milliseconds are of this machine; the last column
divides their median by a fixed loop in the same page, which another machine runs as much faster or slower.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import sync_playwright

from tools import browsers

BUILT = Path(__file__).resolve().parent.parent / "_build" / "html"
WIDTH, HEIGHT = 1280, 900
WARM, MOVES = 12, 36
DRAWN = """async () => {
    while (!document.querySelector(".ex svg")) await new Promise((done) => setTimeout(done, 20));
    document.querySelectorAll(".ex-fold[aria-expanded=false]").forEach((each) => each.click());
    return document.querySelectorAll(".ex").length; }"""
REDRAWS = """async (place, warm, moves) => {
    const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
    const taken = [];
    const explorer = document.querySelectorAll(".ex")[place];
    for (const range of explorer.querySelectorAll(".ex-controls input[type=range]")) {
      const first = range.value;
      for (let k = 0; k < warm + moves; k++) {
        performance.clearMeasures();
        range.value = +range.min + ((range.max - range.min) * ((k * 7) % 12)) / 12;
        range.dispatchEvent(new Event("input"));
        await frame();
        if (k >= warm) taken.push(...performance.getEntriesByType("measure").map((each) => each.duration));
      }
      range.value = first;
      range.dispatchEvent(new Event("input"));
      await frame();
    }
    return taken; }"""
LOOP = """() => {
    const times = [];
    for (let n = 0; n < 9; n++) {
      const from = performance.now();
      let sum = 0;
      for (let i = 1; i <= 1e6; i++) sum += Math.sqrt(i) / i;
      times.push(performance.now() - from + 0 * sum);
    }
    return times; }"""


def pages(names: list[str]) -> list[Path]:
    built = [p for p in sorted(BUILT.rglob("*.html")) if 'class="explorer"' in p.read_text()]
    return [p for p in built if not names or p.stem in names]


def measure(found: list[Path], go: Callable[[str], Any], evaluate: Callable[..., Any]) -> None:
    """A line an explorer, by a browser that goes to addresses and evaluates functions."""
    for path in found:
        go(path.as_uri())
        shown = evaluate(DRAWN)
        unit = np.median(evaluate(LOOP))
        for place in range(shown):
            taken = evaluate(REDRAWS, place, WARM, MOVES)
            if not taken:
                continue  # it moves when it is asked to run
            middle, most, worst = np.percentile(taken, [50, 95, 99])
            print(
                f"{path.stem:28}{len(taken):8}{middle:9.1f}{most:7.1f}{worst:7.1f}{middle / unit:11.1f}"
            )


def main(names: list[str]) -> int:
    found = pages(names)
    if not found:
        print("no built page of that name: make book", file=sys.stderr)
        return 2
    heads = f"{'redraws':>8}{'median':>9}{'95%':>7}{'99%':>7} ms{'loops':>8}"
    print(f"{'Chromium':28}{heads}")
    with sync_playwright() as playwright:
        chromium = browsers.chromium(playwright)
        page = chromium.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        measure(
            found,
            page.goto,
            lambda function, *given: page.evaluate(f"(given) => ({function})(...given)", given),
        )
        chromium.close()
    if browsers.installed(browsers.FIREFOX):
        print(f"{'Firefox':28}{heads}")
        fox = browsers.Firefox(WIDTH, HEIGHT)
        measure(found, fox.open, fox.evaluate)
        fox.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
