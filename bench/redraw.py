"""What a moved control costs, in a browser, on the pages as they were built.

    python -m bench.redraw          every explorer of the book
    python -m bench.redraw task     those of one page

A redraw is computing, drawing and the page's layout. Milliseconds are of this machine; the last column
divides their median by a fixed loop in the same page, which another machine runs as much faster or slower.
"""

import shutil
import sys
from pathlib import Path

import numpy as np
from playwright.sync_api import sync_playwright

BUILT = Path(__file__).resolve().parent.parent / "_build" / "html"
BROWSERS = ("chromium", "chromium-browser", "google-chrome")
WARM, MOVES = 12, 36
REDRAWS = """async ([element, warm, moves]) => {
    const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
    const taken = [];
    for (const range of element.querySelectorAll(".ex-controls input[type=range]")) {
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


def main(names: list[str]) -> int:
    browser = next(filter(None, map(shutil.which, BROWSERS)), None)
    found = pages(names)
    if not browser or not found:
        print(
            "no browser (make browser) or no built page of that name (make book)", file=sys.stderr
        )
        return 2
    print(f"{'explorer':28}{'redraws':>8}{'median':>9}{'95%':>7}{'99%':>7} ms{'loops':>8}")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(
            executable_path=browser, args=["--no-sandbox", "--disable-gpu"]
        )
        for path in found:
            page = chromium.new_page(viewport={"width": 1280, "height": 900})
            page.goto(path.as_uri())
            page.locator(".ex-stage svg, .ex-panels svg").first.wait_for(state="attached")
            for fold in page.locator(".ex-fold[aria-expanded=false]").all():
                fold.click()
            unit = np.median(page.evaluate(LOOP))
            for explorer in page.locator(".explorer").element_handles():
                taken = page.evaluate(REDRAWS, [explorer, WARM, MOVES])
                middle, most, worst = np.percentile(taken, [50, 95, 99])
                print(
                    f"{path.stem:28}{len(taken):8}{middle:9.1f}{most:7.1f}{worst:7.1f}   {middle / unit:8.1f}"
                )
            page.close()
        chromium.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
