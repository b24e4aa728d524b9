"""Every figure can be made by its name, and says which it is."""

import figure_table
import nbformat
import prose
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from iclbook import gallery
from iclbook.__main__ import main

# a study, and one made of several
KINDS = ("task.example", "merged.phase_plane")


def test_every_figure_has_a_title():
    untitled = [name for name in gallery.names() if not gallery.title(name)]
    assert not untitled


@pytest.mark.parametrize("name", KINDS)
def test_figures_are_made_by_name(name, in_folder, capsys):
    assert main(["figure", name, "--scale", "quick"]) == 0
    (written,) = in_folder.iterdir()
    start = written.read_bytes()[:4]
    assert start in (b"\x89PNG", b"RIFF") and name in capsys.readouterr().out


def test_unknown_figures_are_refused(in_folder, capsys):
    with pytest.raises(SystemExit) as stop:
        main(["figure", "nonsense"])
    assert stop.value.code == 2 and "all are listed" in capsys.readouterr().err


def test_in_the_table_of_figures_a_studys_numbers_have_names_and_stand_once(tmp_path):
    said = 'runs.facts["end_1"] = 1,800\nruns.gaps[0] .1f = −0.5\n'
    cells = [
        new_code_cell("runs = study(scale)"),
        new_code_cell("figures.a.one(runs)"),
        new_markdown_cell(
            '<!--caption fig:one-->\nOf <!--q runs.facts["end_1"]-->1,800<!--/q-->, and '
            "<!--q runs.gaps[0] .1f-->−0.5<!--/q-->."
        ),
        new_code_cell("figures.a.two(runs)"),
        new_markdown_cell("<!--caption fig:two-->\nThe same."),
        new_code_cell("figures.a.three()"),
    ]
    notebook = prose.with_record(new_notebook(cells=cells))
    notebook.cells[-1].outputs = [new_output("stream", text=said)]
    path = tmp_path / "none_of_the_chapters.ipynb"
    nbformat.write(notebook, path)
    assert list(figure_table.figures_of(path)) == [
        ("fig:one", "a.one", 0, "*end 1: 1,800; `runs.gaps[0]`: −0.5*"),
        ("fig:two", "a.two", 0, "The numbers are those of {numref}`fig:one`."),
        (None, "a.three", 0, ""),
    ]


def test_a_figure_is_tried_to_be_written_before_it_is_made(in_folder, monkeypatch, capsys):
    name = gallery.names()[0]
    (in_folder / f"{name}.png").mkdir()
    monkeypatch.setattr(gallery, "make", lambda *_: pytest.fail("made"))
    with pytest.raises(SystemExit, match="2"):
        main(["figure", name])
    assert "--save: takes a file in a folder to write in" in capsys.readouterr().err
