"""Under JupyterLab: a slider reaches Python and Python the page; a chapter's text reads as it is meant."""

import os
import socket
import subprocess
import sys
import time
import urllib.request

import nbformat
import pytest
from pace import slow

# the notebook is the one that commands act on, and its kernel waits
READY = """() => {
    const shown = window.jupyterapp.shell.currentWidget;
    return shown?.context?.isReady && shown.sessionContext?.session?.kernel?.status === "idle"; }"""
PYTHON = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
NOTEBOOK = nbformat.v4.new_notebook(
    metadata=PYTHON,
    cells=[
        nbformat.v4.new_code_cell(source)
        for source in (
            "from iclbook import explorers\n\ne = explorers.ContextLength()\ne",
            "import ipywidgets\n\nsaid = ipywidgets.Label()\n"
            "e.observe(lambda change: setattr(said, 'value', f'{change.name} = {change.new}'), "
            "names=e.keys_moved())\nsaid",
            "button = ipywidgets.Button(description='seed from Python')\n"
            "button.on_click(lambda _: setattr(e, 'seed', 42))\nbutton",
        )
    ],
)

CHAPTER = nbformat.v4.new_notebook(
    metadata=PYTHON,
    cells=[
        nbformat.v4.new_markdown_cell(source)
        for source in (
            "<!--caption fig:one-->\nA caption of <!--q n .1f-->3.5<!--/q--> runs.",
            "$$\n\\begin{aligned}\na_d &= b \\\\\nc &= d\n\\end{aligned}\n$$ (eq:one)",
            "**Exercise 1.** Why?\n\n<details><summary>Solution</summary>\n\n"
            "*So*: $x_d$.\n\n$$\ny_d = 1\n$$\n\n</details>",
        )
    ],
)


@pytest.fixture(scope="module")
def lab(tmp_path_factory):
    folder = tmp_path_factory.mktemp("lab")
    nbformat.write(NOTEBOOK, folder / "try.ipynb")
    nbformat.write(CHAPTER, folder / "chapter.ipynb")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "jupyter", "lab", "--no-browser", f"--port={port}"]
    command += ["--ip=127.0.0.1", "--IdentityProvider.token=", f"--ServerApp.root_dir={folder}"]
    command += ["--expose-app-in-browser", "--allow-root"]
    home = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "run",
    }
    places = {name: str(folder / where) for name, where in home.items()}
    with open(folder / "log", "w") as log:
        server = subprocess.Popen(
            command, cwd=folder, env=os.environ | places, stdout=log, stderr=log
        )
    address = f"http://127.0.0.1:{port}"
    for _ in range(120):
        try:
            urllib.request.urlopen(f"{address}/api").close()
            break
        except OSError:
            assert server.poll() is None, (folder / "log").read_text()
            time.sleep(0.5)
    yield address
    server.terminate()
    server.wait()


@pytest.fixture(scope="module")
def page(browser, lab):
    """One for all, with the notebook open: JupyterLab takes longer to load than what is looked at."""
    context = browser.new_context(viewport={"width": 1300, "height": 1600})
    page, errors = context.new_page(), []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.goto(f"{lab}/lab/tree/try.ipynb")
    yield page
    context.close()
    assert not errors


@slow
def test_slider_trait_and_button(page):
    page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=90_000)
    page.wait_for_function("window.jupyterapp")
    page.wait_for_function(READY, timeout=90_000)
    page.evaluate("window.jupyterapp.commands.execute('notebook:run-all-cells')")
    part = page.locator(".ex")
    part.locator("svg .ex-axis").first.wait_for(state="attached", timeout=90_000)
    part.get_by_role("button", name="All settings").click()
    page.get_by_role("button", name="seed from Python").wait_for(timeout=60_000)

    heads = part.get_by_label("heads H", exact=True)
    heads.focus()
    heads.press("ArrowRight")
    page.get_by_text("heads = 5").wait_for()
    bar = part.locator(".ex-bar").first
    bar.focus()
    bar.press("ArrowUp")
    page.get_by_text("eigenvalues = [0.41, 0.3, 0.2, 0.1]").wait_for()

    page.get_by_role("button", name="seed from Python").click()
    field = part.get_by_label("seed, number")
    page.wait_for_function("field => field.value === '42'", arg=field.element_handle())

    part.get_by_role("button", name="Run on finite data").click()
    part.get_by_text("both models trained in Python").wait_for(timeout=60_000)
    assert part.get_by_role("button", name="Copy link").count() == 0  # no page to link to


@slow
def test_a_chapters_text_needs_no_extension(page):
    page.wait_for_function("window.jupyterapp", timeout=90_000)
    page.evaluate("""async () => {
        await jupyterapp.restored;
        await jupyterapp.commands.execute("docmanager:open", { path: "chapter.ipynb" }); }""")
    caption, equation, exercise = (page.locator(".jp-MarkdownCell").nth(n) for n in range(3))
    caption.get_by_text("A caption of 3.5 runs.", exact=True).wait_for(timeout=90_000)
    equation.locator("mjx-container[display=true]").wait_for()
    solution = exercise.locator("details")
    assert not solution.evaluate("each => each.open")
    solution.locator("summary").click()
    solution.locator("em", has_text="So").wait_for()
    solution.locator("mjx-container").nth(1).wait_for()
    assert page.locator("mjx-merror, [data-mml-node=merror]").count() == 0
