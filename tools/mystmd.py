"""How far the book is from mystmd, on which Jupyter Book 2 stands: what of it only version 1 understands.

    python tools/mystmd.py

With npm; the pinned mystmd is installed into a temporary folder, and given the book as the build gives it to
Sphinx, marks resolved. What it says it does not understand is counted by kind, beside what is counted here
without it. No theme is loaded, and nothing is published.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import marks
import nbformat
import yaml
from make import ROOT

PIN = "mystmd@1.8.3"
# by both, of what the book uses
ROLES = {"cite", "doc", "eq", "numref", "ref"}
DIRECTIVES = {"bibliography", "csv-table", "math", "table", "tableofcontents"}
ROLE = re.compile(r"(?<![\\\w^_`{])\{(?P<name>[a-z][\w:-]*)\}`")
DIRECTIVE = re.compile(r"^ *(?:`{3,}|:{3,})\{(?P<name>[a-z][\w-]*)\}", re.MULTILINE)
SAYS = re.compile(r"^(?:⚠️|⛔️?) +\S+ +(?P<what>.+)$", re.MULTILINE)
UNKNOWN = re.compile(r"unknown (role|directive): (\S+)")
COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def only_here(texts: Iterable[str]) -> Counter[str]:
    """The roles and directives in these texts that mystmd has not, as it would name them."""
    found = Counter()
    for text in texts:
        found.update(f"role: {name}" for name in ROLE.findall(text) if name not in ROLES)
        found.update(f"directive: {n}" for n in DIRECTIVE.findall(text) if n not in DIRECTIVES)
    return found


def texts(book: Path) -> list[str]:
    """The text of each page, marks resolved."""
    found = [path.read_text(encoding="utf-8") for path in sorted(book.glob("*.md"))]
    for path in sorted(book.glob("*.ipynb")):
        notebook = nbformat.read(path, as_version=4)
        marks.resolve(notebook)
        found += [cell.source for cell in marks.texts(notebook)]
    return found


def with_labels(path: Path) -> None:
    """Figures named as mystmd reads it: in the first lines of their cells."""
    notebook = nbformat.read(path, as_version=4)
    marks.resolve(notebook)
    for cell in notebook.cells:
        figure = cell.metadata.get("mystnb", {}).get("figure")
        if figure:
            caption = " ".join(figure["caption"].split())
            names = yaml.safe_dump({"label": figure["name"], "caption": caption}, width=10**6)
            cell.source = "".join(f"#| {line}\n" for line in names.splitlines()) + cell.source
    nbformat.write(notebook, path)


def said(folder: Path) -> str:
    """What mystmd says of a copy of the book in ``folder``."""
    shutil.copytree(ROOT / "book", folder / "book")
    for name in ("_config.yml", "_toc.yml"):
        shutil.copy(ROOT / name, folder)
    for path in (folder / "book").glob("*.ipynb"):
        with_labels(path)
    how = {"cwd": folder, "capture_output": True, "text": True, "encoding": "utf-8"}
    npm = [shutil.which("npm"), "install", "--silent", "--no-audit", "--no-fund"]
    subprocess.run([*npm, "--prefix", str(folder / "npm"), PIN], **how, check=True)
    myst = str(folder / "npm" / "node_modules" / ".bin" / "myst")
    subprocess.run([myst, "init"], **how, input="y\n")  # it asks whether to convert
    settings = yaml.safe_load((folder / "myst.yml").read_text(encoding="utf-8"))
    settings["site"]["template"] = "./theme"  # an empty one: its own it would load
    (folder / "myst.yml").write_text(yaml.safe_dump(settings), encoding="utf-8")
    (folder / "theme").mkdir()
    (folder / "theme" / "template.yml").write_text("jtex: v1\ntitle: none\n", encoding="utf-8")
    done = subprocess.run([myst, "build", "--site"], **how)
    text = COLOURS.sub("", done.stdout + done.stderr)
    if not re.search(r"Built \d+ pages", text):
        sys.exit(f"mystmd did not come to its end: {text.splitlines()[-1:]}")
    return text


def main() -> int:
    if not shutil.which("npm"):
        sys.exit("npm is needed, of node 18 or newer")
    with tempfile.TemporaryDirectory() as folder:
        what = SAYS.findall(said(Path(folder)))
    # of others the kind, without the name that stands in quotes or behind a colon
    kinds = Counter(
        each if UNKNOWN.match(each) else re.sub(r'"[^"]*"|: .*', "", each) for each in what
    )
    for kind, count in kinds.most_common():
        print(f"{count:5}  {kind}")
    counted = {f"unknown {name}": count for name, count in only_here(texts(ROOT / "book")).items()}
    theirs = {kind: count for kind, count in kinds.items() if UNKNOWN.match(kind)}
    if theirs != counted:
        print(f"counted here otherwise: {counted}", file=sys.stderr)
    return int(theirs != counted)


if __name__ == "__main__":
    sys.exit(main())
