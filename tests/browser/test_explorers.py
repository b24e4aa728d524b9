"""The explorers in a browser: as a reader meets them, by keyboard, by link, from disk and from a server."""

import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import close
from pace import mostly_slow, slow

from browser.seen import KINDS, drawing, frames, lines_of, table
from iclbook import explorers, measure
from iclbook.explorers.start import start
from iclbook.theory import beyond
from iclcore import RegressionTask, theory, train
from iclcore.heads import theory as heads_theory
from iclcore.moments import of_population

NAMES = sorted(KINDS)
EAGER = [name for name in NAMES if name != "softmax"]  # which trains when it is asked to
BUILT = Path(__file__).resolve().parents[2] / "_build" / "html" / "book"
PATIENCE = 1200  # times 50 ms, on a machine that is busy
CONTROLS = ".ex-controls input[type=range], .ex-controls select, .ex-bar, .ex-time input"


# What is drawn and said, and what a control is: in one question, for each takes longer than its answer.
SEEN = """(ex) => [ex.querySelector(".ex-panels").innerHTML.replaceAll(' class=""', ""),
  ex.querySelector(".ex-summary").innerText]"""
IS = """(each) => ({
  what: each.labels?.[0]?.textContent ?? each.ariaLabel,
  value: each.value ?? each.ariaValueNow,
  number: each.closest(".ex-control")?.querySelector("input[type=number]")?.value,
  last: each.max !== undefined && +each.value >= +each.max,
  options: each.options && [each.selectedIndex, each.length] })"""


def run_for(part, milliseconds: int) -> None:
    """Put the page's clock forward, and wait for a worker, which has a clock of its own."""
    part.page.clock.run_for(milliseconds)
    for _ in range(PATIENCE):
        if part.locator("[aria-busy=true]").count() == 0:
            return
        part.page.wait_for_timeout(50)
        part.page.clock.run_for(50)
    pytest.fail("the worker has not answered")


def wait_for_change(part, before: list[str], what: str) -> None:
    """Drawing and summary differ from before, once the page's clock has gone on."""
    for _ in range(PATIENCE):
        run_for(part, 500)  # what is said waits for the hand to rest
        now = part.evaluate(SEEN)
        if now[0] != before[0] and now[1] != before[1]:
            return
        part.page.wait_for_timeout(50)  # a worker's own time
    changed = [a != b for a, b in zip(now, before, strict=True)]
    pytest.fail(f"{what}: drawing changed: {changed[0]}, summary changed: {changed[1]}")


def move_every_control(part) -> None:
    """By its keys alone; what is drawn and what is said must follow each."""
    for control in part.locator(CONTROLS).element_handles():  # bars go when the dimension falls
        before, was = part.evaluate(SEEN), control.evaluate(IS)
        what = was["what"]
        keys = ["ArrowLeft", "ArrowLeft"] if was["last"] else ["ArrowRight", "ArrowRight"]
        if was["options"]:
            at, length = was["options"]
            keys = ["ArrowUp"] if at == length - 1 else ["ArrowDown"]
        if what == "share in context":
            keys *= 5
        if what == "heads H of the bound":  # one more than tasks are enough
            keys = ["ArrowLeft"]
        control.focus()
        for key in keys:
            part.page.keyboard.press(key)
        now = control.evaluate(IS)
        assert now["value"] != was["value"], what
        if was["number"] is not None:
            assert now["number"] != was["number"], f"{what}: the number beside it"
        wait_for_change(part, before, what)


@slow
def test_an_explorer_does_not_wait_for_the_pages_other_scripts(browser, served):
    page = browser.new_page()
    held = []
    # as MathJax on a slow line: the page waits for it
    page.route("**/late.js", lambda route: held.append(route))
    page.goto(f"{served}/late.html", wait_until="commit")
    page.wait_for_selector(".ex svg .ex-axis", state="attached")
    assert page.evaluate("document.readyState") == "interactive"
    held[0].abort()
    page.close()


@pytest.mark.parametrize("name", mostly_slow(NAMES, "task"))
def test_every_control_moves_by_keyboard(visit, site, name):
    page = visit(f"{site.as_uri()}/{name}.html", clock=True)
    page.clock.run_for(200)
    for part in page.locator(".ex").all():
        first = drawing(part)
        if part.get_attribute("data-explorer") == "softmax":  # which trains only when asked to
            part.get_by_role("button", name="Play").click()
        move_every_control(part)
        part.get_by_role("button", name="Reset").click()
        if part.get_attribute("data-explorer") != "softmax":  # which begins a new run
            run_for(part, 100)
            assert drawing(part) == first
        for field in part.locator("input[type=number]").element_handles():
            low, high = field.evaluate("each => [+each.min, +each.max]")
            field.fill("123456789")
            field.press("Enter")
            assert float(field.input_value()) == high
            field.fill("-5")
            field.press("Shift+Tab")  # on from an eigenvalue's are the bars: it would be another's
            assert float(field.input_value()) == low


def test_without_scripts_there_is_a_picture(visit):
    address = (BUILT / "rank_one.html").as_uri()
    page = visit(address, ready=".explorer img", java_script_enabled=False)
    picture = page.locator(".explorer img")
    assert picture.bounding_box()["width"] > 500
    assert "plateaus of theory" in picture.get_attribute("alt")


def test_a_copied_link_gives_the_same_drawing(visit, served):
    page = visit(f"{served}/rank_one.html", permissions=["clipboard-read", "clipboard-write"])
    page.locator(".ex-bar").first.press("PageUp")
    page.get_by_label("seed, number").fill("77")
    page.get_by_label("seed, number").press("Enter")
    page.get_by_label("heads H, number").fill("3")
    page.get_by_label("heads H, number").press("Enter")
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


# The page is given another link, once it has drawn what came before, and draws what comes of that.
FOLLOW = """async (text) => {
    const drawn = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
    await drawn();
    document.querySelector(".ex-notice").textContent = "";
    const heard = new Promise((done) => addEventListener("hashchange", done, { once: true }));
    location.hash = text;
    await heard;
    await drawn(); }"""


@slow
def test_a_wrong_link_opens_the_default_and_says_so(visit, served):
    page = visit(f"{served}/rank_one.html")
    usual = drawing(page)
    good = page.evaluate("""async () => {
        navigator.clipboard.writeText = () => Promise.reject();  // then the link is shown
        [...document.querySelectorAll("button")].find((each) => each.textContent === "Copy link").click();
        await new Promise((done) => setTimeout(done, 50));
        return document.querySelector(".ex-copied").textContent.split("#")[1]; }""")
    out = good.replace("heads=5", "heads=500")
    body = out.split("&check=")[0]
    hashed = 0x811C9DC5
    for each in body:
        hashed = (hashed ^ ord(each)) * 0x01000193 & 0xFFFFFFFF
    texts = [
        (good[: len(good) // 2], "not whole"),
        (good[:-1], "not whole"),
        (good.replace("seed=1", "seed=2"), "not whole"),
        ("banana=3", "nothing on this page"),
        ("%E0%A4%A", "nothing on this page"),
        (f"{body}&check={hashed:08x}", "heads H is not one"),
        ("rank_one?__proto__=1", "a setting that this explorer has not, __proto__"),
        ("rank_one?heads=500", "heads H is not one"),
        ("rank_one?show=banana", "a control that is not there"),
    ]
    page = visit(f"{served}/rank_one.html#{texts[0][0]}")
    for wrong, says in texts:  # the page is opened with the first, and follows the others
        if wrong != texts[0][0]:
            page.locator(".ex-bar").first.press("PageUp")
            page.evaluate(FOLLOW, wrong)
        assert says in page.locator(".ex-notice").inner_text(), wrong
        frames(page)
        assert re.sub(r"ex-clip-\d+", "", drawing(page)) == re.sub(r"ex-clip-\d+", "", usual)
    page = visit(f"{served}/rank_one.html#{good}")
    assert page.locator(".ex-notice").is_hidden()


def test_three_explorers_on_a_page_do_not_disturb_each_other(visit, site):
    page = visit(f"{site.as_uri()}/two.html")
    first, second, third = page.locator(".ex").all()
    third.locator("svg .ex-axis").first.wait_for(state="attached")
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map((each) => each.id)")
    assert len(ids) == len(set(ids))
    before = drawing(second), drawing(third)
    first.get_by_label("seed, number").fill("9")
    first.get_by_label("seed, number").press("Enter")
    frames(page)
    assert (drawing(second), drawing(third)) == before
    assert first.get_attribute("data-explorer") != second.get_attribute("data-explorer")


def test_play_pause_and_step(visit, site):
    for motion in ("no-preference", "reduce"):
        page = visit(f"{site.as_uri()}/rank_one.html", clock=True, reduced_motion=motion)
        bar = page.locator(".ex-time input")
        page.get_by_role("button", name="Play").click()
        seen = []
        for _ in range(12):
            page.clock.run_for(100)
            seen.append(float(bar.input_value()))
        page.get_by_role("button", name="Pause").click()
        page.clock.run_for(100)  # the last picture that was asked for is drawn
        stopped = float(bar.input_value())
        changes = sum(a != b for a, b in pairwise(seen))
        assert changes >= 6 if motion == "no-preference" else 1 <= changes <= 3
        clock = page.locator(".ex-clock").inner_text()
        page.get_by_role("button", name="one step on").click()
        page.clock.run_for(100)
        assert page.locator(".ex-clock").inner_text() != clock
        page.get_by_role("button", name="one step back").click()
        page.clock.run_for(300)
        assert float(bar.input_value()) == pytest.approx(stopped, abs=1)


@slow
def test_a_run_that_leaves_is_drawn_up_to_there_and_says_why(visit, site):
    page = visit(f"{site.as_uri()}/rank_one.html")
    page.get_by_label("learning rate, number").fill("5")
    page.get_by_label("learning rate, number").press("Enter")
    page.locator(".ex-summary", has_text="past the edge of stability").wait_for()
    text = page.locator(".ex-summary").inner_text()
    left = int(re.search(r"At step ([\d,]+) the run leaves", text)[1].replace(",", ""))
    steps = [float(row[2]) for row in table(page) if row[:2] == ["Loss", "loss"]]
    assert 0 < steps[-1] < left < 4000
    assert "NaN" not in drawing(page)
    page.locator(".ex-time input").press("Home")
    frames(page)
    assert "step 0" in page.locator(".ex-clock").inner_text()


def test_the_csv_holds_what_is_drawn(visit, site):
    """Pixels of the loss are an affine map of the CSV's numbers, to the tenths of its path."""
    page = visit(f"{site.as_uri()}/merged.html")
    x, y = lines_of(page)["Loss", "loss"]
    path = page.locator(".ex-panels figure").first.locator("path.ex-solid").get_attribute("d")
    pixels = np.array([pair.split(",") for pair in re.split("[ML]", path)[1:]], dtype=float).T
    for values, drawn in ((x, pixels[0]), (y, pixels[1])):
        fit = np.polyfit(values, drawn, 1)
        assert np.abs(np.polyval(fit, values) - drawn).max() < 0.11


def course(explorer):
    history = explorer.history()
    return {("Loss", "loss"): (history.steps, history.loss)}


def mixture(explorer):
    series, panel = explorer.history().series, "Loss and test errors"
    names = {"training": "loss", "in-weight": "in_weight", "in-context": "in_context"}
    steps = np.arange(explorer.steps)
    shares = np.maximum(0.004, np.arange(26) / 25)
    floors = [explorers.InWeight(share=each).mixture().floor() for each in shares[::5]]
    return {
        **{(panel, shown): (steps, series[name]) for shown, name in names.items()},
        ("Lowest reachable error, by share; drag the line", "floor"): (
            shares[::5],
            np.array(floors),
        ),
    }


def allocation(explorer):
    task, omega, mu = explorer.setting()
    times = np.linspace(0, explorer.horizon, 121)
    path = heads_theory.flow(task, omega, mu, times)
    each = enumerate(path.loss.T, start=1)
    return {
        ("Loss, all tasks together", "loss"): (times, path.loss.sum(-1)),
        **{("Loss of each task", f"task {i}"): (times, loss) for i, loss in each},
    }


def lengths(explorer):
    n, panel, found = np.arange(1, 101), "Error on contexts of other lengths", {}
    for every, name in ((False, "one length"), (True, "every length")):
        task = explorer.task(every)
        model = explorers.Merged(heads=explorer.heads, init=explorer.init).model()
        weights = start(model, task.eigenvectors, explorer.seed)
        data = of_population(task, model)
        final = train(model, data, explorer.steps, explorer.lr, start=weights).final
        key_query, value = final["key_query"][:, : task.dim, : task.dim], final["value"][:, -1, -1]
        end = np.einsum("h,hda->ad", value, key_query)
        tests = (explorer.task(context=int(each)) for each in n)
        errors = [theory.population_loss(test, end, "context") for test in tests]
        found[panel, name] = (n, np.array(errors))
    return found


def context(explorer):
    w, x, y = explorer.context()
    values, panel = np.array(explorer.eigenvalues), "Error at a query, as the context grows"
    n, found = np.arange(1, 41), {}
    rules = {
        "least squares": lambda x, y: np.linalg.lstsq(x, y)[0],
        "ridge": lambda x, y: np.linalg.solve(x.T @ x + explorer.ridge * np.eye(4), x.T @ y),
        "attention (4)": lambda x, y: theory.learned(
            RegressionTask(dim=4, context=len(y), spectrum=tuple(values)), "context"
        ) * (x.T @ y) / len(y),
    }  # fmt: skip
    for name, rule in rules.items():
        errors = [values @ (rule(x[:k], y[:k]) - w) ** 2 for k in n]
        found[panel, name] = (n, np.array(errors))
    return found


def costs(explorer):
    panel = "Predicted time against sequences"
    naive, moments = explorer.costs()
    at = np.array([explorer.sequences])
    return {
        (panel, "naive, here"): (at, np.array([naive])),
        (panel, "moments, here"): (at, np.array([moments])),
    }


def unequal(explorer):
    signals, found = np.geomspace(0.05, 50, 121), {}
    tasks = [explorer.task(signal=each) for each in signals]
    shares = np.array([task.d * heads_theory.one_head(task)[0][0] ** 2 for task in tasks])
    for i in range(3):
        found["Where one head looks, by the third task's signal", f"task {i + 1}"] = (
            signals,
            shares[:, i],
        )
    lengths = np.array([10, 100, 1000])  # whole numbers of the page's axis
    rows = [explorer.losses(explorer.task(int(n))) for n in lengths]
    for name in rows[0]:
        values = np.array([row[name] for row in rows])
        found["Loss of all tasks, as the context grows", name] = lengths, values
    return found


def carried(explorer):
    lengths, beta = np.geomspace(10, 10_000, 91), np.linspace(0, 8, 33)
    early = np.linspace(0, np.sqrt(np.log(1.1 * explorer.context)), 41)
    losses = beyond.length_generalisation(explorer.task(), lengths)[:, 0]
    power = beyond.participation(beta, explorer.context)
    omega, mu = (each[0, 0] for each in heads_theory.limit(explorer.task()))
    k = np.arange(6)
    return {
        ("Loss on contexts of other lengths", "loss"): (lengths, losses),
        ("How concentrated softmax is", "exact"): (beta, power["exact"]),
        ("How concentrated softmax is", "e^β²/L"): (early, np.exp(early**2) / explorer.context),
        ("How concentrated softmax is", "frozen"): (beta, power["saturated"]),
        ("How much of degree k comes back", "answered"): (k, mu * omega**k),
    }


def mixed(explorer):
    times = np.linspace(0, explorer.horizon, 161)
    losses = [explorer.loss(*each).sum() for each in zip(*explorer.flow(times), strict=True)]
    shares = np.linspace(0, 1, 51)
    ends = np.array([explorer.ends(share).sum() for share in shares])
    return {
        ("Loss of all tasks", "loss"): (times, np.array(losses)),
        ("Where it ends, by share; drag it", "end"): (shares, ends),
    }


PYTHON = {
    "two_papers": mixed, "optimality": unequal, "beyond": carried,
    "merged": course, "rank_one": course, "low_rank": course, "in_weight": mixture,
    "task_allocation": allocation, "context_length": lengths, "task": context, "speed": costs,
}  # fmt: skip


@pytest.mark.parametrize("name", mostly_slow(NAMES, "low_rank", "rank_one", "task"))
def test_what_an_explorer_shows_first_is_pythons_from_disk_and_from_a_server(
    visit, site, served, name
):
    """1e-9, but 1e-8 for the flows, whose Python tolerance is 1e-10 a step."""
    page, other = (visit(f"{address}/{name}.html") for address in (site.as_uri(), served))
    assert drawing(page) == drawing(other)
    if name not in PYTHON:  # it shows nothing yet
        return
    compare(lines_of(page), PYTHON[name](KINDS[name]()), name)


def compare(drawn, expected, name):
    for key, (x, y) in expected.items():
        at, values = drawn[key]
        kept = at <= x[-1]
        if len(x) < len(at):  # some of what the page draws
            kept = np.isclose(at[:, None], x, rtol=1e-9).any(1)
        rows = np.searchsorted(x, at[kept] - 1e-9)
        close(x[rows], at[kept])
        close(
            values[kept],
            y[rows],
            within=1e-8 if name in {"task_allocation", "two_papers"} else 1e-9,
        )


MOVED = {
    "merged": {"v0": -1.5, "u0": 1.49, "heads": 3},
    "task": {"moved": [1.0, 0.9, 2.2, 30.0, -0.5, 1.0]},
    "task_allocation": {"moved": [13.0, 0.03, 0.4, 21.0, 0.01, 0.11, 55.0, 0.1, 0.1]},
}


@pytest.mark.parametrize("name", MOVED)
def test_what_was_moved_in_a_picture_gives_pythons_curves(visit, site, name):
    """From a link, which holds every point that was moved; one that is out of range counts for nothing."""
    given = [
        f"{key}={','.join(map(str, np.atleast_1d(each)))}" for key, each in MOVED[name].items()
    ]
    page = visit(f"{site.as_uri()}/{name}.html#{name}?{'&'.join(given)}")
    compare(lines_of(page), PYTHON[name](KINDS[name](**MOVED[name])), name)


def test_softmax_trains_in_the_page_as_python_does(visit, site):
    """Both models, at the same steps; Python in float64 by autograd."""
    page = visit(f"{site.as_uri()}/softmax.html")
    page.get_by_label("steps, number").fill("200")
    page.get_by_label("steps, number").press("Enter")
    frames(page)
    page.get_by_role("button", name="Play", exact=True).click()
    page.get_by_text("Trained, step 200 of 200").wait_for(timeout=60_000)
    drawn = lines_of(page)
    explorer, edges, third = explorers.Softmax(steps=200), [], {}
    for name, softmax in (("softmax", True), ("linear", False)):
        history = explorer.history(softmax, engine="autograd")
        step, values = drawn["Loss of separate attention", name]
        kept = step < 200
        close(values[kept], history.loss[step[kept].astype(int)])
        p, adds = weigh(explorer.data(), history.final, softmax)
        close(drawn["What each token adds to the answer", name][1], adds.sum(0))
        third[name] = p[2], adds[2]
        if softmax:
            (look,) = (each for each in drawn if each[0].endswith("the sharpest"))
            sharpest = np.argmax((p**2).sum(1))
            assert look[1] == f"head {sharpest + 1}"
            close(drawn[look][1], p[sharpest])
        edges.append(2 / sharpness(explorer.data(), history.final, softmax))
    said = page.locator(".ex-summary", has_text="could not stay").inner_text()
    told = re.search(r"rate of ([\d.]+) softmax .* linear attention past ([\d.]+)\.$", said)
    assert [float(each) for each in told.groups()] == pytest.approx(edges, rel=6e-3)  # 3 digits
    assert page.locator(".ex-edge:visible").count() == 1
    # another head is looked at, and nothing trained anew
    seen_by = page.get_by_label("tokens seen by", exact=True)
    assert seen_by.locator("option:not([hidden])").count() == 1 + explorer.heads
    seen_by.select_option("head 3")
    frames(page)
    drawn = lines_of(page)
    close(drawn["Softmax of head 3", "head 3"][1], third["softmax"][0])
    for name, (_, adds) in third.items():
        close(drawn["What each token adds to the answer, by head 3", name][1], adds)
    assert page.locator(".ex-clock").inner_text() == "step 200 of 200"


def weigh(data, final, softmax):
    """What the first sequence's tokens weigh, and add to the answer, by head; in order of likeness."""
    x, y = data.x[0], data.y[0, :, 0]
    tokens = np.column_stack([x, y * (np.arange(len(x)) < len(x) - 1)])
    order = [*np.argsort(x[:-1] @ x[-1]), len(x) - 1]
    query, key = (np.einsum("hra,a->hr", final["query"], tokens[-1]), final["key"])
    scores = np.einsum("hr,hra,na->hn", query, key, tokens[order])
    p = np.exp(scores) / np.exp(scores).sum(1, keepdims=True) if softmax else scores / len(x)
    return p, np.einsum("hn,ha,na->hn", p, final["value"][:, -1], tokens[order])


def sharpness(data, final, softmax):
    """The largest eigenvalue of the loss's Hessian, over the weights that the page moves."""
    x, y = torch.tensor(data.x), torch.tensor(data.y[:, :, 0])
    known = y * (torch.arange(y.shape[1]) < y.shape[1] - 1)
    tokens, dim = torch.cat([x, known[..., None]], -1), x.shape[2]
    moved = [final["query"][:, 0, :dim], final["key"][:, 0], final["value"][:, -1]]
    sizes = [each.size for each in moved]

    def loss(weights):
        parts = zip(weights.split(sizes), moved, strict=True)
        q, k, v = (part.reshape(like.shape) for part, like in parts)
        scores = torch.einsum("hd,pd,ha,pna->phn", q, x[:, -1], k, tokens)
        p = scores.softmax(-1) if softmax else scores / y.shape[1]
        return ((torch.einsum("phn,ha,pna->p", p, v, tokens) - y[:, -1]) ** 2).mean()

    flat = torch.tensor(np.concatenate([each.ravel() for each in moved]))
    return torch.linalg.eigvalsh(torch.autograd.functional.hessian(loss, flat))[-1].item()


def test_the_head_that_learns_is_pythons(visit, site):
    """In weight: each head's coefficients of labels and of inputs, at the end of the run."""
    page = visit(f"{site.as_uri()}/in_weight.html")
    explorer = explorers.InWeight()
    w, v = explorer.model().factors(explorer.history().final, 4)
    each = np.einsum("hda,hb->hdab", w, v[:, 0])
    of_pairs = (each + each.swapaxes(-1, -2)) * (np.triu(np.ones((5, 5))) - np.eye(5) / 2)
    sizes = (of_pairs**2).sum(1)  # of {a, b}, once each: the label is the last
    labels = sizes[:, :4, 4].sum(1)
    inputs = sizes.sum((1, 2)) - labels
    drawn = [float(row[3]) for row in table(page) if row[0] == "Which head reads what"]
    close(np.reshape(drawn, (8, 2)), np.sqrt(np.stack([labels, inputs], axis=1)))
    assert labels.max() > 10 * np.median(labels)


def test_a_test_error_has_fallen_when_a_quarter_is_lost(visit, site):
    """As the chapter has it. At share 0.1 the in-context error dips by 1%, rises, and loses no quarter."""
    page = visit(f"{site.as_uri()}/in_weight.html")
    said = page.locator(".ex-summary").inner_text()
    series = explorers.InWeight().history().series
    for name in ("in-weight", "in-context"):
        at = re.search(rf"{name} error has lost a quarter at step ([\d,]+)", said)[1]
        expected = measure.fallen(series[name.replace("-", "_")], 0.25)
        assert float(at.replace(",", "")) == pytest.approx(expected, abs=3)  # read between records
    # the run's dot on the floor curve is named beside it
    panel = page.locator("figure", has_text="Lowest reachable error")
    dot, named = (
        panel.locator(each).bounding_box() for each in ("circle.ex-dot", "text >> text=this run")
    )
    assert 0 < named["x"] - dot["x"] - dot["width"] / 2 < 15
    page = visit(f"{site.as_uri()}/in_weight.html#in_weight?share=0.1")
    assert (
        "the in-context error never loses a quarter (least 0.7"
        in page.locator(".ex-summary").inner_text()
    )


def test_softmax_begins_with_untrained_weights_and_says_so(visit, site):
    """What it shows before Play is that start, and follows its settings; the recorded run is named one."""
    page = visit(f"{site.as_uri()}/softmax.html")
    assert "Recorded in Python" in page.locator(".ex-still figcaption").inner_text()
    drawn = lines_of(page)
    (look,) = (each for each in drawn if "the sharpest, before training" in each[0])
    assert drawn[look][1] == pytest.approx(1 / 32, rel=1e-2)
    assert all("before training" in panel for panel, _ in drawn)
    field = page.get_by_label("context N, number")
    field.fill("9")
    field.press("Enter")
    frames(page)
    drawn = lines_of(page)
    (look,) = (each for each in drawn if "the sharpest, before training" in each[0])
    assert drawn[look][1] == pytest.approx(np.full(10, 0.1), rel=1e-2)


def test_a_run_that_leaves_at_its_first_step_has_one_place_in_time(visit, site):
    page = visit(f"{site.as_uri()}/rank_one.html#rank_one?init=0.3&lr=5")
    page.get_by_label("one step on").click()
    frames(page)
    assert page.locator(".ex-clock").inner_text() == "step 0"


def test_what_was_tried_is_let_go(visit, site):
    page = visit(f"{site.as_uri()}/speed.html")
    page.get_by_role("button", name="Pin").click()
    page.get_by_role("button", name="Remove A").click()
    assert page.locator(".ex-tried *").count() == 0


@pytest.mark.parametrize("name", mostly_slow(EAGER, "rank_one", "task"))
def test_a_hand_that_is_faster_than_the_pictures_is_drawn_once_a_frame(visit, site, name):
    """However much a redraw costs, it costs it once; ``bench/redraw.py`` measures how much."""
    page = visit(f"{site.as_uri()}/{name}.html", viewport={"width": 960, "height": 900})
    drawn = page.evaluate("""async () => {
        const frame = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
        let told = 0;
        const counts = [], redraws = new PerformanceObserver((list) => { told += list.getEntries().length; });
        redraws.observe({ type: "measure" });
        for (const range of document.querySelectorAll(".ex-controls input[type=range]")) {
          await frame();
          redraws.takeRecords();
          told = 0;
          for (const share of [0.1, 0.3, 0.7, 0.9, 0.6, 0.4]) {
            range.value = +range.min + (range.max - range.min) * share;
            range.dispatchEvent(new Event("input"));
          }
          do { await frame(); await frame(); } while (document.querySelector("[aria-busy=true]"));
          counts.push(told + redraws.takeRecords().length);
        }
        return counts; }""")
    assert drawn and set(drawn) == {1}


HEAVIEST = {
    "merged": {"eigenvalues": [0.2, 0.18, 0.16, 0.14, 0.12, 0.1, 0.06, 0.04], "heads": 16},
    "rank_one": {"steps": 16_000, "heads": 10},
    "low_rank": {"rank": 8},
    "in_weight": {"share": 0.2},
    "task_allocation": {"heads": 5, "tasks": 5},
    "context_length": {"steps": 4000, "heads": 16, "test": 40},
    "two_papers": {"tasks": 5},
}
LAST = {"two_papers": ("context", 100, 200, 300)}  # what is moved; of the others the seed


@pytest.mark.parametrize("name", mostly_slow(HEAVIEST, "rank_one"))
def test_a_long_run_is_computed_away_from_the_page_and_the_newest_wins(visit, site, name):
    """In a worker made of the page's own script, from disk; what is drawn is what the page computes."""
    given = "&".join(
        f"{key}={','.join(map(str, np.atleast_1d(each)))}" for key, each in HEAVIEST[name].items()
    )
    moved, *places = LAST.get(name, ("seed", 5, 6, 7))
    page = visit(f"{site.as_uri()}/{name}.html")
    began = page.evaluate(
        """async ([first, second, places]) => {
             const Real = Worker, begun = [];
             const frame = () => new Promise((done) => requestAnimationFrame(done));
             window.Worker = function (address) {
               const made = new Real(address), post = made.postMessage.bind(made);
               made.postMessage = (message) => {
                 if (message.name) begun.push(message.state);
                 post(message);
               };
               return made;
             };
             for (const each of places) {  // a frame each, of which the middle one is passed over or drawn
               location.hash = `${first}&${second}=${each}`;
               await frame();
               await frame();
             }
             return begun.length; }""",
        [f"{name}?{given}", moved, places],
    )
    assert began >= 1
    frames(page)
    page.get_by_role("button", name="Remove A").click()  # what the first link kept
    frames(page)
    drawn = lines_of(page)
    (label,) = (each["label"] for each in KINDS[name]().controls if each["key"] == moved)
    assert page.get_by_label(f"{label}, number").input_value() == str(places[-1])
    # computed at once
    own = visit(f"{site.as_uri()}/{name}.html#{name}?{given}&{moved}={places[-1]}")
    assert drawn.keys() == lines_of(own).keys()
    for key, (x, y) in lines_of(own).items():
        close(drawn[key], np.array([x, y]))
    compare(drawn, PYTHON[name](KINDS[name](**HEAVIEST[name], **{moved: places[-1]})), name)


def test_where_workers_are_refused_a_long_run_is_computed_all_the_same(visit, site):
    page = visit(f"{site.as_uri()}/in_weight.html")
    page.evaluate("() => { window.Worker = function () { throw new Error('refused'); }; }")
    field = page.get_by_label("seed, number")
    field.fill("7")
    field.press("Enter")
    frames(page)
    compare(lines_of(page), mixture(explorers.InWeight(seed=7)), "in_weight")
