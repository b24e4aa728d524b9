"""What hands do with an explorer: point, drag, swipe, pin, guess, follow the words of a chapter."""

import numpy as np
import pytest
from conftest import close
from pace import mostly_slow, slow
from playwright.sync_api import expect

from browser.seen import drawing, frames, lines_of
from iclbook.explorers import EXPLORERS
from iclbook.explorers.start import start
from iclcore import train

PHONE = {"viewport": {"width": 390, "height": 700}, "has_touch": True, "is_mobile": True}
SMALL = """() => [...document.querySelectorAll(".ex :is(button, select, input, summary)")]
  .filter((each) => each.checkVisibility() && each.type !== "checkbox")
  .filter((each) => each.getBoundingClientRect().height < 44).map((each) => each.outerHTML)"""
TEXTS = """() => [...document.querySelectorAll(".ex svg text")].map((each) => {
  const { a, b } = each.getScreenCTM();
  return parseFloat(getComputedStyle(each).fontSize) * Math.hypot(a, b); })"""
# the page has stood at one place for ten frames
STILL = """async () => {
  for (let same = 0, y = scrollY; same < 10; same = y === scrollY ? same + 1 : 0) {
    y = scrollY;
    await new Promise((done) => requestAnimationFrame(done));
  } }"""
LIT = "[...document.querySelectorAll('.ex-lit')]"


def centre(part):
    box = part.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def swipe(page, x, y, by_x=0, by_y=0):
    """A finger put down at (x, y) and drawn away, as the browser itself hears of it."""
    hand = page.context.new_cdp_session(page)

    def touch(kind, *points):
        hand.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": list(points)})

    touch("touchStart", {"x": x, "y": y})
    for k in range(1, 11):
        touch("touchMove", {"x": x + by_x * k / 10, "y": y + by_y * k / 10})
    touch("touchEnd")
    hand.detach()


def scrolls(page, y):
    """The page goes on by more than 50 px, and comes to rest."""
    page.wait_for_function("y => scrollY > y + 50", arg=y)
    page.evaluate(STILL)


@slow
def test_a_finger_that_scrolls_past_changes_nothing(visit, site):
    page = visit(f"{site.as_uri()}/merged.html", **PHONE)
    slider = page.get_by_label("initial weights", exact=True)
    bar = page.locator(".ex-bar").nth(1)
    for part, at, up in ((slider, 0.2, 0.3), (bar, 0.1, 0.05)):  # not on the bar's grip
        part.scroll_into_view_if_needed()
        before, box = page.evaluate("scrollY"), part.bounding_box()
        value = part.evaluate("each => each.value ?? each.ariaValueNow")
        swipe(page, box["x"] + at * box["width"], box["y"] + up * box["height"], by_y=-150)
        scrolls(page, before)
        assert part.evaluate("each => each.value ?? each.ariaValueNow") == value
    page.evaluate("scrollTo({ top: 0, behavior: 'instant' })")
    grip = bar.locator(".ex-handle")
    swipe(page, *centre(grip), by_y=-20)
    assert float(bar.get_attribute("aria-valuenow")) > 0.3


def test_a_bar_grows_past_its_box_and_is_set_as_a_number(visit, site):
    """The scale follows the largest bar, and does not shrink under the hand."""
    page = visit(f"{site.as_uri()}/rank_one.html")
    box, bar = page.locator(".ex-bars").bounding_box(), page.locator(".ex-bar").nth(1)
    x, y = centre(bar)
    page.mouse.move(x, y)
    page.mouse.down()
    assert "λ₂" in page.locator(".ex-chosen").inner_text()  # a press chooses it and moves nothing
    assert float(bar.get_attribute("aria-valuenow")) == 0.3
    for up in (20, 60, 300):
        page.mouse.move(x, box["y"] - up)
    page.mouse.up()
    assert float(bar.get_attribute("aria-valuenow")) == 0.8
    field = page.get_by_label("eigenvalue, number")
    assert float(field.input_value()) == 0.8  # of the bar that was moved
    heights = page.locator(".ex-fill").evaluate_all("all => all.map((each) => each.offsetHeight)")
    assert heights[0] == pytest.approx(heights[1] / 2, abs=1) and heights[1] < box["height"]
    field.fill("0.25")
    field.press("Enter")
    assert float(bar.get_attribute("aria-valuenow")) == 0.25
    page.get_by_role("button", name="Reset").click()
    heights = page.locator(".ex-fill").evaluate_all("all => all.map((each) => each.offsetHeight)")
    assert heights[0] > 0.7 * box["height"]


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
    x, y = centre(chart)
    page.mouse.move(x, y)
    said = page.locator(".ex-values:visible")
    assert said.count() == 2  # the loss and the heads, not the matrices
    step = float(said.first.locator("b").inner_text().removeprefix("step ").replace(",", ""))
    value = float(said.first.locator("i").first.inner_text())
    at, loss = lines_of(page)["Loss", "loss"]
    assert value == pytest.approx(loss[list(at).index(step)], rel=1e-2)
    # by keyboard the same, as words
    chart.focus()
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
    assert 0 < float(page.locator(".ex-time input").input_value()) < 200
    assert drawing(page) != before
    # what has not changed is not laid out anew
    axis = page.locator(".ex-panels svg").first.locator(".ex-axis").element_handle()
    page.locator(".ex-time input").press("End")
    frames(page)
    assert axis.evaluate("each => each.isConnected")


def test_a_control_is_dragged_on_the_axis_that_it_is_on(visit, site):
    page = visit(f"{site.as_uri()}/context_length.html", **PHONE)
    chart, field = page.locator(".ex-panels svg").first, page.get_by_label("test length, number")
    chart.scroll_into_view_if_needed()
    box = chart.bounding_box()
    swipe(page, box["x"] + 100, box["y"] + 80, by_x=120)
    assert float(field.input_value()) > 40
    frames(page)
    assert f"Error on {field.input_value()} examples" in page.locator(".ex-panels").inner_text()


def where(page, hand):
    """Where a point is moved to, as the slider that it is tells: x and y."""
    return [
        float(each.split(" ")[-1].replace("−", "-"))
        for each in hand.get_attribute("aria-valuetext").split(", ")
    ]


def test_a_start_is_dragged_in_the_plane(visit, site):
    """By mouse, which keeps hold of it, and by keys; what is drawn and what is set follow it."""
    page = visit(f"{site.as_uri()}/merged.html", viewport={"width": 960, "height": 1900})
    hand = page.get_by_role("slider", name="start of head 1", exact=True)
    fields = [page.get_by_label(f"start of head 1: add {each}, number") for each in "vu"]
    x, y = centre(hand)
    page.mouse.move(x + 5, y - 4)  # not quite at its middle: the point does not jump there
    page.mouse.down()
    for k in range(1, 6):
        page.mouse.move(x + 5 - 12 * k, y - 4 - 6 * k)
        frames(page)
    page.mouse.up()
    assert centre(hand) == pytest.approx((x - 60, y - 30), abs=0.5)
    v, u = where(page, hand)
    assert v < -0.5 and u > 0.5
    assert [float(each.input_value()) for each in fields] == pytest.approx([v, u], abs=0.02)
    assert hand.evaluate("each => each === document.activeElement")
    path = lines_of(page)[
        "Each head's path; drag the start of head 1. Their v·u add up to the dashed curve",
        "head 1",
    ]
    assert path[:, 0] == pytest.approx([v, u], rel=1e-2)
    hand.press("ArrowRight")
    frames(page)
    hand.press("Shift+ArrowDown")
    frames(page)
    assert centre(hand) == pytest.approx((x - 60 + 4, y - 30 + 20), abs=0.6)
    page.get_by_role("button", name="Reset").click()
    frames(page)
    assert centre(hand) == pytest.approx((x, y), abs=0.5)


@slow
def test_a_finger_moves_a_point_and_scrolls_beside_it(visit, site):
    page = visit(f"{site.as_uri()}/task.html", **PHONE)
    hands = page.locator(".ex-hand")
    assert hands.count() == 9
    assert hands.first.bounding_box()["width"] >= 44
    chart = page.locator("figure", has=hands.first)
    chart.scroll_into_view_if_needed()
    # of two points under the finger it takes the nearest: this one lies alone
    hand = page.get_by_role("slider", name="example 7", exact=True)
    x, y = centre(hand)
    swipe(page, x + 3, y + 3, by_x=30, by_y=40)
    frames(page)
    assert centre(hand) == pytest.approx((x + 30, y + 40), abs=1.5)
    page.locator(".ex-summary", has_text="1 example set by hand").wait_for()
    assert page.get_by_role("button", name="examples moved by hand: undo").is_enabled()
    before, box = page.evaluate("scrollY"), chart.bounding_box()
    swipe(page, box["x"] + box["width"] - 8, box["y"] + 60, by_y=-150)
    scrolls(page, before)
    page.get_by_role("button", name="examples moved by hand: undo").click()
    page.locator(".ex-summary", has_text="set by hand").wait_for(state="detached")


@slow
def test_points_of_one_picture_are_reached_by_keys(visit, site):
    """One of them is a tab stop; they stay the same points when the picture is drawn in another order."""
    page = visit(f"{site.as_uri()}/task_allocation.html")
    hands = page.locator(".ex-hand")
    assert hands.count() == 9
    assert [each.get_attribute("tabindex") for each in hands.all()] == ["0"] + ["-1"] * 8
    # of all that lie under a pointer one lights up, and that one is dragged
    for at in range(9):
        page.mouse.move(*(each + 3 for each in centre(hands.nth(at))))
        aimed = page.locator(".ex-aimed").get_attribute("aria-label")
        lit = page.evaluate(
            "[...document.querySelectorAll('.ex-hand.ex-lit')].map((e) => e.ariaLabel)"
        )
        page.mouse.down()
        page.mouse.up()
        assert lit == [aimed] and page.evaluate("document.activeElement.ariaLabel") == aimed
    hands.first.focus()
    for _ in range(3):
        page.keyboard.press("PageDown")
    name = "start of head 2, task 1"
    named = "document.activeElement.ariaLabel"
    assert page.evaluate(named) == name
    for _ in range(4):  # upwards: until head 2 has the larger μ on task 1, and takes it
        page.keyboard.press("Shift+ArrowUp")
        frames(page)
    assert page.evaluate(named) == name
    page.locator(".ex-summary", has_text="task 1 by head 2").wait_for()
    assert [each.get_attribute("tabindex") for each in hands.all()].count("0") == 1


def test_starts_of_heads_that_are_gone_are_not_counted(visit, site):
    """With their head they come back."""
    moved = "moved=11,0.02,0.2,31,0.02,0.2"
    page = visit(f"{site.as_uri()}/task_allocation.html#task_allocation?{moved}")
    said, heads = page.locator(".ex-control output"), page.get_by_label("heads H, number")
    first, both = "head 1, task 1", "head 1, task 1; head 3, task 1"
    for number, which in (("3", both), ("2", first), ("3", both)):
        heads.fill(number)
        heads.press("Enter")
        frames(page)
        assert said.inner_text() == which


def test_the_same_direction_lights_up_in_curve_matrix_and_label(visit, site):
    page = visit(f"{site.as_uri()}/merged.html")
    page.locator(".ex-bar").nth(2).hover()
    assert {"path", "g", "text", "DIV"} <= set(page.evaluate(LIT + ".map((each) => each.tagName)"))
    tags = page.evaluate(LIT + ".map((each) => each.dataset.tags.split('|'))")
    assert all("e₃" in each for each in tags)
    page.mouse.move(2, 2)
    assert page.locator(".ex-lit").count() == 0


@slow
def test_pinned_curves_stay_and_say_what_differed(visit, site):
    page = visit(f"{site.as_uri()}/rank_one.html")
    ends = [lines_of(page)["Loss", "loss"][1][-1]]
    page.get_by_role("button", name="Pin").click()
    page.get_by_label("heads H, number").fill("2")
    page.get_by_label("heads H, number").press("Enter")
    page.locator(".ex-tried thead", has_text="heads H").wait_for()
    drawn = lines_of(page)
    ends.append(drawn["Loss", "loss"][1][-1])
    assert drawn["Loss", "A: loss"][1][-1] == ends[0]
    head = page.locator(".ex-tried thead").inner_text().split("\t")
    assert [each for each in head if each.strip()] == [
        "curves", "heads H", "eigenvectors half learned at step", "loss at the end",
    ]  # fmt: skip
    rows = [row.inner_text().split("\t") for row in page.locator(".ex-tried tbody tr").all()]
    assert [row[:2] for row in rows] == [["A", "5"], ["now", "2"]]
    assert rows[1][2].endswith("–, –")  # two heads learn two
    assert [float(row[3]) for row in rows] == pytest.approx(ends, rel=1e-3)
    assert page.locator("path.ex-pale").count() == 1 + 5
    page.get_by_role("button", name="Back to A").click()
    frames(page)
    assert page.get_by_label("heads H, number").input_value() == "5"
    page.get_by_role("button", name="Remove A").click()
    frames(page)
    assert page.locator("path.ex-pale, .ex-tried:visible").count() == 0


ASKED = [name for name in EXPLORERS if EXPLORERS[name].GUESS and name != "softmax"]


@pytest.mark.parametrize("name", mostly_slow(ASKED, "rank_one", "task"))
def test_an_answer_shows_once_it_was_guessed_and_moved_to(visit, site, name):
    ask = EXPLORERS[name].GUESS
    page = visit(f"{site.as_uri()}/{name}.html", whole=False)
    assert ask["why"] not in page.locator("body").inner_text()
    wrong = (ask["right"] + 1) % len(ask["answers"])
    page.get_by_role("button", name=ask["answers"][wrong], exact=True).click()
    assert ask["move"] in page.locator(".ex-answer").inner_text()
    assert ask["why"] not in page.locator("body").inner_text()
    page.get_by_role("button", name="Move it for me").click()
    page.locator(".ex-answer", has_text=ask["why"]).wait_for()
    assert (
        page.locator(".ex-answer").inner_text().startswith(f"No: {ask['answers'][ask['right']]}.")
    )
    for preset in EXPLORERS[name].PRESETS:
        page.get_by_role("button", name=preset["name"], exact=True).click()
        page.locator(".ex-look", has_text=preset["look"]).wait_for()


def test_words_of_a_chapter_set_the_explorer(visit, served):
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
        field = page.get_by_label("heads H, number")
        field.fill("7")
        field.press("Enter")
    assert page.get_by_label("initial weights, number").input_value() == "0.01"


def test_a_lessons_link_shows_the_controls_it_names(visit, served):
    page = visit(f"{served}/rank_one.html", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_label("learning rate, number").fill("0.4")
    page.get_by_label("learning rate, number").press("Enter")
    page.get_by_text("Link with fewer controls").click()
    page.get_by_label("show learning rate", exact=True).check()
    page.get_by_role("button", name="Copy this link").click()
    page.get_by_text("The link is copied.").wait_for()
    link = page.evaluate("navigator.clipboard.readText()")
    assert page.url == link  # and is there again after a reload
    again = visit(link, whole=False)
    controls = again.locator(".ex-control:visible > label")
    assert controls.all_inner_texts() == ["learning rate"]
    assert again.locator(".ex-panels figure:visible").count() == 2
    # what would set a hidden control is not offered, and Reset goes back to what the link set
    assert again.locator(".ex-guess:visible").count() == 0
    assert again.locator(".ex-presets button:visible").all_inner_texts() == ["too fast"]
    again.get_by_role("button", name="too fast").click()
    assert again.get_by_label("learning rate, number").input_value() == "5"
    again.get_by_role("button", name="Reset").click()
    assert again.get_by_label("learning rate, number").input_value() == "0.4"
    other = link.replace("?v=1&", "?v=0&").split("&check=")[0]
    hashed = 0x811C9DC5
    for each in other.split("#")[1]:
        hashed = (hashed ^ ord(each)) * 0x01000193 & 0xFFFFFFFF
    old = visit(f"{other}&check={hashed:08x}", whole=False)
    assert "another version" in old.locator(".ex-notice").inner_text()


def test_a_link_unfolds_what_was_unfolded(visit, served):
    page = visit(f"{served}/rank_one.html", whole=False, permissions=["clipboard-write"])
    for kept in (1, 4):
        page.get_by_role("button", name="Copy link").click()
        page.get_by_text("The link is copied.").wait_for()
        again = visit(page.url, whole=False)
        frames(again)
        seen = again.locator(".ex-panels figure:visible").count()
        assert seen == {1: 2, 4: 4}[kept]
        page.get_by_role("button", name="All settings").click() if kept == 1 else None


def test_another_seed_stands_beside_the_first(visit, site):
    page = visit(f"{site.as_uri()}/rank_one.html")
    one = lines_of(page)["Loss", "loss"]
    page.get_by_role("button", name="Add another seed").click()
    frames(page)
    drawn = lines_of(page)
    assert page.get_by_label("seed, number").input_value() == "2"
    close(drawn["Loss", "A: loss"], one)
    assert np.abs(drawn["Loss", "loss"][1] - one[1]).max() > 0.01
    page.locator(".ex-tried thead", has_text="seed").wait_for()  # words come when the hand rests
    assert page.locator(".ex-tried thead").inner_text().split()[:2] == ["curves", "seed"]


RATES = {"rank_one": ("2", "1.6"), "low_rank": ("3", ""), "context_length": ("2", "1.4")}


@pytest.mark.parametrize("name", RATES)
def test_a_rate_past_the_edge_is_named_where_it_is_set(visit, site, name):
    page = visit(f"{site.as_uri()}/{name}.html")
    assert page.locator(".ex-edge:visible").count() == 1
    assert page.locator(".ex-past:visible").count() == 0
    page.get_by_text("edge of stability").wait_for()  # what the tick is
    rate, edge = RATES[name]
    page.get_by_label("learning rate, number").fill(rate)
    page.get_by_label("learning rate, number").press("Enter")
    page.locator(".ex-past", has_text=f"past the edge of stability, {edge}").wait_for()
    assert "past the edge" in page.get_by_label("learning rate", exact=True).get_attribute(
        "aria-valuetext"
    )


@slow
def test_softmax_trains_when_asked_and_begins_again_after_its_end(visit, site):
    page = visit(f"{site.as_uri()}/softmax.html")
    assert page.locator(".ex-still img").is_visible()  # the finished curves, until then
    seed, steps = page.get_by_label("seed, number"), page.get_by_label("steps, number")
    steps.fill("250")
    steps.press("Enter")
    frames(page)
    assert "Press Play" in page.locator(".ex-summary").inner_text()
    page.get_by_role("button", name="Play", exact=True).click()
    page.get_by_text("Trained, step 250 of 250").wait_for(timeout=60_000)
    drawn = lines_of(page)
    steps_of = {key: tuple(values[0]) for key, values in drawn.items()}
    assert (
        steps_of["Value of each head, linear", "head 1"]
        == steps_of["Loss of separate attention", "softmax"]
    )
    assert steps_of["Loss of separate attention", "softmax"][-1] == 250
    page.evaluate(
        """() => { const clock = document.querySelector(".ex-clock");
             globalThis.told = [];
             const tell = new MutationObserver(() => told.push(clock.textContent));
             tell.observe(clock, { childList: true }); }"""
    )
    play = page.get_by_role("button", name="Play", exact=True)
    play.click()
    # which is "Pause" until all is recorded; the clock may say the last step before
    expect(play).to_be_visible(timeout=60_000)
    told = page.evaluate("told")
    assert (told[0], told[-1]) == ("step 0 of 250", "step 250 of 250")
    seed.fill("3")  # what rests, rests
    seed.press("Enter")
    page.locator(".ex-summary", has_text="Press Play").wait_for()
    expect(play).to_be_visible()


@slow
def test_a_run_that_leaves_shows_how_high_it_went(visit, site):
    page = visit(f"{site.as_uri()}/softmax.html")
    page.get_by_label("learning rate, number").fill("3")
    page.get_by_label("learning rate, number").press("Enter")
    page.get_by_role("button", name="Play", exact=True).click()
    page.locator(".ex-summary", has_text="a run leaves").wait_for(timeout=60_000)
    assert "A run left" in page.locator(".ex-summary").inner_text()
    highest = max(
        max(y) for (panel, _), (_, y) in lines_of(page).items() if panel.startswith("Loss")
    )
    assert highest > 1e3
    assert page.locator("path.ex-cut").count() >= 1


@pytest.mark.parametrize("name", mostly_slow(["merged", "rank_one", "low_rank"], "rank_one"))
def test_a_run_on_finite_data_is_pythons(visit, site, name):
    """Without a kernel: the same start and the same 2,000 sequences, their averages and every weight."""
    page = visit(f"{site.as_uri()}/{name}.html#{name}?steps=500&context=9")
    page.get_by_role("button", name="Run on finite data").click()
    page.locator(".ex-notice", has_text="Trained here on 2,000 drawn sequences").wait_for()
    frames(page)
    step, loss = lines_of(page)["Loss", "P = 2,000"]
    explorer = EXPLORERS[name](steps=500, context=9)
    values, settings = list(explorer.eigenvalues), {"seed": explorer.seed, "context": 9}
    data = EXPLORERS["softmax"](eigenvalues=values, **settings).sample(2000)
    own = start(explorer.model(), np.eye(len(values)), explorer.seed)
    history = train(explorer.model(), data, 500, explorer.lr, start=own)
    kept = step < 500
    close(loss[kept], history.loss[step[kept].astype(int)])
    assert f"reach on them is {history.floor:.3f}" in page.locator(".ex-notice").inner_text()
    page.get_by_label("seed, number").fill("4")
    page.get_by_label("seed, number").press("Enter")  # another start is not that run's
    frames(page)
    assert ("Loss", "P = 2,000") not in lines_of(page)


def test_on_paper_there_is_no_control_and_a_bar_is_seen(visit, site):
    page = visit(f"{site.as_uri()}/merged.html")
    page.emulate_media(media="print")
    assert page.locator(".ex :is(button, input, select):visible").count() == 0
    assert (
        page.locator(".ex-fill").first.evaluate("each => getComputedStyle(each).printColorAdjust")
        == "exact"
    )
    page.emulate_media(media="screen", forced_colors="active")
    assert (
        page.locator(".ex-fill").first.evaluate("each => getComputedStyle(each).forcedColorAdjust")
        == "none"
    )
