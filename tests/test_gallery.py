"""Every figure can be made by its name, and says which it is."""

import pytest

from iclcore import gallery
from iclcore.cli import main

# one figure of each kind of dependency: no study, a study, a study of a study, frames
KINDS = ("rank_one.networks", "task.example", "rank_one.principal_components", "rank_one.animation")


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
