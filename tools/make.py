"""The steps of each command, for every system: what `make book` runs is

    python tools/make.py book

With Python 3.11 or newer alone: what a step takes is installed into .venv first. NAME=VALUE is as for make:
CHAPTER=merged, SET="dim=6 seeds=2".
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from threading import Thread

ROOT = Path(__file__).resolve().parent.parent
PLACE = ROOT / ".venv"
PYTHON = str(PLACE / ("Scripts" if os.name == "nt" else "bin") / "python")
READY = PLACE / ".ready"
BUILT = ROOT / "_build" / ".built"
# A reader's own Jupyter, IPython and matplotlib settings must not change what a notebook shows.
# And without bytecode each of the many processes that tests and chapters start compiles all it loads.
OTHERS = (
    "JUPYTER_PATH", "IPYTHONDIR", "MPLBACKEND", "MATPLOTLIBRC", "PYTHONPATH", "PYTHONDONTWRITEBYTECODE",
)  # fmt: skip
# All files are UTF-8, in whatever locale.
OURS = {"JUPYTER_PREFER_ENV_PATH": "1", "PYTHONUTF8": "1"}
ASKED = {name: os.environ.get(name, "") for name in ("CHAPTER", "SET")}
# each chapter has a core; threads that wait for one another across two of them lose tenfold
ONE_THREAD = {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
# nbval is not called here, and takes each worker a second and a half to load
TESTS = (PYTHON, "-m", "pytest", "-n", "2", "--dist", "worksteal", "-p", "no:nbval", "tests")
STOPS = [getattr(signal, name) for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name)]


def newer(than: Path, *sources: Path) -> bool:
    return not than.exists() or any(s.stat().st_mtime > than.stat().st_mtime for s in sources)


def run(
    *command: str,
    beside: tuple[str, ...] = (),
    cwd: Path = ROOT,
    needed: bool = True,
    **environment: str,
) -> int:
    """One step, with another ``beside`` it that says all at its end, and how they ended. What ends this
    process ends the step; and if one fails that is ``needed`` nothing comes after it."""
    own = {name: text for name, text in os.environ.items() if name not in OTHERS}
    steps, heard = [], []

    def pass_on(number, _frame):
        heard.append(number)
        if steps:
            send()

    def send():
        while heard:
            number = heard.pop()
            for step in steps:
                if number != signal.SIGINT:  # which a terminal sends to all
                    step.send_signal(number)

    before = {each: signal.getsignal(each) for each in STOPS}
    before = {each: how for each, how in before.items() if how != signal.SIG_IGN}
    for each in before:
        signal.signal(each, pass_on)
    try:
        place = {"cwd": cwd, "env": {**own, **OURS, **environment}}
        started = [subprocess.Popen(command, **place)]
        if beside:
            heard_of = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
            started.append(subprocess.Popen(beside, **place, **heard_of))
            Thread(target=lambda: say(started[1].communicate()[0])).start()
        steps += started
        send()  # what came before there was a step
        code = max((step.wait() for step in steps), key=abs)
    finally:
        for each, how in before.items():
            signal.signal(each, how)
    if code and (needed or code < 0):
        for step in steps if beside else ():
            if step.returncode:
                print("failed:", *step.args, file=sys.stderr, flush=True)
        sys.exit(code if code > 0 else 128 - code)
    return code


def say(what: bytes) -> None:
    """On lines of its own, if there is still a reader."""
    with suppress(OSError):
        sys.stdout.buffer.write(b"\n" + what)
        sys.stdout.flush()


def of_tool(name: str, *arguments: str) -> tuple[str, ...]:
    return PYTHON, str(Path("tools", f"{name}.py")), *arguments


def tool(name: str, *arguments: str, **environment: str) -> None:
    run(*of_tool(name, *arguments), **environment)


def ready() -> None:
    """Everything as it is locked, by the hashes of its files; then what the lock leaves out, torch, by its
    version; then this package."""
    requirements, lock = ROOT / "requirements.txt", ROOT / "requirements.lock"
    if not newer(READY, requirements, lock, ROOT / "pyproject.toml"):
        return
    print("Setting up .venv (a minute)", flush=True)
    run(sys.executable, "-m", "venv", ".venv")
    pip = [PYTHON, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    # into this environment, not into one that is active
    uv = [PYTHON, "-m", "uv", "pip", "install", "--python", PYTHON, "--quiet", "--compile-bytecode"]
    locked = ["--no-deps", "-r", lock.name]
    alone, text = PLACE / "uv.txt", lock.read_text(encoding="utf-8")
    alone.write_text("".join(re.findall(r"^uv==.*\n(?:[ ]+.*\n)*", text, re.MULTILINE)))
    # uv takes a fifth of the time, but does not know of an index that only pip is told of
    if run(*pip, "-r", str(alone), needed=False) or run(*uv, *locked, needed=False):
        print("uv could not install what is locked: pip does", flush=True)
        run(*pip, *locked)
    text = requirements.read_text(encoding="utf-8")
    run(*pip, *re.findall(r"^torch==\S+", text, re.MULTILINE))
    run(*pip, "--no-deps", "--no-build-isolation", "-e", ".")
    # what an install that is no editable one had compiled stays there, and would stand before this tree
    for name in ("iclcore", "iclbook"):
        for left in PLACE.glob(f"[Ll]ib/**/site-packages/{name}"):
            shutil.rmtree(left)
    READY.touch()


def built() -> None:
    """The pages, where something they show has changed since."""
    files = [ROOT / "_config.yml", ROOT / "_toc.yml"]
    for folder in ("book", "tools", "iclcore"):
        for path in (ROOT / folder).rglob("*"):
            inside = path.relative_to(ROOT).parts
            if path.is_file() and not any(p.startswith((".", "__pycache__")) for p in inside):
                files.append(path)
    if newer(BUILT, *files):
        tool("build")


def book() -> None:
    names, settings = ASKED["CHAPTER"].split(), ASKED["SET"].split()
    tool("execute", *names, *(["--set", *settings] if settings else []), **ONE_THREAD)
    if settings:
        return tool("build")
    # once more, as it is committed: every printed number against what stands in the notebook
    nbval = ["-n", "2", "--dist", "loadfile", "--nbval"]
    what = [f"book/{name}.ipynb" for name in names] or ["book"]
    place = "workplace" if names else "kernels"
    check = of_tool(place, PYTHON, "-m", "pytest", *nbval, *what)
    run(*check, beside=of_tool("build"), **ONE_THREAD)  # Sphinx has work for one core


def test() -> None:
    tool("browsers")
    built()
    run(PYTHON, "-m", "ruff", "check", ".")
    run(PYTHON, "-m", "ruff", "format", "--check", ".")
    run(*TESTS, **ONE_THREAD)


def test_slow() -> None:
    tool("browsers")
    built()
    # browsers and clusters are waited for: there is time for a third process
    run(*TESTS, "-m", "slow", beside=of_tool("processors", "quick"), **ONE_THREAD)


def clean() -> None:
    for pattern in ("_build", "build", "*.egg-info", ".pytest_cache", ".ruff_cache", ".hypothesis"):
        for path in ROOT.glob(pattern):
            shutil.rmtree(path)


def test_settings() -> None:
    tool("workplace", PYTHON, "tools/other_settings.py", *ASKED["CHAPTER"].split())


def test_processors() -> None:
    tool("workplace", PYTHON, "tools/processors.py")


def test_mutants() -> None:
    tool("workplace", PYTHON, "tools/mutants.py")


def test_long() -> None:
    tool("browsers")
    built()
    what = ("tests/attack", "tests/browser/test_addresses.py", "tests/browser/test_pages.py")
    run(PYTHON, "-m", "pytest", *what, LONG="yes", **ONE_THREAD)


def test_browsers() -> None:
    tool("browsers")
    run(PYTHON, "-m", "pytest", "-rs", "tests/browser/test_other_browsers.py", BROWSERS="yes")


def serve() -> None:
    built()
    tool("serve", "_build/html")


def print_() -> None:
    tool("browsers")
    built()
    tool("paper")


def lab() -> None:  # a container's user is root
    run(PYTHON, "-m", "jupyterlab", "--allow-root", cwd=ROOT / "book")


def bench() -> None:
    tool("browsers")
    built()
    run(PYTHON, "-m", "bench")
    run(PYTHON, "-m", "bench.redraw")


COMMANDS = {
    "book": (
        book,
        "execute every chapter, build the pages into _build/html, check each chapter by nbval",
    ),
    "test": (test, "lint, format, tests, pages in a browser"),
    "test-slow": (test_slow, "the tests that take longest: with book and test, what CI runs"),
    "test-settings": (test_settings, "every chapter with other settings, into a temporary folder"),
    "test-processors": (test_processors, "as on three other processors (a quarter of an hour)"),
    "test-mutants": (test_mutants, "put small faults into theory and engines (20 minutes)"),
    "test-long": (test_long, "thousands of inputs and faults (half an hour)"),
    "test-browsers": (
        test_browsers,
        "the explorers in Firefox and WebKit, where they are installed",
    ),
    "serve": (serve, "show the pages at http://127.0.0.1"),
    "print": (print_, "the whole book as a PDF: _build/print/book.pdf (some minutes)"),
    "lab": (lab, "open the chapters in JupyterLab"),
    "bench": (bench, "measure"),
    "browser": (lambda: tool("browsers"), "see that there is a Chromium for the tests"),
    "ready": (lambda: None, "install into .venv, which all others do first"),
    "clean": (clean, "remove what was built (.venv stays)"),
}
USAGE = """
CHAPTER=merged is for book and test-settings, and SET="seeds=1 dim=6" for book: its parameters by
other values, to look at."""


def main(words: list[str]) -> None:
    if sys.version_info < (3, 11):  # noqa: UP036
        version = ".".join(map(str, sys.version_info[:3]))
        sys.exit(f"Python 3.11 or newer is needed, not {version}: make PYTHON=python3.12")
    given = dict(word.split("=", 1) for word in words if "=" in word)
    commands = [word for word in words if "=" not in word]
    for unknown in given.keys() - ASKED.keys():
        sys.exit(f"{unknown} is nothing that can be set; {' and '.join(ASKED)} are")
    for unknown in set(commands) - COMMANDS.keys():
        sys.exit(f"no command {unknown!r}; there are: {', '.join(COMMANDS)}")
    ASKED.update(given)
    for name in commands:
        if name != "clean":
            ready()
        COMMANDS[name][0]()
    if not commands:
        print(
            "\n".join(f"{name:<16} {what}" for name, (_, what) in COMMANDS.items()) + "\n" + USAGE
        )


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of the list left
        sys.stdout = None
