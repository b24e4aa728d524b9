"""Build the pages beside those in _build/html, and put them there once they are whole."""

import io
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
from make import ROOT
from pictures import VISIBLE
from PIL import Image
from workplace import alone, run, stoppable

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
            for picture in sorted((new / "_build" / "html" / "_images").glob("*.png")):
                lighten(picture)
            ignore_stops()
            if pages.exists():
                pages.rename(old)
            (new / "_build" / "html").rename(pages)
            began.rename(built)
        finally:
            remove(old, new)
    print(f"the book is in {pages.relative_to(root)}/index.html")
    return 0


def lighten(picture: Path) -> None:
    """With 256 colours of its own, a third of the bytes, wherever no one can see the difference."""
    with Image.open(picture) as image:
        whole = image.convert("RGB")
        if image.mode == "P" or image.convert("RGBA").getextrema()[3] != (255, 255):
            return
    few, file = whole.quantize(256, method=Image.Quantize.MAXCOVERAGE, dither=0), io.BytesIO()
    few.save(file, format="PNG")
    off = np.abs(np.asarray(few.convert("RGB"), dtype=int) - np.asarray(whole, dtype=int)).max()
    if off <= VISIBLE and file.tell() < picture.stat().st_size:
        picture.write_bytes(file.getvalue())


def remove(*folders: Path) -> None:
    for folder in folders:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    try:
        sys.exit(build(JUPYTER_BOOK + OPTIONS))
    except OSError as error:
        sys.exit(str(error))
