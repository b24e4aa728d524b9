"""Build the pages beside those in _build/html, and put them there once they are whole."""

import shutil
import subprocess
import sys
from pathlib import Path

from workplace import ROOT, alone, run, stoppable

JUPYTER_BOOK = [str(Path(sys.executable).with_name("jupyter-book")), "build", "."]
OPTIONS = ["-W", "-n", "--keep-going", "--quiet", "--path-output"]


def build(command: list[str], root: Path = ROOT) -> int:
    """Run `command`, with the folder to build in as its last word.

    Always from nothing: after a failed build Sphinx would not repeat its warnings. The file
    `.built` is as old as the start, so that what is changed meanwhile is newer; until a build has
    succeeded there is none.
    """
    pages, old, new = (root / "_build" / name for name in ("html", "old", "new"))
    built, began = root / "_build" / ".built", new / ".built"
    with stoppable("the pages are as they were") as ignore_stops, alone(root):
        remove(old, new)  # of a build that was killed
        built.unlink(missing_ok=True)
        new.mkdir()
        began.touch()
        try:
            # what it says names the folder that is renamed; its warnings are on stderr
            code = run([*command, str(new)], cwd=root, stdout=subprocess.DEVNULL)
            if code:
                print("the build failed; the pages are as they were", file=sys.stderr)
                return code
            ignore_stops()
            if pages.exists():
                pages.rename(old)
            (new / "_build" / "html").rename(pages)
            began.rename(built)
        finally:
            remove(old, new)
    print(f"the book is in {pages.relative_to(root)}/index.html")
    return 0


def remove(*folders: Path) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    try:
        sys.exit(build(JUPYTER_BOOK + OPTIONS))
    except OSError as error:
        sys.exit(str(error))
