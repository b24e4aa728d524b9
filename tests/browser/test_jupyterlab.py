"""In JupyterLab an explorer and Python set each other's values, and a chapter's text needs no extension."""

import os
import socket
import subprocess
import sys
from contextlib import suppress

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from pace import slow
from playwright.sync_api import Error

# the notebook is the current one and its kernel is idle
READY = """() => {
  const shown = window.jupyterapp?.shell.currentWidget;
  return shown?.context?.isReady && shown.sessionContext?.session?.kernel?.status === "idle"; }"""
CELLS = [
    new_markdown_cell("<!--caption fig:one-->\nA caption of <!--level2-->3.5<!--/--> runs."),
    new_markdown_cell("$$\n\\begin{aligned}\na_d &= b \\\\\nc &= d\n\\end{aligned}\n$$ (eq:one)"),
    new_markdown_cell(
        "<details><summary>Solution</summary>\n\n*So*: $x_d$.\n\n$$\ny_d\n$$\n\n</details>"
    ),
    new_code_cell("from iclbook import explorers\n\ne = explorers.ContextLength()\ne"),
    new_code_cell("""import ipywidgets
label, button = ipywidgets.Label(), ipywidgets.Button(description="seed from Python")
e.observe(lambda change: setattr(label, "value", f"{change.name} = {change.new}"), names=e.keys_moved())
button.on_click(lambda _: setattr(e, "seed", 42))
ipywidgets.VBox([label, button])"""),
]


@pytest.fixture(scope="module")
def page(browser, tmp_path_factory):
    """One page for all tests, because JupyterLab takes longer to load than they take."""
    folder = tmp_path_factory.mktemp("lab")
    python = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    nbformat.write(new_notebook(cells=CELLS, metadata=python), folder / "try.ipynb")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "jupyter", "lab", "--no-browser", "--ip=127.0.0.1"]
    command += [f"--port={port}", "--IdentityProvider.token=", "--expose-app-in-browser"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    environment = os.environ | {"HOME": str(folder)}  # no settings of the user
    server = subprocess.Popen([*command, "--allow-root"], cwd=folder, env=environment, **quiet)
    try:
        page, errors = browser.new_page(viewport={"width": 1300, "height": 1600}), []
        page.on("pageerror", lambda error: errors.append(str(error)))
        open_page(page, f"http://127.0.0.1:{port}/lab/tree/try.ipynb")
        page.wait_for_function(READY, timeout=90_000)
        yield page
        page.close()
    finally:
        server.kill()
        server.wait()
    assert not errors


def open_page(page, address):
    """Open an address as soon as its server answers."""
    for _ in range(120):
        with suppress(Error):
            return page.goto(address)
        page.wait_for_timeout(500)
    pytest.fail("JupyterLab does not answer")


@slow
def test_sliders_values_and_buttons_reach_the_other_side(page):
    page.evaluate("window.jupyterapp.commands.execute('notebook:run-all-cells')")
    part = page.locator(".ex")
    part.locator("svg .ex-axis").first.wait_for(state="attached", timeout=90_000)
    part.get_by_role("button", name="All settings").click()
    part.get_by_label("heads H", exact=True).press("ArrowRight")
    page.get_by_text("heads = 5").wait_for()
    part.locator(".ex-bar").first.press("ArrowUp")
    page.get_by_text("eigenvalues = [0.41, 0.3, 0.2, 0.1]").wait_for()
    page.get_by_role("button", name="seed from Python").click()
    field = part.get_by_label("seed, number").element_handle()
    page.wait_for_function("field => field.value === '42'", arg=field)
    part.get_by_role("button", name="Run on finite data").click()
    part.get_by_text("both models trained in Python").wait_for(timeout=60_000)
    assert part.get_by_role("button", name="Copy link").count() == 0  # no page to link to


@slow
def test_a_chapters_text_needs_no_extension(page):
    caption, equation, exercise = (page.locator(".jp-MarkdownCell").nth(n) for n in range(3))
    caption.get_by_text("A caption of 3.5 runs.", exact=True).wait_for()
    equation.locator("mjx-container[display=true]").wait_for()
    exercise.locator("summary").click()
    exercise.locator("details em", has_text="So").wait_for()
    exercise.locator("details mjx-container").nth(1).wait_for()
    assert page.locator("mjx-merror, [data-mml-node=merror]").count() == 0
