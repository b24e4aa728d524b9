"""The explorers' Python side: what they take, what a page gets of them, and every control by a kernel."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import nbformat
import numpy as np
import pytest
from jupyter_client.manager import start_new_kernel
from pace import mostly_slow
from traitlets import List, TraitError

from iclbook import explorers
from iclbook.explorers import bundle
from iclbook.explorers.base import Explorer
from iclbook.theory import beyond
from iclcore import RegressionTask, theory
from iclcore.heads import theory as heads_theory

CLASSES = [getattr(explorers, name) for name in explorers.__all__]


class Parts(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.found = {}
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.found[tag] = dict(attributes)


@pytest.mark.parametrize(
    "kind", mostly_slow(CLASSES, explorers.RankOne), ids=lambda kind: kind.name
)
def test_a_page_gets_a_picture_and_the_whole_state(kind):
    explorer = kind()
    data, _ = explorer._repr_mimebundle_()
    assert data["text/plain"] == repr(kind())  # no address of this process
    assert data == explorer._repr_mimebundle_()[0]
    parts = Parts(data["text/html"]).found
    state = json.loads(parts["div"]["data-state"])
    assert {c["key"]: c["value"] for c in state["controls"]} == explorer.settings()
    assert {key: state[key] for key in explorer.settings()} == explorer.settings()
    assert len(parts["img"]["alt"]) > 60
    assert len(parts["img"]["src"]) < 80_000
    assert len(parts["div"]["data-state"]) < 150_000


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"heads": 99}, r"^heads takes a whole number from 1 to 10, not 99$"),
        ({"init": -1}, r"^init takes a number from 0.003 to 0.3, not -1$"),
        ({"eigenvalues": [0.5]}, r"^eigenvalues takes a list of 2 to 8 numbers from 0.01 to 0.8, "),
        ({"eigenvalues": [0.5, -1.0]}, r"^eigenvalues takes .* 0.8, not \[0.5, -1.0\]$"),
        ({"spectrum": [0.5, 0.2]}, "^RankOne takes eigenvalues, init, heads.*, not spectrum$"),
    ],
)
def test_a_setting_out_of_range_is_refused(settings, says):
    with pytest.raises((TraitError, ValueError), match=says):
        explorers.RankOne(**settings)
    explorer = explorers.RankOne()
    with pytest.raises((TraitError, AttributeError), match=says):
        for name, value in settings.items():
            setattr(explorer, name, value)
    assert repr(explorer) == repr(explorers.RankOne())


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.name)
def test_every_control_says_what_it_takes(kind):
    for key in kind.keys_moved():
        with pytest.raises(TraitError, match=rf"^{key} takes (a|one of) .*, not None$"):
            kind(**{key: None})


def test_a_module_outside_the_bundles_grammar_is_refused(tmp_path, monkeypatch):
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
        for name, colour in colours.items():
            if name in {"page", "field", "rule"}:
                continue
            low, high = sorted([luminance(colour), luminance(colours["page"])])
            needed = 4.5 if name in {"ink", "muted", "theory", "warn"} else 3
            assert (high + 0.05) / (low + 0.05) >= needed, (name, colour)


def half_way(explorer):
    """Steps at which the loss passes the middle of each of theory's drops."""
    loss, levels = explorer.history().loss, theory.plateau_losses(explorer.task())
    return [int(np.argmax(loss < middle)) for middle in (levels[1:] + levels[:-1]) / 2]


def of_merged(asked):
    def half(**settings):
        explorer = explorers.Merged(**settings)
        return np.argmax(explorer.history().loss < explorer.levels().mean())

    assert half(**asked) < 0.8 * half()


def of_rank_one(asked):
    first = [half_way(explorers.RankOne(**each))[0] for each in ({}, asked)]
    assert 2.5 < first[1] / first[0] < 3.5


def of_front(asked):
    """Half of the drop and of the first stair, from a tenth of the weights: ln 10 later, and ten times."""

    def half(name, **settings):
        history = explorers.Front(**settings).history(name, 2_000)
        levels = theory.plateau_losses(history.task)
        first = levels[[0, -1]] if name == "merged" else levels[:2]
        return history.time[np.argmax(history.loss < first.mean())]

    assert half("merged", **asked) / half("merged") < 1.6
    assert 9 < half("separate", **asked) / half("separate") < 11


def of_low_rank(asked):
    explorer = explorers.LowRank(**asked)
    loss, levels = explorer.history().loss, theory.plateau_losses(explorer.task())
    spent = (np.abs(loss[:, None] - levels[1:-1]) < 0.006).sum(0)
    assert (np.flatnonzero(spent > explorer.steps / 12) + 1).tolist() == [4]


def of_softmax(asked):
    def first(softmax, **settings):
        loss = explorers.Softmax(steps=3000, **settings).history(softmax).loss
        return np.argmax(loss < 0.9 * loss[0])

    assert 1.5 < first(True, **asked) / first(True) < 2.5
    assert 8 < first(False, **asked) / first(False) < 12


def of_task_allocation(asked):
    explorer = explorers.TaskAllocation(**asked)
    task, omega, mu = explorer.setting()
    path = heads_theory.flow(task, omega, mu, np.linspace(0, explorer.horizon, 50))
    assert explorer.finished(path).all()


def of_in_weight(asked):
    for settings, smaller in (({}, "in_context"), (asked, "in_weight")):
        ends = explorers.InWeight(**settings).history().series
        assert min(("in_weight", "in_context"), key=lambda name: ends[name][-1]) == smaller


def of_context_length(asked):
    explorer = explorers.ContextLength(**asked)
    task, test = explorer.task(), explorer.task(context=100)
    end = (task.eigenvectors * theory.learned(task, "context")) @ task.eigenvectors.T
    answered = theory.population_loss(test, end * 100 / explorer.context, "context")
    assert answered > sum(task.eigenvalues)  # that of an answer which is always zero


def of_task(asked):
    def errors(noise):
        explorer = explorers.Task(**{**asked, "noise": noise})
        w, x, y = explorer.context()
        x, y, values = (
            x[: explorer.examples],
            y[: explorer.examples],
            np.array(explorer.eigenvalues),
        )
        one = RegressionTask(dim=4, context=explorer.examples, spectrum=tuple(values))
        ridge = np.linalg.solve(x.T @ x + explorer.ridge * np.eye(4), x.T @ y)
        attention = theory.learned(one, "context") * (x.T @ y) / explorer.examples
        answers = (np.linalg.lstsq(x, y)[0], ridge, attention)
        return np.array([values @ (each - w) ** 2 for each in answers])

    assert np.argmax(errors(asked["noise"]) - errors(0.0)) == 0


def of_optimality(asked):
    kept = [
        (
            np.flatnonzero(heads_theory.one_head(explorers.Optimality(**each).task())[0][0]) + 1
        ).tolist()
        for each in ({}, asked)
    ]
    assert kept == [[1, 2, 3], [2]]


def of_beyond(asked):
    before, after = (
        beyond.length_generalisation(explorer.task(), [explorer.test]).item(0)
        for explorer in (explorers.Beyond(), explorers.Beyond(**asked))
    )
    assert 0.4 < 1 - after / before < 0.6


def of_speed(asked):
    naive, moments = np.divide(explorers.Speed(**asked).costs(), explorers.Speed().costs())
    assert (round(naive), round(moments, 1)) == (36, 1.4)


def of_two_papers(asked):
    linear, half, softmax = (
        explorers.TwoPapers(share=share).ends().sum() for share in (0, asked["share"], 1)
    )
    assert 0.2 < (half - linear) / (softmax - linear) < 0.3


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


@pytest.mark.parametrize("share", [0.0, 0.1, 0.6, 1.0])
def test_no_rate_that_in_weight_takes_is_past_the_edge(share):
    """So its slider has no mark: at the greatest rate the loss falls at every step."""
    greatest = explorers.InWeight.lr.max
    assert np.all(np.diff(explorers.InWeight(share=share, lr=greatest).history().loss) < 0)


ASKING = [kind for kind in CLASSES if kind.GUESS]


@pytest.mark.parametrize("kind", ASKING, ids=lambda kind: kind.name)
def test_the_answer_to_a_guess_is_right(kind):
    globals()[f"of_{kind.name}"](kind.GUESS["settings"])


@pytest.mark.parametrize("kind", CLASSES, ids=lambda kind: kind.name)
def test_presets_and_guesses_are_settings_that_can_be_set_and_seen(kind):
    for each in [*kind.PRESETS, *([kind.GUESS] if kind.GUESS else [])]:
        kind(**each["settings"])
    assert set(kind.LEAD) <= set(kind.keys_moved())
    if kind.GUESS:
        assert 0 <= kind.GUESS["right"] < len(kind.GUESS["answers"])
        assert not kind.LEAD or set(kind.GUESS["settings"]) <= set(
            kind.LEAD
        )  # it asks for what is in sight


BOOK = Path(explorers.__file__).parents[2]
WORDS = re.compile(r'<a href="(?:(\w+)\.html)?#(\w+)\?([^"]*)">')


def written():
    """Each chapter's name, its cells, and its text's links to explorers: of which page, which, how set."""
    for path in sorted(BOOK.glob("*.ipynb")):
        cells = nbformat.read(path, as_version=4).cells
        text = "\n".join(cell.source for cell in cells if cell.cell_type == "markdown")
        yield path.stem, cells, WORDS.findall(text)


def linked(name, query):
    """The explorer as a link sets it; of the controls that it would leave, each must be there."""
    kind = next(kind for kind in CLASSES if kind.name == name)
    given = dict(part.split("=") for part in query.replace("&amp;", "&").split("&"))
    assert set(filter(None, given.pop("show", "").split(","))) <= set(kind.keys_moved())
    traits = kind.class_traits()
    return kind(
        **{
            key: [float(each) for each in value.split(",")]
            if isinstance(traits[key], List)
            else traits[key].from_string(value)
            for key, value in given.items()
        }
    )


def test_links_in_the_words_of_a_page_set_an_explorer_of_the_page_that_they_lead_to():
    shown = {
        page: {kind.name for kind in CLASSES if f"explorers.{kind.__name__}(" in str(cells)}
        for page, cells, _ in written()
    }
    pages = {path.stem: path.read_text() for path in BOOK.glob("*.md")}
    for page, text in pages.items():
        shown[page] = {kind.name for kind in CLASSES if f"{{explorer}} {kind.__name__}\n" in text}
    found = [(page, links) for page, _, links in written()]
    found += [(page, WORDS.findall(text)) for page, text in pages.items()]
    for page, links in found:
        for to, name, query in links:
            assert name in shown[to or page], f"{to or page} has no {name}"
            linked(name, query)


def test_an_explorer_stands_beside_its_claim_and_the_end_leads_back_to_it():
    """Figures come after it; the words above it name the place and set it."""
    for chapter, cells, links in written():
        at = next((i for i, cell in enumerate(cells) if "explorers." in cell.source), None)
        if at is None:
            continue
        above, after = cells[at - 1].source, "".join(cell.source for cell in cells[at:])
        assert above.startswith(f"<!--name move-{chapter}-->\n") and WORDS.search(above), chapter
        assert f"<move-{chapter}>`" in after, f"the end of {chapter} does not lead to its explorer"
        assert "plot.figure(" in after, f"{chapter} has its explorer at its end"
        assert all(name == links[0][1] for _, name, _ in links)


SMALL = """a an and are as at be by do does each for from had has have how in instead into is it its like many
    more much no not of on only out over same that the their them then there these they this to was when where
    which who with you your now done make give let set gets"""
WINDOW = 8  # words: what stands so close belongs together


def stems(words):
    """The words of a text without their endings, None for those that every sentence has."""
    text = re.sub(r"<!--.*?-->|\$.*?\$|\{.*?\}", " ", words.lower(), flags=re.DOTALL)
    found = re.findall(r"[^\W\d_]+", text)
    return [None if each in SMALL.split() else each[:5].rstrip("se") for each in found]


def told(above, asked):
    """The words above a question in which its right answer stands beside two things that are asked for."""
    right = set(stems(asked["answers"][asked["right"]])) - {None}
    question = set(stems(asked["question"])) - right - {None}
    found = []
    for sentence in re.split(r"(?<=[.?!])\s+|\n\s*\n", above):
        said = stems(sentence)
        spans = (set(said[i : i + WINDOW]) for i in range(max(1, len(said) - WINDOW + 1)))
        if any(right <= each and len(question & each) >= 2 for each in spans):
            found.append(sentence)
    return found


def above(cells, kind):
    """What a reader of a chapter has read before the explorer asks: its heading too."""
    call = f"explorers.{kind.__name__}("
    place = next((i for i, cell in enumerate(cells) if call in cell.source), None)
    texts = [cell.source for cell in cells[:place] if cell.cell_type == "markdown"]
    return None if place is None else "\n\n".join([*texts, f"{kind.heading}."])


@pytest.mark.parametrize("kind", ASKING, ids=lambda kind: kind.name)
def test_no_answer_stands_above_its_question(kind):
    """No sentence above tells what is asked, and none of what the page says afterwards is said before."""
    texts = [text for _, cells, _ in written() if (text := above(cells, kind)) is not None]
    for text in texts:
        assert not told(text, kind.GUESS)
        for words in re.split(r"[:;.,] ", kind.GUESS["why"]):
            assert len(words) < 25 or words not in text


def test_an_answer_that_stands_above_its_question_is_found():
    """As merged's did: it asked for the number of drops under a heading that names it."""
    cells = next(cells for chapter, cells, _ in written() if chapter == "merged")
    asked = {
        "question": "Four different eigenvalues: in how many abrupt drops does the loss fall?",
        "answers": ["in one", "in two", "in four"],
        "right": 0,
    }
    assert any("one abrupt" in each for each in told(above(cells, explorers.Merged), asked))
    assert told("Merged key and query: one abrupt drop.", asked)
    assert not told("Merged key and query: one abrupt drop.", {**asked, "right": 1})


@pytest.fixture(scope="module")
def kernel():
    manager, client = start_new_kernel(kernel_name="python3")
    yield client
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def run(client, code):
    """Execute; the comm messages and the printed text that came of it."""
    return heard(client, client.execute(code))


def heard(client, request):
    comms, printed = [], ""
    while True:
        message = client.get_iopub_msg(timeout=60)
        content, kind = message["content"], message["msg_type"]
        if message["parent_header"].get("msg_id") != request:
            continue
        if kind == "error":
            pytest.fail("\n".join(content["traceback"]))
        if kind in {"comm_open", "comm_msg"}:
            comms.append(content)
        if kind == "stream":
            printed += content["text"]
        if kind == "status" and content["execution_state"] == "idle":
            return comms, printed


def tell(client, comm, data):
    """What a page's widget sends to its twin in the kernel."""
    message = client.session.msg("comm_msg", {"comm_id": comm, "data": data})
    client.shell_channel.send(message)
    return heard(client, message["header"]["msg_id"])


def other(control):
    """A value that the control takes and does not have."""
    value, kind = control["value"], control["type"]
    if kind == "choice":
        return next(option for option in control["options"] if option != value)
    if kind == "spectrum":
        return [0.3, 0.2, 0.1]
    if kind == "points":
        return [12.0, 0.3, 0.2]
    return control["min"] if value != control["min"] else control["max"]


@pytest.mark.parametrize(
    "kind", mostly_slow(CLASSES, explorers.RankOne), ids=lambda kind: kind.name
)
def test_every_control_reaches_the_kernel_and_back(kernel, kind):
    comms, _ = run(kernel, f"from iclbook import explorers\ne = explorers.{kind.__name__}()")
    comm = next(
        c["comm_id"] for c in comms if c.get("data", {}).get("state", {}).get("_esm") is not None
    )
    _, text = run(kernel, "import json; print(json.dumps(e.controls))")
    controls = json.loads(text)
    assert [c["key"] for c in controls] == kind.keys_moved()
    for control in controls:
        value = other(control)
        tell(kernel, comm, {"method": "update", "state": {control["key"]: value}})
        _, text = run(kernel, f"print(json.dumps(e.{control['key']}))")
        assert json.loads(text) == value
    # set in Python: the page is told
    key, value = controls[-2]["key"], controls[-2]["value"]
    comms, _ = run(kernel, f"e.{key} = {value!r}")
    assert any(c["data"].get("state", {}).get(key) == value for c in comms)


FINITE = [kind for kind in CLASSES if kind.run_finite is not Explorer.run_finite]


@pytest.mark.parametrize("kind", mostly_slow(FINITE, explorers.RankOne), ids=lambda kind: kind.name)
def test_the_button_runs_on_finite_data(kernel, kind):
    quick = {"Softmax": "steps=300", "TaskAllocation": "horizon=5"}.get(kind.__name__, "")
    comms, _ = run(kernel, f"from iclbook import explorers\ne = explorers.{kind.__name__}({quick})")
    comm = next(
        c["comm_id"] for c in comms if c.get("data", {}).get("state", {}).get("_esm") is not None
    )
    comms, _ = tell(kernel, comm, {"method": "custom", "content": {"run": True}})
    answer = next(c["data"]["content"] for c in comms if c["data"].get("method") == "custom")
    assert re.search(r"\d", answer["note"])
    for line in answer["overlay"]:
        assert 0 < len(line["x"]) == len(line["y"]) <= 401
        assert np.isfinite(line["y"]).all()
