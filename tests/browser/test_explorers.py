"""The explorers in a browser: what is drawn first, by keyboard, by link, in a worker and in time."""

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from pace import mostly_slow

from browser.seen import compare_with_modules, drawing, enter, frames, lines_of, table
from iclbook.explorers import EXPLORERS, bundle

NAMES = sorted(EXPLORERS)
BUILT = Path(__file__).resolve().parents[2] / "_build" / "html" / "book"
PATIENCE = 1200  # times 50 ms, on a machine that is busy
CONTROLS = ".ex-controls input[type=range], .ex-controls select, .ex-bar, .ex-time input"

# What is drawn and said, and what a control is: one question each, because a question takes long.
SEEN = """(ex) => [ex.querySelector(".ex-panels").innerHTML.replaceAll(' class=""', ""),
  ex.querySelector(".ex-summary").innerText]"""
STATE = """(each) => ({
  label: each.labels?.[0]?.textContent ?? each.ariaLabel,
  value: each.value ?? each.ariaValueNow,
  number: each.closest(".ex-control")?.querySelector("input[type=number]")?.value,
  last: each.max !== undefined && +each.value >= +each.max,
  options: each.options && [each.selectedIndex, each.length] })"""


@pytest.mark.parametrize("name", mostly_slow(NAMES, "task", "in_weight"))
def test_an_explorer_is_drawn_from_disk_and_from_a_server(visit, site, served, name):
    page, other = (visit(f"{address}/{name}.html") for address in (site.as_uri(), served))
    assert drawing(page) == drawing(other)
    compare_with_modules(page, EXPLORERS[name]())


def run_for(part, milliseconds: int) -> None:
    """Put the page's clock forward, and wait for a worker, which has a clock of its own."""
    part.page.clock.run_for(milliseconds)
    for _ in range(PATIENCE):
        if part.locator("[aria-busy=true]").count() == 0:
            return
        part.page.wait_for_timeout(50)
        part.page.clock.run_for(50)
    pytest.fail("the worker has not answered")


def wait_for_change(part, before: list[str], label: str) -> None:
    """Until the drawing and the summary differ from before."""
    for _ in range(PATIENCE):
        run_for(part, 500)  # the summary changes when the hand rests
        now = part.evaluate(SEEN)
        if now[0] != before[0] and now[1] != before[1]:
            return
        part.page.wait_for_timeout(50)
    changed = [a != b for a, b in zip(now, before, strict=True)]
    pytest.fail(f"{label}: drawing changed: {changed[0]}, summary changed: {changed[1]}")


def move_every_control(part) -> None:
    """With the arrow keys; the drawing and the summary must follow each control."""
    for control in part.locator(CONTROLS).element_handles():
        before, was = part.evaluate(SEEN), control.evaluate(STATE)
        keys = ["ArrowLeft"] if was["last"] else ["ArrowRight"]
        if was["options"]:
            at, length = was["options"]
            keys = ["ArrowUp"] if at == length - 1 else ["ArrowDown"]
        elif (
            was["label"] == "heads H of the bound"
        ):  # with one head more than tasks it says nothing new
            keys = ["ArrowLeft"]
        elif was["label"] == "share in context":  # a step is a hundredth
            keys *= 10
        else:
            keys *= 2
        control.focus()
        for key in keys:
            part.page.keyboard.press(key)
        now = control.evaluate(STATE)
        assert now["value"] != was["value"], was["label"]
        if was["number"] is not None:
            assert now["number"] != was["number"], f"{was['label']}: the number beside it"
        wait_for_change(part, before, was["label"])


@pytest.mark.parametrize("name", mostly_slow(NAMES, "task"))
def test_every_control_moves_by_keyboard(visit, site, name):
    page = visit(f"{site.as_uri()}/{name}.html", clock=True)
    page.clock.run_for(200)
    part, live = page.locator(".ex"), name == "softmax"  # which trains only when asked to
    first = drawing(part)
    if live:
        part.get_by_role("button", name="Play").click()
    move_every_control(part)
    part.get_by_role("button", name="Reset").click()
    if not live:
        run_for(part, 100)
        assert drawing(part) == first
    for field in part.locator("input[type=number]").element_handles():
        low, high = field.evaluate("each => [+each.min, +each.max]")
        field.fill("123456789")
        field.press("Enter")
        assert float(field.input_value()) == high
        field.fill("-5")
        field.press("Shift+Tab")  # Tab would go on to the bars, and choose another eigenvalue
        assert float(field.input_value()) == low


LARGE = [each for each in NAMES if "effort" in (bundle.FOLDER / f"{each}.mjs").read_text("utf-8")]
FOLLOW_LINKS = """async ([refused, links]) => {
    const Real = Worker, frame = () => new Promise((done) => requestAnimationFrame(done));
    let begun = 0;
    window.Worker = function (address) {
      if (refused) throw new Error("refused");
      begun++;
      return new Real(address);
    };
    for (const link of links) {
      location.hash = link;
      await frame();
      await frame();
    }
    return begun; }"""


@pytest.mark.parametrize("name", mostly_slow(LARGE, "rank_one"))
@pytest.mark.parametrize("refused", [False, True])
def test_a_long_run_is_computed_in_a_worker_and_the_newest_wins(visit, site, name, refused):
    """With all sizes at their greatest; and in the page itself, if the browser refuses a worker."""
    controls = [each for each in EXPLORERS[name]().controls if each["type"] == "whole"]
    greatest = {each["key"]: each["max"] for each in controls if each["key"] != "seed"}
    moved = next(iter(greatest))
    settings = [{**greatest, moved: greatest[moved] - less} for less in (2, 1, 0)]
    query = ("&".join(f"{key}={value}" for key, value in each.items()) for each in settings)
    page = visit(f"{site.as_uri()}/{name}.html")
    begun = page.evaluate(FOLLOW_LINKS, [refused, [f"{name}?{each}" for each in query]])
    assert (begun == 0) == refused
    frames(page)
    compare_with_modules(page, EXPLORERS[name](**greatest))


def test_without_scripts_there_is_a_picture(visit):
    address = (BUILT / "rank_one.html").as_uri()
    page = visit(address, ready=".explorer img", java_script_enabled=False)
    picture = page.locator(".explorer img")
    assert picture.bounding_box()["width"] > 500
    assert "plateaus of theory" in picture.get_attribute("alt")


def test_a_copied_link_gives_the_same_drawing(visit, served):
    page = visit(f"{served}/rank_one.html", permissions=["clipboard-read", "clipboard-write"])
    page.locator(".ex-bar").first.press("PageUp")
    enter(page, "seed", 77)
    enter(page, "heads H", 3)
    page.locator(".ex-time input").press("PageDown")
    frames(page)
    page.get_by_role("button", name="Copy link").click()
    page.get_by_text("The link is copied.").wait_for()
    link = page.evaluate("navigator.clipboard.readText()")
    assert "seed=77" in link
    again = visit(link)
    unnumbered = [re.sub(r"ex-clip-\d+", "", drawing(each)) for each in (page, again)]
    assert unnumbered[0] == unnumbered[1]
    assert again.locator(".ex-notice").is_hidden()


def test_three_explorers_on_a_page_do_not_disturb_each_other(visit, site):
    page = visit(f"{site.as_uri()}/two.html")
    first, second, third = page.locator(".ex").all()
    third.locator("svg .ex-axis").first.wait_for(state="attached")
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((each) => each.id)")
    assert len(ids) == len(set(ids))
    before = drawing(second), drawing(third)
    enter(first, "seed", 9)
    assert (drawing(second), drawing(third)) == before
    assert first.get_attribute("data-explorer") != second.get_attribute("data-explorer")


@pytest.mark.parametrize(("motion", "few", "many"), [("no-preference", 6, 11), ("reduce", 1, 3)])
def test_play_pause_and_step(visit, site, motion, few, many):
    page = visit(f"{site.as_uri()}/rank_one.html", clock=True, reduced_motion=motion)
    bar, clock = page.locator(".ex-time input"), page.locator(".ex-clock")
    page.get_by_role("button", name="Play").click()
    seen = []
    for _ in range(12):
        page.clock.run_for(100)
        seen.append(float(bar.input_value()))
    page.get_by_role("button", name="Pause").click()
    page.clock.run_for(100)
    stopped, told = float(bar.input_value()), clock.inner_text()
    assert few <= sum(a != b for a, b in pairwise(seen)) <= many
    page.get_by_role("button", name="one step on").click()
    page.clock.run_for(100)
    assert clock.inner_text() != told
    page.get_by_role("button", name="one step back").click()
    page.clock.run_for(300)
    assert float(bar.input_value()) == pytest.approx(stopped, abs=1)


def test_a_run_that_leaves_is_drawn_up_to_there_and_says_why(visit, site):
    page = visit(f"{site.as_uri()}/rank_one.html")
    enter(page, "learning rate", 5)
    page.locator(".ex-summary", has_text="past the edge of stability").wait_for()
    said = page.locator(".ex-summary").inner_text()
    left = int(re.search(r"At step ([\d,]+) the run leaves", said)[1].replace(",", ""))
    steps = [float(row[2]) for row in table(page) if row[:2] == ["Loss", "loss"]]
    assert 0 < steps[-1] < left < 4000
    assert "NaN" not in drawing(page)
    enter(
        page, "initial weights", 0.3
    )  # now it leaves at its first step, and has one place in time
    page.get_by_label("one step on").click()
    frames(page)
    assert page.locator(".ex-clock").inner_text() == "step 0"


def test_the_csv_holds_what_is_drawn(visit, site):
    """Pixels of the loss are an affine map of the CSV's numbers, to the tenths of its path."""
    page = visit(f"{site.as_uri()}/merged.html")
    x, y = lines_of(page)["Loss", "loss"]
    path = page.locator(".ex-panels figure").first.locator("path.ex-solid").get_attribute("d")
    pixels = np.array([pair.split(",") for pair in re.split("[ML]", path)[1:]], dtype=float).T
    for values, drawn in ((x, pixels[0]), (y, pixels[1])):
        fit = np.polyfit(values, drawn, 1)
        assert np.abs(np.polyval(fit, values) - drawn).max() < 0.11


def test_many_moves_in_a_frame_are_drawn_once(visit, site):
    """However much a redraw costs, it is done once; ``bench/redraw.py`` measures how much."""
    page = visit(f"{site.as_uri()}/rank_one.html")
    drawn = page.evaluate("""async () => {
        const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
        let drawn = 0;
        const count = (list) => { drawn += list.getEntries().length; };
        const redraws = new PerformanceObserver(count);
        await frame();
        redraws.observe({ type: "measure" });
        const range = document.querySelector(".ex-controls input[type=range]");
        for (const share of [0.1, 0.3, 0.7, 0.9, 0.6, 0.4]) {
          range.value = +range.min + (range.max - range.min) * share;
          range.dispatchEvent(new Event("input"));
        }
        do { await frame(); await frame(); } while (document.querySelector("[aria-busy=true]"));
        return drawn + redraws.takeRecords().length; }""")
    assert drawn == 1
