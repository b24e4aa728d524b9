"""A chapter shows its experiments: what its cells may hold, and what becomes of them at other settings."""

import ast
import math
import re

import install_cell
import nbformat
import pytest
from chapters import notebooks
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

from iclbook import chapter
from iclbook.__main__ import main

NOTEBOOKS = {name: nbformat.read(path, as_version=4) for name, path in notebooks().items()}
HIDDEN = {"hide-input", "hide-cell", "remove-input", "remove-cell"}
LINES, COLUMNS = 15, 78


def code(notebook, hidden=None):
    """(number, cell) of code cells; of the hidden or of the visible ones only."""
    for number, cell in enumerate(notebook.cells, start=1):
        is_hidden = bool(HIDDEN & set(cell.metadata.get("tags", ())))
        if cell.cell_type == "code" and hidden in (None, is_hidden):
            yield number, cell


def binds(tree):
    """The names that code binds for the cells below it, other than by import."""
    for node in ast.iter_child_nodes(tree):
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()):
                yield name
            case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp():
                pass
            case ast.GeneratorExp():
                pass
            case _:
                yield from binds(node)


def long_cells(notebook):
    for number, cell in code(notebook, hidden=False):
        lines = cell.source.splitlines()
        if len(lines) > LINES or max(map(len, lines)) > COLUMNS:
            yield f"cell {number} is longer than {LINES} lines of {COLUMNS} columns"


def bad_parameters(notebook):
    first, _ = next(each for each in code(notebook) if each[1].get("id") != install_cell.ID)
    tagged = [n for n, cell in code(notebook) if "parameters" in cell.metadata.get("tags", ())]
    if tagged != [first]:
        yield "want the tag parameters on the first code cell, and on no other"
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
        for name in binds(ast.parse(cell.source)):
            if name in known and number != chapter.parameters_cell(notebook.cells) + 1:
                yield f"cell {number} binds the parameter {name} again"


def imported(notebook, *packages):
    """The names that a chapter imports from these packages."""
    for _, cell in code(notebook):
        for node in ast.walk(ast.parse(cell.source)):
            if isinstance(node, ast.Import | ast.ImportFrom):
                module = getattr(node, "module", None) or ""
                for alias in node.names:
                    if f"{module}.{alias.name}.".lstrip(".").startswith(packages):
                        yield alias.asname or alias.name


def used(cell):
    """The names that a cell uses."""
    return {node.id for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.Name)}


def folded_experiments(notebook):
    """A task, a model, a run or theory, which readers must see without unfolding anything."""
    experiment = set(imported(notebook, "iclcore."))
    for number, cell in code(notebook, hidden=True):
        if found := used(cell) & experiment:
            yield f"cell {number} is folded and has {', '.join(sorted(found))}"


def unfolded_cells(notebook):
    """A cell that only imports, measures or draws, which the page folds."""
    experiment = set(imported(notebook, "iclcore.", "iclbook.theory", "iclbook.data"))
    for number, cell in code(notebook, hidden=False):
        is_parameters = "parameters" in cell.metadata.get("tags", ())
        if not (is_parameters or used(cell) & (experiment | {"print"})):
            yield f"cell {number} has no experiment: tag it hide-input"


def bare_figures(notebook):
    for figure in chapter.figures("one", notebook.cells).values():
        if not figure.label:
            yield f"cell {figure.place + 1} shows a figure, and no caption follows it"


CHECKS = (
    long_cells,
    bad_parameters,
    rebound_parameters,
    folded_experiments,
    unfolded_cells,
    bare_figures,
)


@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
@pytest.mark.parametrize("name", NOTEBOOKS)
def test_a_chapter_shows_its_experiments(name, check):
    assert not list(check(NOTEBOOKS[name]))


FOLDED = ("hide-input",)


def notebook_of(*cells, setting="dim: int = 4  # D, as published\nlr: float = 0.02  # theirs"):
    """The parameters, an import, then (tags, source) or a text."""
    shown = [(FOLDED, "from iclcore import theory, train"), *cells]
    made = [new_code_cell(setting, metadata={"tags": ["parameters"]})]
    for each in shown:
        if isinstance(each, str):
            made.append(new_markdown_cell(each))
        else:
            made.append(new_code_cell(each[1], metadata={"tags": list(each[0])}))
    return new_notebook(cells=made)


PLOT = (FOLDED, "plot.figure(dim, lr, seeds, steps)")
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
        (bad_parameters, notebook_of((("parameters",), "few = 2"))),
        (folded_experiments, notebook_of((FOLDED, "run = train(model, task)"))),
        (folded_experiments, notebook_of((("remove-cell",), "levels = theory.levels(2)"))),
        (unfolded_cells, notebook_of(((), "import numpy as np"))),
        (unfolded_cells, notebook_of(((), "plot.figure(dim)"))),
        (bare_figures, notebook_of(PLOT, "The text goes on.")),
        (bare_figures, notebook_of(((), "plot.animation(run)"), "The text goes on.")),
    ],
)  # fmt: skip
def test_what_a_chapter_may_not_hold_is_found(check, notebook):
    assert list(check(notebook))


def test_a_good_chapter_passes_every_check():
    notebook = notebook_of(
        ((), "def run_of(dim):\n    lr = 2\n    return [train(dim, lr) for dim in range(dim)]"),
        (FOLDED, "explorers.RankOne()"),
        PLOT,
        f"{CAPTION}A sum ($D =$ <!--dim-->4<!--/-->).",
        ((), "made = theory(4)\nfar = made - theory(dim)"),
        (FOLDED, "plot.figure(made)"),
        "<!--caption fig:one-three-->\nMade beforehand.",
    )
    assert not [found for check in CHECKS for found in check(notebook)]


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
