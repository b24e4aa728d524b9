"""What a moved control costs in Chromium, on the pages as built.

    python -m bench.redraw          every explorer of the book
    python -m bench.redraw task     those of one page

A redraw is what the page's thread computes, draws and lays out; a long run is computed in a worker, and
``answer`` is the time from the hand's move to its picture. Each explorer as it begins, and with all its sizes
at their greatest. Milliseconds are of this machine; ``loops`` divides the median by a fixed loop in the same
page, which another machine runs as much faster or slower. Then what each page keeps after random moves
and a reset (Chromium): its heap, its nodes, and its listeners.
"""

import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import sync_playwright

from tools import browsers

BUILT = Path(__file__).resolve().parent.parent / "_build" / "html"
WIDTH, HEIGHT = 1280, 900
WARM, MOVES = 6, 18
AFTER = 200, 2000  # moves
# back to the explorer's own settings, with nothing pinned: what is left is left for good
BACK = """async () => {
    const all = () => [...document.querySelectorAll(".ex button")];
    const named = (word) => all().filter((each) => each.textContent === word);
    while (named("Remove").length) named("Remove")[0].click();
    named("Reset").forEach((each) => each.click());
    await new Promise((done) => setTimeout(done, 1500)); }"""
DRAWN = """async () => {
    while (!document.querySelector(".ex svg")) await new Promise((done) => setTimeout(done, 20));
    document.querySelectorAll(".ex-fold[aria-expanded=false]").forEach((each) => each.click());
    return document.querySelectorAll(".ex").length; }"""
# all sizes to their greatest but the learning rate, with which a run would leave and end, and the seed
SIZES = """async (place) => {
    const explorer = document.querySelectorAll(".ex")[place];
    const small = /rate|weights|seed|add [uv]|noise|share/;
    for (const range of explorer.querySelectorAll(".ex-controls input[type=range]")) {
      if (small.test(range.labels[0].textContent)) continue;
      range.value = range.max;
      range.dispatchEvent(new Event("input"));
    } }"""
REDRAWS = """async (place, warm, moves) => {
    const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
    const taken = [], answers = [], told = [];
    const redraws = new PerformanceObserver((list) => told.push(...list.getEntries()));
    redraws.observe({ type: "measure" });
    const explorer = document.querySelectorAll(".ex")[place];
    const settled = async () => { do { await frame(); } while (explorer.querySelector("[aria-busy=true]")); };
    await settled();
    for (const range of explorer.querySelectorAll(".ex-controls input[type=range]")) {
      const first = range.value;
      for (let k = 0; k < warm + moves; k++) {
        redraws.takeRecords();
        told.length = 0;
        range.value = +range.min + ((range.max - range.min) * ((k * 7) % 12)) / 12;
        const from = performance.now();
        range.dispatchEvent(new Event("input"));
        await settled();
        if (k >= warm) answers.push(performance.now() - from);
        told.push(...redraws.takeRecords());
        if (k >= warm) taken.push(...told.map((each) => each.duration));
      }
      range.value = first;
      range.dispatchEvent(new Event("input"));
      await settled();
    }
    return [taken, answers]; }"""
# A random control to a random place, a button that pins or sets, or a chart under the pointer. What that
# asks to be drawn is drawn at once, and the browser paints after ten moves: painting takes longest. It gives
# the number of redraws: a chart under the pointer takes none, and a worker's comes when it comes.
WANDER = """async (moves) => {
    const due = [], own = requestAnimationFrame;
    let state = 1, drawn = 0;
    window.requestAnimationFrame = (work) => due.push(work);
    const redraws = new PerformanceObserver((list) => { drawn += list.getEntries().length; });
    redraws.observe({ type: "measure" });
    const random = (n) => {
      state = (48271 * state) % 2147483647;
      return state % n;
    };
    for (let k = 0; k < moves; k++) {
      const inputs = document.querySelectorAll(".ex-controls input[type=range], .ex-time input");
      const which = random(10);
      if (which < 7) {
        const range = inputs[random(inputs.length)];
        range.value = +range.min + (range.max - range.min) * random(100) / 100;
        range.dispatchEvent(new Event("input"));
      } else if (which < 9) {
        const charts = document.querySelectorAll(".ex-panels svg"), chart = charts[random(charts.length)];
        const { x, y, width, height } = chart.getBoundingClientRect(), bubbles = true;
        const place = { clientX: x + (width * random(100)) / 100, clientY: y + (height * random(100)) / 100 };
        chart.dispatchEvent(new PointerEvent("pointermove", { bubbles, ...place }));
      } else {
        const groups = [".ex-presets", ".ex-actions", ".ex-tried"].map((each) => `${each} button`);
        const buttons = [...document.querySelectorAll(groups.join(", "))]
          .filter((each) => !each.disabled && /^(Pin|Reset|Remove)$|^[a-z]/.test(each.textContent));
        buttons[random(buttons.length)].click();
      }
      for (const work of due.splice(0)) work(performance.now());
      if (k % 10 === 9) await new Promise((done) => own(() => setTimeout(done, 0)));
    }
    window.requestAnimationFrame = own;
    for (const work of due.splice(0)) own(work);
    const all = drawn + redraws.takeRecords().length;
    redraws.disconnect();
    return all; }"""
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
        for place, sizes in product(range(shown), ("default", "heaviest")):
            if sizes == "heaviest":
                evaluate(SIZES, place)
            taken, answers = evaluate(REDRAWS, place, WARM, MOVES)
            if not taken:
                continue  # it moves when it is asked to run
            middle, most, worst = np.percentile(taken, [50, 95, 99])
            print(
                f"{path.stem:20}{sizes:10}{len(taken):6}{middle:9.1f}{most:7.1f}{worst:7.1f}"
                f"{np.median(answers):10.1f}{middle / unit:8.1f}",
                flush=True,
            )


def memory(found: list[Path], page: Any) -> None:
    """Redraws, heap, nodes and listeners after some moves and after ten times as many, garbage collected."""
    devtools = page.context.new_cdp_session(page)
    for path in found:
        page.goto(path.as_uri())
        page.evaluate(DRAWN)
        row, done, drawn = [], 0, 0
        for moves in AFTER:
            drawn += page.evaluate(WANDER, moves - done)
            page.evaluate(BACK)
            done = moves
            for _ in range(2):
                devtools.send("HeapProfiler.collectGarbage")
            heap = devtools.send("Runtime.getHeapUsage")["usedSize"] / 1e6
            had = devtools.send("Memory.getDOMCounters")
            row.append(f"{drawn:7,}{heap:9.2f} MB{had['nodes']:8,}{had['jsEventListeners']:7,}")
        print(f"{path.stem:20}{''.join(row)}", flush=True)


def main(names: list[str]) -> int:
    found = pages(names)
    if not found:
        print("no built page of that name: make book", file=sys.stderr)
        return 2
    heads = f"{'redraws':>8}{'median':>9}{'95%':>7}{'99%':>7}{'answer':>7} ms{'loops':>8}"
    print(f"{'Chromium':28}{heads}")
    with sync_playwright() as playwright:
        chromium = browsers.chromium(playwright)
        page = chromium.new_page(viewport={"width": WIDTH, "height": HEIGHT})
        measure(
            found,
            page.goto,
            lambda function, *given: page.evaluate(f"(given) => ({function})(...given)", given),
        )
        after = "".join(f"{f'after {each:,} moves':>34}" for each in AFTER)
        columns = f"{'drawn':>7}{'heap':>12}{'nodes':>8}{'hears':>7}"
        print(f"\n{'':20}{after}\n{'':20}{len(AFTER) * columns}")
        memory(found, page)
        chromium.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
