"""What a reader's hands do with an explorer: point, drag, swipe, pin, guess, follow a chapter's links."""

import pytest
from conftest import close
from pace import mostly_slow, slow
from playwright.sync_api import expect

from browser.seen import click, drawing, enter, frames, lines_of
from iclbook.explorers import EXPLORERS, Softmax

PHONE = {"viewport": {"width": 390, "height": 700}, "has_touch": True, "is_mobile": True}
SMALL = """() => [...document.querySelectorAll(".ex :is(button, select, input, summary)")]
  .filter((each) => each.checkVisibility() && each.type !== "checkbox")
  .filter((each) => each.getBoundingClientRect().height < 44).map((each) => each.outerHTML)"""
TEXTS = """() => [...document.querySelectorAll(".ex svg text")].map((each) => {
  const { a, b } = each.getScreenCTM();
  return parseFloat(getComputedStyle(each).fontSize) * Math.hypot(a, b); })"""
HEIGHTS = "all => all.map((each) => each.offsetHeight)"
# until the page has not scrolled for ten frames
STILL = """async () => {
  for (let same = 0, y = scrollY; same < 10; same = y === scrollY ? same + 1 : 0) {
    y = scrollY;
    await new Promise((done) => requestAnimationFrame(done));
  } }"""
LIT = "[...document.querySelectorAll('.ex-lit')]"
FOCUSED = "document.activeElement.ariaLabel"


def centre(part):
    box = part.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def number(page, label):
    return float(page.get_by_label(f"{label}, number").input_value())


def value(part):
    return float(part.evaluate("each => each.value ?? each.ariaValueNow"))


def swipe(page, x, y, by_x=0, by_y=0):
    """A finger put down at (x, y) and drawn away, as events of the browser itself."""
    hand = page.context.new_cdp_session(page)

    def touch(kind, *points):
        hand.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": list(points)})

    touch("touchStart", {"x": x, "y": y})
    for k in range(1, 11):
        touch("touchMove", {"x": x + by_x * k / 10, "y": y + by_y * k / 10})
    touch("touchEnd")
    hand.detach()
    frames(page)


def swipe_scrolls(page, x, y):
    """A finger that goes up from (x, y) scrolls the page, which comes to rest."""
    before = page.evaluate("scrollY")
    swipe(page, x, y, by_y=-150)
    page.wait_for_function("y => scrollY > y + 50", arg=before)
    page.evaluate(STILL)


@slow
def test_a_finger_that_scrolls_past_changes_nothing(visit, site):
    page = visit(f"{site.as_uri()}/merged.html", **PHONE)
    slider = page.get_by_label("initial weights", exact=True)
    bar = page.locator(".ex-bar").nth(1)
    for part, at, up in ((slider, 0.2, 0.3), (bar, 0.1, 0.05)):  # not on the bar's grip
        part.scroll_into_view_if_needed()
        before, box = value(part), part.bounding_box()
        swipe_scrolls(page, box["x"] + at * box["width"], box["y"] + up * box["height"])
        assert value(part) == before
    page.evaluate("scrollTo({ top: 0, behavior: 'instant' })")
    swipe(page, *centre(bar.locator(".ex-handle")), by_y=-20)
    assert value(bar) > 0.3


def test_a_bar_grows_past_its_box_and_is_set_as_a_number(visit, site):
    """The scale follows the largest bar, and does not shrink under the hand."""
    page = visit(f"{site.as_uri()}/rank_one.html")
    box, bar = page.locator(".ex-bars").bounding_box(), page.locator(".ex-bar").nth(1)
    x, y = centre(bar)
    page.mouse.move(x, y)
    page.mouse.down()
    assert "λ₂" in page.locator(".ex-chosen").inner_text()  # a press chooses it and moves nothing
    assert value(bar) == 0.3
    for up in (20, 60, 300):
        page.mouse.move(x, box["y"] - up)
    page.mouse.up()
    assert value(bar) == number(page, "eigenvalue") == 0.8
    heights = page.locator(".ex-fill").evaluate_all(HEIGHTS)
    assert heights[0] == pytest.approx(heights[1] / 2, abs=1) and heights[1] < box["height"]
    enter(page, "eigenvalue", 0.25)
    assert value(bar) == 0.25
    click(page, "Reset")
    assert page.locator(".ex-fill").evaluate_all(HEIGHTS)[0] > 0.7 * box["height"]


def test_targets_are_large_for_a_finger_and_text_is_not_small(visit, site):
    page = visit(f"{site.as_uri()}/rank_one.html", **PHONE)
    assert page.evaluate(SMALL) == []
    assert min(page.evaluate(TEXTS)) >= 10
    page.evaluate("document.documentElement.style.fontSize = '32px'")
    frames(page)
    assert min(page.evaluate(TEXTS)) >= 20  # the reader's own text size
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_values_stand_under_the_pointer_on_all_charts_of_the_axis(visit, site):
    page = visit(f"{site.as_uri()}/rank_one.html")
    chart = page.locator(".ex-panels svg").first
    page.mouse.move(*centre(chart))
    shown = page.locator(".ex-values:visible")
    assert shown.count() == 2  # the loss and the heads, not the matrices
    step = float(shown.first.locator("b").inner_text().removeprefix("step ").replace(",", ""))
    drawn = float(shown.first.locator("i").first.inner_text())
    at, loss = lines_of(page)["Loss", "loss"]
    assert drawn == pytest.approx(loss[list(at).index(step)], rel=1e-2)
    chart.focus()  # by keyboard the same, as words
    page.keyboard.press("ArrowLeft")
    frames(page)
    words, now = chart.get_attribute("aria-valuetext"), float(chart.get_attribute("aria-valuenow"))
    assert words.startswith("step ") and "loss" in words
    assert now < 4000
    assert f"step {now:,.0f}" in page.locator(".ex-clock").inner_text()


def test_the_time_is_dragged_on_the_curve(visit, site):
    page = visit(f"{site.as_uri()}/rank_one.html")
    box = page.locator(".ex-panels svg").nth(1).bounding_box()
    before = drawing(page)
    page.mouse.move(box["x"] + 0.8 * box["width"], box["y"] + 60)
    page.mouse.down()
    page.mouse.move(box["x"] + 0.4 * box["width"], box["y"] + 60, steps=3)
    page.mouse.up()
    frames(page)
    assert 0 < value(page.locator(".ex-time input")) < 200
    assert drawing(page) != before
    # what has not changed is not laid out again
    axis = page.locator(".ex-panels svg").first.locator(".ex-axis").element_handle()
    page.locator(".ex-time input").press("End")
    frames(page)
    assert axis.evaluate("each => each.isConnected")


def test_a_control_is_dragged_on_the_axis_that_it_is_on(visit, site):
    page = visit(f"{site.as_uri()}/context_length.html", **PHONE)
    chart = page.locator(".ex-panels svg").first
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    swipe(page, box["x"] + 100, box["y"] + 80, by_x=120)
    length = number(page, "test length")
    assert length > 40
    assert f"Error on {length:g} examples" in page.locator(".ex-panels").inner_text()


def test_a_start_is_dragged_in_the_plane(visit, site):
    """By mouse and by keys; what is drawn and what is set follow it."""
    page = visit(f"{site.as_uri()}/merged.html", viewport={"width": 960, "height": 1900})
    hand = page.get_by_role("slider", name="start of head 1", exact=True)
    x, y = centre(hand)
    page.mouse.move(x + 5, y - 4)  # beside its middle: the point must not jump
    page.mouse.down()
    for k in range(1, 6):
        page.mouse.move(x + 5 - 12 * k, y - 4 - 6 * k)
        frames(page)
    page.mouse.up()
    assert centre(hand) == pytest.approx((x - 60, y - 30), abs=0.5)
    words = hand.get_attribute("aria-valuetext").replace("−", "-").split(", ")
    v, u = (float(each.split(" ")[-1]) for each in words)
    assert v < -0.5 and u > 0.5
    fields = [number(page, f"start of head 1: add {each}") for each in "vu"]
    assert fields == pytest.approx([v, u], abs=0.02)
    assert hand.evaluate("each => each === document.activeElement")
    panel = "Each head's path; drag the start of head 1. Their v·u add up to the dashed curve"
    assert lines_of(page)[panel, "head 1"][:, 0] == pytest.approx([v, u], rel=1e-2)
    for key in ("ArrowRight", "Shift+ArrowDown"):
        hand.press(key)
        frames(page)
    assert centre(hand) == pytest.approx((x - 60 + 4, y - 30 + 20), abs=0.6)
    click(page, "Reset")
    assert centre(hand) == pytest.approx((x, y), abs=0.5)


@slow
def test_a_finger_moves_a_point_and_scrolls_beside_it(visit, site):
    page = visit(f"{site.as_uri()}/task.html", **PHONE)
    hands = page.locator(".ex-hand")
    assert hands.count() == 9
    assert hands.first.bounding_box()["width"] >= 44
    chart = page.locator("figure", has=hands.first)
    chart.scroll_into_view_if_needed()
    # a finger takes the nearest of two points; this one lies alone
    hand = page.get_by_role("slider", name="example 7", exact=True)
    x, y = centre(hand)
    swipe(page, x + 3, y + 3, by_x=30, by_y=40)
    assert centre(hand) == pytest.approx((x + 30, y + 40), abs=1.5)
    page.locator(".ex-summary", has_text="1 example set by hand").wait_for()
    box = chart.bounding_box()
    swipe_scrolls(page, box["x"] + box["width"] - 8, box["y"] + 60)
    click(page, "examples moved by hand: undo")
    page.locator(".ex-summary", has_text="set by hand").wait_for(state="detached")


@slow
def test_points_of_one_picture_are_reached_by_keys(visit, site):
    """One of them is a tab stop; they stay the same points when the picture is drawn in another order."""
    page = visit(f"{site.as_uri()}/task_allocation.html")
    hands = page.locator(".ex-hand")
    assert [each.get_attribute("tabindex") for each in hands.all()] == ["0"] + ["-1"] * 8
    # of all points under a pointer one lights up, and that one is dragged
    for hand in hands.all():
        page.mouse.move(*(each + 3 for each in centre(hand)))
        aimed = page.locator(".ex-aimed").get_attribute("aria-label")
        lit = page.locator(".ex-hand.ex-lit").evaluate_all("all => all.map((e) => e.ariaLabel)")
        page.mouse.down()
        page.mouse.up()
        assert lit == [aimed] and page.evaluate(FOCUSED) == aimed
    hands.first.focus()
    for _ in range(3):
        page.keyboard.press("PageDown")
    name = "start of head 2, task 1"
    assert page.evaluate(FOCUSED) == name
    for _ in range(4):  # upwards: until head 2 has the larger μ on task 1, and takes it
        page.keyboard.press("Shift+ArrowUp")
        frames(page)
    assert page.evaluate(FOCUSED) == name
    page.locator(".ex-summary", has_text="task 1 by head 2").wait_for()


def test_the_same_direction_lights_up_in_curve_matrix_and_label(visit, site):
    page = visit(f"{site.as_uri()}/merged.html")
    page.locator(".ex-bar").nth(2).hover()
    assert {"path", "g", "text", "DIV"} <= set(page.evaluate(LIT + ".map((each) => each.tagName)"))
    tags = page.evaluate(LIT + ".map((each) => each.dataset.tags.split('|'))")
    assert all("e₃" in each for each in tags)
    page.mouse.move(2, 2)
    assert page.locator(".ex-lit").count() == 0


def test_pinned_curves_stay_and_say_what_differed(visit, site):
    page = visit(f"{site.as_uri()}/rank_one.html")
    ends = [lines_of(page)["Loss", "loss"][1][-1]]
    click(page, "Pin")
    enter(page, "heads H", 2)
    page.locator(".ex-tried thead", has_text="heads H").wait_for()
    drawn = lines_of(page)
    ends.append(drawn["Loss", "loss"][1][-1])
    assert drawn["Loss", "A: loss"][1][-1] == ends[0]
    head = page.locator(".ex-tried thead").inner_text().split("\t")
    words = ["curves", "heads H", "eigenvectors half learned at step", "loss at the end"]
    assert [each for each in head if each.strip()] == words
    rows = [row.inner_text().split("\t") for row in page.locator(".ex-tried tbody tr").all()]
    assert [row[:2] for row in rows] == [["A", "5"], ["now", "2"]]
    assert rows[1][2].endswith("–, –")  # two heads learn two
    assert [float(row[3]) for row in rows] == pytest.approx(ends, rel=1e-3)
    assert page.locator("path.ex-pale").count() == 1 + 5
    click(page, "Back to A")
    assert number(page, "heads H") == 5
    click(page, "Remove A")
    assert page.locator("path.ex-pale, .ex-tried:visible").count() == 0


GUESSED = [name for name in EXPLORERS if EXPLORERS[name].GUESS and name != "softmax"]


@pytest.mark.parametrize("name", mostly_slow(GUESSED, "rank_one"))
def test_an_answer_shows_once_it_was_guessed_and_moved_to(visit, site, name):
    ask = EXPLORERS[name].GUESS
    page = visit(f"{site.as_uri()}/{name}.html", whole=False)
    body, answer = page.locator("body"), page.locator(".ex-answer")
    assert ask["why"] not in body.inner_text()
    click(page, ask["answers"][(ask["right"] + 1) % len(ask["answers"])])
    assert ask["move"] in answer.inner_text()
    assert ask["why"] not in body.inner_text()
    click(page, "Move it for me")
    page.locator(".ex-answer", has_text=ask["why"]).wait_for()
    assert answer.inner_text().startswith(f"No: {ask['answers'][ask['right']]}.")
    for preset in EXPLORERS[name].PRESETS:
        click(page, preset["name"])
        page.locator(".ex-look", has_text=preset["look"]).wait_for()


def test_a_link_in_a_chapter_sets_the_explorer(visit, served):
    page = visit(f"{served}/rank_one.html", whole=False)
    page.evaluate(
        """() => document.querySelector("h1").insertAdjacentHTML("afterend",
             '<p>What if <a href="#rank_one?init=0.01&amp;heads=3">there were three</a>?</p>')"""
    )
    for _ in range(2):  # a second time too, after the reader has moved it
        page.get_by_text("there were three").click()
        page.wait_for_function(
            "document.querySelector('[aria-label=\"heads H, number\"]').value === '3'"
        )
        enter(page, "heads H", 7)
    assert number(page, "initial weights") == 0.01


def test_a_lessons_link_shows_the_controls_it_names(visit, served):
    page = visit(f"{served}/rank_one.html", permissions=["clipboard-read", "clipboard-write"])
    enter(page, "learning rate", 0.4)
    page.get_by_text("Link with fewer controls").click()
    page.get_by_label("show learning rate", exact=True).check()
    page.get_by_role("button", name="Copy this link").click()
    page.get_by_text("The link is copied.").wait_for()
    link = page.evaluate("navigator.clipboard.readText()")
    assert page.url == link  # so that it is there again after a reload
    again = visit(link, whole=False)
    controls = again.locator(".ex-control:visible > label")
    assert controls.all_inner_texts() == ["learning rate"]
    assert again.locator(".ex-panels figure:visible").count() == 2
    # a guess or preset that would set a hidden control is not offered
    assert again.locator(".ex-guess:visible").count() == 0
    assert again.locator(".ex-presets button:visible").all_inner_texts() == ["too fast"]
    click(again, "too fast")
    assert number(again, "learning rate") == 5
    click(again, "Reset")  # to what the link set
    assert number(again, "learning rate") == 0.4


def test_softmax_trains_when_asked_and_begins_again_after_its_end(visit, site):
    page = visit(f"{site.as_uri()}/softmax.html")
    assert page.locator(".ex-still img").is_visible()  # a recorded run, until then
    assert "Recorded in Python" in page.locator(".ex-still figcaption").inner_text()
    enter(page, "steps", 250)
    assert "Press Play" in page.locator(".ex-summary").inner_text()
    play = page.get_by_role("button", name="Play", exact=True)
    play.click()
    page.get_by_text("Trained, step 250 of 250").wait_for(timeout=60_000)
    step, loss = lines_of(page)["Loss of separate attention", "softmax"]
    assert step[-1] == 250
    close(loss[:-1], Softmax(steps=250).history(engine="autograd").loss[step[:-1].astype(int)])
    page.evaluate(
        """() => { const clock = document.querySelector(".ex-clock");
             globalThis.told = [];
             const tell = new MutationObserver(() => told.push(clock.textContent));
             tell.observe(clock, { childList: true }); }"""
    )
    play.click()
    expect(play).to_be_visible(timeout=60_000)  # it is "Pause" until all is recorded
    told = page.evaluate("told")
    assert (told[0], told[-1]) == ("step 0 of 250", "step 250 of 250")
    enter(page, "seed", 3)  # a finished run does not begin again by itself
    page.locator(".ex-summary", has_text="Press Play").wait_for()
    expect(play).to_be_visible()


def test_a_run_on_finite_data_is_drawn_until_another_start_is_set(visit, site):
    page = visit(f"{site.as_uri()}/rank_one.html#rank_one?steps=500&context=9")
    click(page, "Run on finite data")
    page.locator(".ex-notice", has_text="Trained here on 2,000 drawn sequences").wait_for()
    frames(page)
    assert ("Loss", "P = 2,000") in lines_of(page)
    enter(page, "seed", 4)
    assert ("Loss", "P = 2,000") not in lines_of(page)


def test_on_paper_there_is_no_control_and_a_bar_is_seen(visit, site):
    page = visit(f"{site.as_uri()}/merged.html")
    fill = page.locator(".ex-fill").first
    page.emulate_media(media="print")
    assert page.locator(".ex :is(button, input, select):visible").count() == 0
    assert fill.evaluate("each => getComputedStyle(each).printColorAdjust") == "exact"
    page.emulate_media(media="screen", forced_colors="active")
    assert fill.evaluate("each => getComputedStyle(each).forcedColorAdjust") == "none"
