"""A chapter shows its experiments: what its cells may hold, and what becomes of them at other settings."""

import ast
import math
import re
from pathlib import Path

import nbformat
import needed
import other_settings
import prose
import pytest
from chapters import chapters
from execute import Result
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output
from pace import slow

from iclbook import chapter
from iclbook.__main__ import main
from iclbook.quote import QUOTED

NOTEBOOKS = {name: nbformat.read(path, as_version=4) for name, path in chapters().items()}
HIDDEN = {"hide-input", "hide-cell", "remove-input", "remove-cell"}
LINES, COLUMNS = 15, 78

# A number as a caption may type it: 20,001 or 20{,}001, .02, 5\cdot10^{-3}, 10^{-6}, six.
WORDS = dict(one=1, two=2, three=3, four=4, five=5, six=6, seven=7, eight=8, nine=9, ten=10)
TYPED = rf"(?P<typed>[\d.][\d,.{{}}]*(?:\\cdot\s?)?(?:10\^\{{-?\d+\}})?|{'|'.join(WORDS)})"
SPOKEN = {"lr": "learning rate", "init": "initial weights", "context": "examples"}  # else its name


def code(notebook, hidden=None):
    """(number, cell) of code cells; of the hidden or of the visible ones only."""
    for number, cell in enumerate(notebook.cells, start=1):
        is_hidden = bool(HIDDEN & set(cell.metadata.get("tags", ())))
        if cell.cell_type == "code" and hidden in (None, is_hidden):
            yield number, cell


def long_cells(notebook):
    for number, cell in code(notebook, hidden=False):
        lines = cell.source.splitlines()
        if len(lines) > LINES or max(map(len, lines)) > COLUMNS:
            yield f"cell {number} is longer than {LINES} lines of {COLUMNS} columns"


def bad_parameters(notebook):
    first, _ = next(each for each in code(notebook) if each[1].get("id") != needed.CELL)
    if chapter.parameters_cell(notebook.cells) != first - 1:
        yield "the first code cell is not tagged parameters"
        return
    source = notebook.cells[first - 1].source
    for line, node in zip(source.splitlines(), ast.parse(source).body, strict=False):
        kind = ast.unparse(node.annotation) if isinstance(node, ast.AnnAssign) else None
        value = ast.literal_eval(node.value)
        if kind is None or kind.partition("[")[0] != type(value).__name__ or "  # " not in line:
            yield f"want `name: type = value  # what it is`, a line each: {line}"
    if len(source.splitlines()) != len(ast.parse(source).body):
        yield "the parameters are not one a line"


def rebound_parameters(notebook):
    known = chapter.parameters(notebook.cells)
    for number, cell in code(notebook):
        for name in chapter.binds(ast.parse(cell.source)):
            if name in known and number != chapter.parameters_cell(notebook.cells) + 1:
                yield f"cell {number} binds the parameter {name} again"


def hidden_experiments(notebook):
    """Whatever comes from iclcore is a task, a model, a run or theory."""
    imports = [
        (number, cell, node)
        for number, cell in code(notebook)
        for node in ast.walk(ast.parse(cell.source))
        if isinstance(node, ast.Import | ast.ImportFrom)
        and any(
            name.split(".")[0] == "iclcore"
            for name in [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
        )
    ]
    known = {alias.asname or alias.name for *_, node in imports for alias in node.names}
    for number, cell in code(notebook, hidden=True):
        names = {n.id for n in ast.walk(ast.parse(cell.source)) if isinstance(n, ast.Name)}
        imported = any(cell is importing for _, importing, _ in imports)
        if imported or names & known:
            yield f"cell {number} is hidden and has {', '.join(sorted(names & known)) or 'iclcore'}"


def bare_figures(notebook):
    for figure in chapter.figures("one", notebook.cells).values():
        if not figure.label:
            yield f"cell {figure.place + 1} shows a figure, and no caption follows it"


def typed_settings(notebook):
    """A number in a caption, beside the symbol or the name of a parameter that the figure hangs on, and
    whose value it is."""
    known = chapter.parameters(notebook.cells)
    for figure in chapter.figures("one", notebook.cells).values():
        text = QUOTED.sub("", notebook.cells[figure.place + 1].source) if figure.label else ""
        used = names_behind(notebook, figure.place)
        for each in (known[name] for name in known.keys() & used):
            for found in re.finditer(ways(each), text):
                if number(found) == each.default:
                    yield f"{figure.label} has a typed {each.name}: {found[0]}"


def names_behind(notebook, place):
    """The names that a figure's last line uses, and the lines that make these, and so on."""
    above = [
        line for n, cell in code(notebook) if n <= place for line in ast.parse(cell.source).body
    ]
    *own, last = ast.parse(notebook.cells[place].source).body
    left, used = above + own, chapter.uses(last)
    while behind := [line for line in left if used & set(makes(line))]:
        left = [line for line in left if line not in behind]
        used = used.union(*map(chapter.uses, behind))
    return used


def makes(line):
    """The names that a line binds, or whose objects it changes: a[0] = 1, a.append(1)."""
    yield from chapter.binds(ast.Module([line], []))
    for node in ast.walk(line):
        match node:
            case ast.Subscript(value=ast.Name(id=name), ctx=ast.Store()):
                yield name
            case ast.Expr(ast.Call(ast.Attribute(ast.Name(id=name)))) if name != "plot":
                yield name


def ways(parameter):
    """D = 4, 4 heads, initial weights 0.01: a symbol is what the parameter's comment begins with."""
    spoken = SPOKEN.get(parameter.name, parameter.name)
    symbol = re.match(r"([A-Z])\b", parameter.comment)
    before = [rf"{spoken}(?: of)?\s+\$?"] + (
        [rf"(?<![\w\\]){symbol[1]}\s*=\s*\$?\s*"] if symbol else []
    )
    after = TYPED.replace("typed", "counted") + rf"\$?\s+{spoken}"
    return rf"(?:{'|'.join(before)}){TYPED}|(?<![\w.,]){after}"


def number(found):
    text = (found["typed"] or found["counted"]).replace("{,}", "").replace(",", "").rstrip(".{")
    if text in WORDS:
        return WORDS[text]
    factor, _, power = text.replace("\\cdot", "").partition("10^{")
    try:
        return float(factor or 1) * (10.0 ** int(power.rstrip("}")) if power else 1)
    except ValueError:
        return None


CHECKS = (
    long_cells,
    bad_parameters,
    rebound_parameters,
    hidden_experiments,
    bare_figures,
    typed_settings,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_chapter_shows_its_experiments(name, check):
    assert not list(check(NOTEBOOKS[name]))


def notebook_of(*cells, setting="dim: int = 4  # D, as published\nlr: float = 0.02  # theirs"):
    """The parameters, an import, then (tags, source) or a text."""
    shown = [((), "from iclcore import theory, train"), *cells]
    made = [new_code_cell(setting, metadata={"tags": ["parameters"]})]
    for each in shown:
        if isinstance(each, str):
            made.append(new_markdown_cell(each))
        else:
            made.append(new_code_cell(each[1], metadata={"tags": list(each[0])}))
    return new_notebook(cells=made)


PLOT = ((), "plot.figure(dim, lr, seeds, steps)")
CAPTION = "<!--caption fig:one-two-->\n"


@pytest.mark.parametrize(
    "check, notebook",
    [
        (long_cells, notebook_of(((), "a = 1\n" * 16))),
        (long_cells, notebook_of(((), "a" * 79))),
        (bad_parameters, notebook_of(setting="dim = 4  # D")),
        (bad_parameters, notebook_of(setting="dim: int = 4")),
        (bad_parameters, notebook_of(setting="lr: float = 1  # theirs")),
        (bad_parameters, notebook_of(setting="dim: int = 4  # D\n\nlr: float = 0.1  # theirs")),
        (rebound_parameters, notebook_of(((), "for dim in (2, 7):\n    pass"))),
        (rebound_parameters, notebook_of(((), "lr *= 2"))),
        (hidden_experiments, notebook_of((("hide-input",), "run = train(model, task)"))),
        (hidden_experiments, notebook_of((("remove-cell",), "import iclcore.theory as t"))),
        (hidden_experiments, notebook_of((("hide-cell",), "from iclcore import models"))),
        (bare_figures, notebook_of(PLOT, "The text goes on.")),
        (bare_figures, notebook_of(((), "plot.animation(run)"), "The text goes on.")),
        (typed_settings, notebook_of(PLOT, f"{CAPTION}A run ($D=4$, white input).")),
        (typed_settings, notebook_of(PLOT, f"{CAPTION}A run ($D =$ 4).")),
        (typed_settings, notebook_of(PLOT, f"{CAPTION}A run (learning rate $2\\cdot10^{{-2}}$).")),
        (typed_settings, notebook_of(PLOT, f"{CAPTION}The learning rate of .02.")),
        (typed_settings, notebook_of(PLOT, f"{CAPTION}All six seeds.", setting="seeds: int = 6  # ?")),
        (typed_settings, notebook_of(PLOT, f"{CAPTION}2{{,}}001 steps.", setting="steps: int = 2001  # ?")),
        (
            typed_settings,
            notebook_of(((), "run = train(dim)"), ((), "plot.figure(run)"), f"{CAPTION}$D = 4$."),
        ),
        (
            typed_settings,
            notebook_of(
                ((), "runs = []\nfor i in range(2):\n    runs.append(dim)"),
                ((), "plot.figure(runs)"),
                f"{CAPTION}$D = 4$.",
            ),
        ),
    ],
)  # fmt: skip
def test_what_a_chapter_may_not_hold_is_found(check, notebook):
    assert list(check(notebook))


def test_what_a_chapter_may_hold_is_not_taken_for_more():
    quoted = "A sum ($D =$ <!--q dim-->4<!--/q-->, learning rate <!--q lr-->0.02<!--/q-->, $D = 3$ drawn)."
    whole = notebook_of(
        ((), "def run_of(dim):\n    lr = 2\n    return [train(dim, lr) for dim in range(dim)]"),
        (("hide-input",), "explorers.RankOne()"),
        PLOT,
        f"{CAPTION}{quoted} Three of 4 eigenvalues, 24 dims.",
        ((), "made = theory(4)\nfar = made - theory(dim)"),
        ((), "plot.figure(made)"),
        "<!--caption fig:one-three-->\nMade beforehand ($D = 4$).",
    )
    assert not [found for check in CHECKS for found in check(whole)]


def executed(first, shown, said, mark="kind"):
    """A chapter of two cells with an output each, and what its text quotes."""
    made = [
        new_code_cell("a = 1", outputs=[first]),
        new_code_cell("plot.figure(a)", outputs=[shown]),
        new_markdown_cell(f"{CAPTION}Of <!--q levels-->?<!--/q--> <!--q {mark}-->?<!--/q-->."),
    ]
    notebook = prose.with_record(new_notebook(cells=made))
    notebook.cells[-1].outputs = [new_output("stream", text=said)]
    return Result(Path("one.ipynb"), 1.0, text=nbformat.writes(notebook))


def picture(alt):
    return new_output("display_data", {"image/png": ""}, metadata={"image/png": {"alt": alt}})


def test_what_goes_wrong_at_other_settings_is_told():
    good = picture("Losses of one run, from 1 to 0.5, falling.")
    silent, said = new_output("stream", text="1"), "levels = 0.5, −2e−05 and –\nkind = all"
    before = nbformat.reads(executed(silent, good, said).text, as_version=4)
    right = executed(silent, good, "levels = 0.4\nkind = none")
    assert not list(other_settings.problems(right, before))
    right.failure = "one: cell 3 failed"
    assert list(other_settings.problems(right, before)) == ["one: cell 3 failed"]
    warning = new_output("stream", name="stderr", text="RuntimeWarning: of an empty slice\n")
    nan = picture("Losses of one run, from 1 to nan.")
    for wrong, told in [
        (executed(warning, good, said), "cell 1 warns: RuntimeWarning: of an empty slice"),
        (executed(silent, silent, said), "one.two is no picture with an alt text: ['']"),
        (executed(silent, picture("A run."), said), "one.two is no picture with an alt text: ['A run.']"),
        (executed(silent, nan, said), "one.two says what is no number: Losses of one run, from 1 to nan."),
        (executed(silent, good, f"{said}\nnew = 3", "new"), "<!--q new--> is not recorded: make book first"),
        (executed(silent, good, "levels = inf\nkind = all"), "<!--q levels--> gives 'inf'"),
    ]:  # fmt: skip
        assert list(other_settings.problems(wrong, before)) == [told]


@slow
def test_a_chapter_goes_with_other_settings():
    """The cheapest of what `make test-settings` does."""
    results, wrong = other_settings.tried("one seed, a short run", [chapters()["merged"]])
    assert len(results) == 1 and not wrong


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_setting_outside_of_its_range_is_refused(name, monkeypatch, capsys):
    """By flag, by SET and where papermill set it, before any work; and the ends of a range are in it."""
    cells = NOTEBOOKS[name].cells
    at = chapter.parameters_cell(cells)
    holds = next(cell for cell in cells[at + 1 :] if "chapter.begin(" in cell.source)
    number = cells.index(holds)
    before = [cell.source for cell in cells[at + 1 : number] if cell.cell_type == "code"]
    assert all(
        re.match(r"(?:import|from) ", source) for source in before
    )  # nothing is done above it
    assert re.match(r"chapter\.hold|import|from ", holds.source)
    own = {each.name: each.default for each in chapter.parameters(cells).values()}
    monkeypatch.setattr(chapter, "draw", lambda *_: pytest.fail("drawn"))
    figure = next(iter(chapter.figures(name, cells)))
    for each in chapter.parameters(cells).values():
        words, *ends = each.range
        assert words, f"want a range at the end of: {each.name} {each.comment}"
        kind = type(each.default[0]) if isinstance(each.default, list) else type(each.default)
        steps = (-1, 1) if kind is int else (-math.inf, math.inf)
        for end, step in zip(map(kind, ends), steps, strict=True):
            within = [end] if kind is not type(each.default) else end
            assert each.held(within) == within
            out = end + step if kind is int else math.nextafter(end, step)
            given = [out] if kind is not type(each.default) else out
            said = f"takes .*{re.escape(words)}, not "
            with pytest.raises(chapter.Refused, match=f"^{each.name} {said}"):
                chapter.begin(own | {each.name: given, "In": [cells[at].source, "dim = 3"]})
            with pytest.raises(ValueError, match=f"^{name}: {each.name} {said}"):
                chapter.settings(name, cells, [f"{each.name}={given!r}"])
            with pytest.raises(SystemExit, match="2"):
                main(["figure", figure, f"--{each.name}={given!r}"])
            (line,) = capsys.readouterr().err.splitlines()
            assert re.search(f"argument --{each.name}: {said}", line)
    chapter.begin(own | {"In": [cells[at].source, "%time 1"]})
