"""The explorers' Python side: what they take, what a page gets of them, and their links in chapters."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import numpy as np
import pytest
from pace import mostly_slow
from traitlets import List, TraitError

from iclbook import explorers
from iclbook.explorers import EXPLORERS, bundle
from iclbook.explorers.base import Explorer
from iclcore.heads import theory as heads_theory

CLASSES = list(EXPLORERS.values())
GUESSED = [kind for kind in CLASSES if kind.GUESS]
FINITE = [kind for kind in CLASSES if kind.run_finite is not Explorer.run_finite]


def each_of(kinds, *quick):
    """A test of each explorer, of which most are slow."""
    kinds = mostly_slow(kinds, *quick) if quick else kinds
    return pytest.mark.parametrize("kind", kinds, ids=lambda kind: kind.name)


class Parts(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found = {}
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found[tag] = dict(attributes)


@each_of(CLASSES, explorers.RankOne)
def test_a_page_gets_a_picture_and_the_whole_state(kind):
    explorer = kind()
    data, _ = explorer._repr_mimebundle_()
    assert data["text/plain"] == repr(kind())  # no address of this process
    assert data == explorer._repr_mimebundle_()[0]
    parts = Parts(data["text/html"]).found
    state = json.loads(parts["div"]["data-state"])
    assert {each["key"]: each["value"] for each in state["controls"]} == explorer.settings()
    assert {key: state[key] for key in explorer.settings()} == explorer.settings()
    assert len(parts["img"]["alt"]) > 30
    assert len(parts["img"]["src"]) < 80_000
    assert len(parts["div"]["data-state"]) < 150_000


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"heads": 99}, r"^heads takes a whole number from 1 to 10, not 99$"),
        ({"init": -1}, r"^init takes a number from 0.003 to 0.3, not -1$"),
        ({"eigenvalues": [0.5]}, r"^eigenvalues takes a list of 2 to 8 numbers from 0.01 to 0.8, "),
        ({"eigenvalues": [0.5, -1.0]}, r"^eigenvalues takes .* 0.8, not \[0.5, -1.0\]$"),
        ({"spectrum": [0.5, 0.2]}, "^RankOne takes eigenvalues, init, heads.*, not spectrum$"),
    ],
)
def test_a_setting_out_of_range_is_refused(settings, message):
    with pytest.raises((TraitError, ValueError), match=message):
        explorers.RankOne(**settings)
    explorer = explorers.RankOne()
    ((name, value),) = settings.items()
    with pytest.raises((TraitError, AttributeError), match=message):
        setattr(explorer, name, value)
    assert repr(explorer) == repr(explorers.RankOne())


@each_of(CLASSES)
def test_every_control_says_what_it_takes(kind):
    for key in kind.keys_moved():
        with pytest.raises(TraitError, match=rf"^{key} takes (a|one of) .*, not None$"):
            kind(**{key: None})


def test_a_module_with_another_form_of_import_is_refused(tmp_path, monkeypatch):
    (tmp_path / "odd.mjs").write_text('import everything from "./engine.mjs";\n')
    monkeypatch.setattr(bundle, "FOLDER", tmp_path)
    with pytest.raises(ValueError, match=r"odd\.mjs"):
        bundle.widget("odd")


def luminance(colour):
    rgb = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    rgb = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return rgb @ [0.2126, 0.7152, 0.0722]


def test_colours_have_contrast_on_light_and_dark():
    """Lines need 3:1 against the page, words 4.5:1 (WCAG 1.4.11 and 1.4.3)."""
    schemes = re.findall(r"\{([^{}]*--ex-c0[^{}]*)\}", bundle.style())
    assert len(schemes) == 3
    assert schemes[1].split() == schemes[2].split()  # dark by the page and dark by the system
    for scheme in schemes:
        colours = dict(re.findall(r"--ex-([\w-]+): (#[0-9a-f]{6})", scheme))
        for name in colours.keys() - {"page", "field", "rule"}:
            low, high = sorted([luminance(colours[name]), luminance(colours["page"])])
            needed = 4.5 if name in {"ink", "muted", "theory", "warn"} else 3
            assert (high + 0.05) / (low + 0.05) >= needed, name


@each_of(GUESSED)
def test_the_answer_to_a_guess_is_right(kind):
    assert kind(**kind.GUESS["settings"]).answer() == kind.GUESS["right"]
    assert 0 <= kind.GUESS["right"] < len(kind.GUESS["answers"])
    if kind.LEAD:  # the reader sees the controls that the guess moves
        assert kind.GUESS["settings"].keys() <= set(kind.LEAD) <= set(kind.keys_moved())


@each_of(CLASSES)
def test_presets_can_be_set(kind):
    for preset in kind.PRESETS:
        kind(**preset["settings"])


def test_attention_between_linear_and_softmax_has_the_loss_that_is_said():
    """At its ends the package's two losses; between them, drawn contexts: their losses are mixed by s² too.

    On the same contexts, so that what their draw does to both falls out; what is left is of one task's
    order 1/d and e^x/L (``heads_theory.loss`` says so). The mixed term is 2s(1 − s) B μ²φ/L.
    """
    task = heads_theory.MultiTask([20], 100, 1.0)
    omega, mu = np.array([[0.2]]), np.array([[2.5]])
    rng = np.random.default_rng(0)
    x = rng.standard_normal((4000, task.context, 20))
    query, w = rng.standard_normal((2, 4000, 20)) / [[[1.0]], [[np.sqrt(20)]]]
    score = omega * np.einsum("pld,pd->pl", x, query)
    softmax = np.exp(score) / np.exp(score).sum(1, keepdims=True)
    labels, true = np.einsum("pld,pd->pl", x, w), (query * w).sum(1)

    def loss(share):
        p = (1 - share) * score / task.context + share * softmax
        return (mu * (p * labels).sum(1) - true) ** 2

    mixed, expected = loss(0.5), 0.75 * loss(0) + 0.25 * loss(1)
    gap = (mixed - expected)[0]
    error = gap.std() / np.sqrt(len(gap))
    cross = 0.5 * task.d[0] * omega.item() ** 2 * mu.item() ** 2 / task.context
    assert abs(gap.mean()) < 3 * error + 0.25 * cross
    assert 3 * error < 0.25 * cross  # so that a missing mixed term is seen


@pytest.mark.parametrize("share", [0.0, 0.1, 1.0])
def test_no_rate_that_in_weight_takes_is_past_the_edge(share):
    """So its slider has no mark: at the greatest rate the loss falls at every step."""
    greatest = explorers.InWeight.lr.max
    assert np.all(np.diff(explorers.InWeight(share=share, lr=greatest).history().loss) < 0)


BOOK = Path(explorers.__file__).parents[2]
LINK = re.compile(r'<a href="(?:(\w+)\.html)?#(\w+)\?([^"]*)">')


def pages():
    """Each page's name, its words, and its code or directives, from the explorer on."""
    for path in sorted(BOOK.glob("*.ipynb")):
        cells = nbformat.read(path, as_version=4).cells
        yield (
            path.stem,
            "\n".join(each.source for each in cells if each.cell_type == "markdown"),
            cells,
        )
    for path in sorted(BOOK.glob("*.md")):
        yield path.stem, path.read_text(encoding="utf-8"), None


def follow(name, query):
    """The explorer as a link sets it; every control that the link would show must exist."""
    kind = EXPLORERS[name]
    given = dict(part.split("=") for part in query.replace("&amp;", "&").split("&"))
    assert set(filter(None, given.pop("show", "").split(","))) <= set(kind.keys_moved())
    traits = kind.class_traits()
    return kind(
        **{
            key: [float(each) for each in text.split(",")]
            if isinstance(traits[key], List)
            else traits[key].from_string(text)
            for key, text in given.items()
        }
    )


PAGES = {page: (words, cells) for page, words, cells in pages()}


@pytest.mark.parametrize("page", PAGES)
def test_links_lead_to_an_explorer_of_the_page_and_set_it(page):
    for to, name, query in LINK.findall(PAGES[page][0]):
        text, cells = PAGES[to or page]
        kind = EXPLORERS[name].__name__
        calls = f"explorers.{kind}(" in str(cells) or f"{{explorer}} {kind}\n" in text
        assert calls, f"{to or page} has no {name}"
        follow(name, query)


@pytest.mark.parametrize("chapter", [page for page, (_, cells) in PAGES.items() if cells])
def test_an_explorer_has_its_link_above_it_and_figures_below_it(chapter):
    cells = PAGES[chapter][1]
    at = next((i for i, each in enumerate(cells) if "explorers." in each.source), None)
    if at is None:
        return
    above, after = cells[at - 1].source, "".join(each.source for each in cells[at:])
    assert above.startswith(f"<!--name move-{chapter}-->\n") and LINK.search(above)
    assert f"<move-{chapter}>`" in after, "the end of the chapter does not lead to its explorer"
    assert "plot.figure(" in after, "want the explorer above a figure, where the claim is stated"


def other(control):
    """A value that the control takes and does not have."""
    value, kind = control["value"], control["type"]
    if kind == "choice":
        return next(option for option in control["options"] if option != value)
    if kind in {"spectrum", "points"}:
        return [12.0, 0.3, 0.2] if kind == "points" else [0.3, 0.2, 0.1]
    return control["min"] if value != control["min"] else control["max"]


@each_of(CLASSES)
def test_every_control_reaches_python_and_back(kind, monkeypatch):
    """As ipywidgets passes on what a widget in JupyterLab sends; test_jupyterlab.py has a real one."""
    explorer, sent = kind(), []
    monkeypatch.setattr(kind, "send_state", lambda self, key=None: sent.append(key))
    for control in explorer.controls:
        key, value = control["key"], other(control)
        explorer.set_state({key: value})
        assert getattr(explorer, key) == value
        setattr(explorer, key, control["value"])
        assert key in sent


@each_of(FINITE, explorers.Speed)
def test_the_button_runs_on_finite_data(kind, monkeypatch):
    explorer, answers = kind(), []
    monkeypatch.setattr(kind, "send", lambda self, content, buffers=None: answers.append(content))
    explorer._handle_custom_msg({"run": True}, [])
    (answer,) = answers
    assert re.search(r"\d", answer["note"])
    for line in json.loads(json.dumps(answer["overlay"])):
        assert 0 < len(line["x"]) == len(line["y"]) <= 401
        assert np.isfinite(line["y"]).all()
