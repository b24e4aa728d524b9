"""All examples in README.md and on the pages for users run unchanged, from top to bottom."""

import re
import shlex
from pathlib import Path
from pkgutil import resolve_name

from pictures import pixels_alike

from iclcore.cli import main

ROOT = Path(__file__).resolve().parent.parent
BLOCK = re.compile(r"^```(python|py|sh)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def run(page):
    """Run the examples and commands of a page in this folder, and return the Python variables."""
    names = {}
    for language, block in BLOCK.findall((ROOT / page).read_text()):
        if language != "sh":
            exec(block, names)
        for line in block.replace("\\\n", "").splitlines():
            if line.startswith("iclcore "):
                assert main(shlex.split(line, comments=True)[1:]) == 0, line
    return names


def test_the_readme_draws_the_picture_that_it_shows(in_folder):
    run("README.md")
    drawn, shown = in_folder / "staircase.png", ROOT / "book" / "images" / "staircase.png"
    assert pixels_alike(shown.read_bytes(), drawn.read_bytes())
    assert (in_folder / "attnS.png").exists() and not (in_folder / "runs").exists()  # a dry run


def test_the_page_on_using_the_package_runs(in_folder):
    names = run("book/use.md")
    assert "4 leave zero" in names["picture"].alt  # one for each eigenvector
    assert names["stopped"].ended == "stopped" and names["on_arrays"].task is None
    assert names["swept"].table()["data"] == ["mine", "mine"]
    for file in ("run.png", "page.html", "other.json", "command_runs/table.csv"):
        assert (in_folder / file).stat().st_size > 100


def test_the_examples_of_the_functions_to_start_with_run_and_their_links_are_right(in_folder):
    page = (ROOT / "book" / "api.md").read_text().partition("## What to read first")[0]
    ((_, imports),) = BLOCK.findall(page)
    rows = re.findall(r"^\| \[`([\w.]+)`\]\(#([\w.]+)\) \| .* \| `(.*)` \|$", page, re.MULTILINE)
    assert len(rows) == page.count("](#") >= 20
    names = {}
    exec(imports, names)
    for name, target, example in rows:
        exec(example, names)
        assert name.rpartition(".")[2] in example or name == "History.loss"
        assert resolve_name(target).__doc__
