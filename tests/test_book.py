"""The executor and the build: canonical, all or none, stoppable; the notebooks as committed."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace

import build
import execute
import kernels
import nbformat
import needed
import pytest
import workplace
from chapters import Problem, chapters, recorded
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook
from pace import mostly_slow, slow

from iclbook import chapter

ROOT = Path(__file__).resolve().parent.parent
TOOLS = ROOT / "tools"
CHAPTERS = chapters()
LONG = 120

WIDGET = """\
import sys

import ipywidgets

print("λ", flush=True)
print("more", flush=True)
ipywidgets.VBox([ipywidgets.IntSlider(3)])"""

# from where it says who it is, no other thread of this process runs: it computes in C
DEAF = """\
import os

print(os.getpid(), file=open({file!r}, "w"), flush=True)
sum(range(10**11))"""

LOADED = """\
import os, subprocess, sys

import iclcore

assert subprocess.run(["false"]).returncode == 1
print(os.getcwd(), os.environ["NUMBA_NUM_THREADS"], "tools" in " ".join(sys.path))
print("torch" in sys.modules, hasattr(iclcore, "seen"))
iclcore.seen = True"""

# signals as they are in a terminal, wherever these tests run
TERMINAL = """\
import pathlib, runpy, signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
"""
EXECUTE = TERMINAL + "import execute; sys.exit(execute.main([], pathlib.Path.cwd()))"
BUILD = TERMINAL + "import build; sys.exit(build.build(['true'], pathlib.Path.cwd()))"
RUN = TERMINAL + f"runpy.run_path({str(TOOLS / 'workplace.py')!r}, run_name='__main__')"


def write_book(root, **chapters):
    """A small book: one notebook for each keyword, a list of code cells."""
    (root / "book").mkdir()
    toc = "format: jb-book\nroot: book/index\nchapters:\n"
    for name, cells in chapters.items():
        toc += f"- file: book/{name}\n"
        notebook = new_notebook(cells=[new_code_cell(text, id=f"c{n}") for n, text in cells])
        notebook.cells[0].metadata["tags"] = ["parameters"]
        nbformat.write(notebook, root / "book" / f"{name}.ipynb")
    (root / "_toc.yml").write_text(toc)


def contents(root):
    return {path.name: path.read_bytes() for path in (root / "book").glob("*")}


@contextmanager
def python(root, code, *arguments, **environment):
    """A process in `root`, whose temporary files are in root/tmp."""
    (root / "tmp").mkdir(exist_ok=True)
    environment |= {"PYTHONPATH": str(TOOLS), "TMPDIR": str(root / "tmp")}
    command = [sys.executable, "-c", code, *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, cwd=root, env=os.environ | environment, **pipes) as process:
        try:
            yield process
        finally:
            process.kill()


def until(condition):
    """Wait for it. LONG is there for a test that fails, which would wait for ever."""
    end = time.monotonic() + LONG
    while not condition():
        assert time.monotonic() < end, "this does not happen"
        time.sleep(0.01)


def pid_in(file):
    until(lambda: file.exists() and file.read_text().endswith("\n"))
    return int(file.read_text())


def gone(pid):
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return True
    return state == "Z"  # ended, and nobody asks how


def results(sources):
    """What the executor would find, without a kernel."""
    return [execute.Result(source.path, 1.0, text=source.text + "\n") for source in sources]


def test_executing_again_gives_the_same_bytes_in_any_locale(tmp_path):
    write_book(tmp_path, one=enumerate(['name = "λ"  # λ', WIDGET, "name"]))
    with python(tmp_path, EXECUTE, LC_ALL="C", PYTHONUTF8="0") as ascii_only:
        out, err = ascii_only.communicate(timeout=LONG)
    assert (ascii_only.returncode, err) == (0, "")
    assert [line.split()[0] for line in out.splitlines()] == ["one", "together"]
    first = contents(tmp_path)
    assert execute.main([], tmp_path) == 0
    assert contents(tmp_path) == first
    notebook = nbformat.reads(first["one.ipynb"].decode(), as_version=4)
    stream, widget = notebook.cells[1].outputs
    assert stream.text == "λ\nmore\n"
    assert list(widget.data) == ["text/plain"]
    assert "'λ'" in notebook.cells[2].outputs[0].data["text/plain"]
    assert recorded(tmp_path)["one"]["cells"].keys() <= {"c0", "c1", "c2"}


@pytest.mark.parametrize("chapters", [1, kernels.MANY])
def test_a_forked_kernel_is_as_any_other_but_has_loaded_all(tmp_path, chapters, monkeypatch):
    far = tmp_path / ("far" * 30)
    far.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(far))
    write_book(tmp_path, **{f"n{i}": enumerate([LOADED]) for i in range(chapters)})
    assert execute.main([], tmp_path) == 0
    for path in (tmp_path / "book").iterdir():
        ((said,),) = (cell.outputs for cell in nbformat.read(path, as_version=4).cells)
        beforehand = chapters > 1 and sys.platform == "linux"
        assert said.text == f"{tmp_path / 'book'} 1 False\n{beforehand} False\n"


def test_the_text_is_given_the_numbers_of_the_run(tmp_path, capsys, monkeypatch):
    write_book(tmp_path, one=enumerate(["size = 5", "half = size / 2"]))
    path = tmp_path / "book" / "one.ipynb"
    notebook = nbformat.read(path, as_version=4)
    text = "Half is <!--q half .2f-->{}<!--/q-->."
    notebook.cells.insert(1, new_markdown_cell(text.format("?"), id="text"))
    nbformat.write(notebook, path)
    before = contents(tmp_path)
    found, run = [], execute.execute  # one run, looked at twice
    monkeypatch.setattr(execute, "execute", lambda each: found or found.extend(run(each)) or found)
    assert execute.main(["--check"], tmp_path) == 1
    assert contents(tmp_path) == before
    assert execute.main([], tmp_path) == 0
    *_, said, _, record = nbformat.read(path, as_version=4).cells
    assert said.source == text.format("2.50")
    assert record.outputs[0].text == "half .2f = 2.50\n"
    capsys.readouterr()

    said.source = "Half is\n<!--q half .2f-->2.50<!--/q-->."
    notebook.cells[1] = said
    nbformat.write(notebook, path)
    assert execute.main([], tmp_path) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("one.ipynb: want <!--q ")


@slow
def test_other_settings_give_other_numbers_and_are_marked(tmp_path):
    setting = "size: int = 5  # of what\nrate: float = 0.5"
    shown = "class Shown:\n    def _repr_mimebundle_(self, **_):\n"
    shown += "        alt = f'It is {size}.'\n"
    shown += "        return {'image/png': '', 'text/plain': alt}, {'image/png': {'alt': alt}}\n\nShown()"
    write_book(tmp_path, one=enumerate([setting, "half = size * rate", shown]))
    path = tmp_path / "book" / "one.ipynb"
    notebook = nbformat.read(path, as_version=4)
    notebook.cells.insert(1, new_markdown_cell("Half is <!--q half-->?<!--/q-->.", id="text"))
    nbformat.write(notebook, path)
    assert execute.main(["--set", "size=7", "rate=1"], tmp_path) == 0
    notebook = nbformat.read(path, as_version=4)
    sources = [cell.source for cell in notebook.cells]
    shown = f"{execute.HERE}\nsize = 7\nrate = 1.0"
    assert sources[:3] == [setting, shown, "Half is <!--q half-->7<!--/q-->."] and len(sources) == 6
    assert notebook.cells[4].outputs[0].metadata["image/png"]["alt"] == "It is 7."
    assert notebook.metadata["settings"] == {"size": 7, "rate": 1.0}
    with pytest.raises(AssertionError, match="other settings"):
        assert_committable(path.read_text())
    drawn, _ = chapter.draw(chapter.Figure("one.shown", "", 4, ""), chapter.read(path), {"size": 9})
    assert drawn._repr_mimebundle_()[0]["text/plain"] == "It is 9."  # the last word is the caller's
    assert not recorded(tmp_path)
    assert execute.main([], tmp_path) == 0
    own = nbformat.read(path, as_version=4)
    assert own.cells[1].source == "Half is <!--q half-->2.5<!--/q-->." and recorded(tmp_path)
    assert "settings" not in own.metadata and len(own.cells) == 5


@pytest.mark.parametrize(
    "given, said",
    [
        (["size=x"], "one: size takes a whole number, not 'x'"),
        (["size=2.0"], "one: size takes a whole number, not '2.0'"),
        (["size=True"], "one: size takes a whole number, not 'True'"),
        (["rate=a"], "one: rate takes a number, not 'a'"),
        (["ranks=1,x"], "one: ranks takes the like of (1, 2), not '1,x'"),
        (["size"], "want NAME=VALUE, not 'size'"),
        (["size=3", "scale=quick"], "one has no parameter 'scale'; it has size, rate, kind, ranks"),
    ],
)
def test_a_setting_that_a_chapter_does_not_take_is_refused_at_once(
    tmp_path, monkeypatch, capsys, given, said
):
    write_book(tmp_path, one=[(0, "size: int = 5\nrate = 0.5\nkind = 'a'\nranks = (1, 2)")])
    monkeypatch.setattr(execute, "execute", None)
    assert execute.main(["one", "--set", *given], tmp_path) == 1
    assert capsys.readouterr().err == f"--set: {said}\n"


def test_settings_are_of_the_kind_that_stands_in_the_chapter():
    cell = new_code_cell("rate: float = 0.5\nkind = 'a'\nranks: tuple = (1, 2)")
    cell.metadata["tags"] = ["parameters"]
    found = chapter.settings("one", [cell], ["rate=1", "kind=b=c", "ranks=4, 8,"])
    assert found == {"rate": 1.0, "kind": "b=c", "ranks": (4, 8)}
    assert type(found["rate"]) is float


def test_one_failing_cell_leaves_every_notebook_as_it_was(tmp_path, capsys):
    write_book(tmp_path, good=enumerate(["1 + 1"]), bad=enumerate(["a = 0", "b = 1\nb / a"]))
    before = contents(tmp_path)
    assert execute.main([], tmp_path) == 1
    assert contents(tmp_path) == before
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "bad: cell 2 failed: ZeroDivisionError: division by zero"
    assert any("b / a" in line for line in lines[1:])


def test_a_check_names_what_would_change_and_changes_nothing(tmp_path, monkeypatch, capsys):
    def found(sources):
        other = {"one": "other results\n"}
        return [execute.Result(s.path, 1.0, text=other.get(s.path.stem, s.text)) for s in sources]

    write_book(tmp_path, one=enumerate(["1"]), two=enumerate(["2"]))
    before = contents(tmp_path)
    monkeypatch.setattr(execute, "execute", found)
    assert execute.main(["--check"], tmp_path) == 1
    assert capsys.readouterr().out == "other results: one\n"
    assert execute.main(["--check", "two"], tmp_path) == 0
    assert contents(tmp_path) == before


def test_an_unknown_chapter_is_answered_with_the_known_ones(capsys):
    assert execute.main(["nonsense"]) == 2
    message = capsys.readouterr().err
    assert message == f"no chapter 'nonsense'; the chapters are: {', '.join(CHAPTERS)}\n"


@pytest.mark.parametrize(
    "number, code", mostly_slow([(signal.SIGINT, 130), (signal.SIGKILL, -9)], (signal.SIGKILL, -9))
)
def test_a_stopped_executor_leaves_no_kernel_and_starts_no_other(tmp_path, number, code):
    deaf = {name: [(0, DEAF.format(file=str(tmp_path / name)))] for name in ("one", "two")}
    write_book(tmp_path, **deaf, three=[(0, f"open({str(tmp_path / 'three')!r}, 'w')")])
    before = contents(tmp_path)
    with python(tmp_path, EXECUTE) as executor:
        kernels = [pid_in(tmp_path / name) for name in deaf]
        executor.send_signal(number)
        _, err = executor.communicate(timeout=LONG)
    assert executor.returncode == code
    assert err == ("stopped by SIGINT: no notebook was changed\n" if code == 130 else "")
    until(lambda: all(gone(kernel) for kernel in kernels))
    until(lambda: not list((tmp_path / "tmp").iterdir()))
    assert contents(tmp_path) == before
    assert not (tmp_path / "three").exists()


@pytest.mark.parametrize("name, code", [("INT", 130), ("TERM", 143), ("HUP", 129), ("KILL", -9)])
def test_nothing_outlives_what_is_run_in_a_workplace(tmp_path, name, code):
    stubborn = 'trap "" INT TERM HUP; touch $TMPDIR/file; echo $$ > one\n'
    stubborn += "setsid sh -c 'echo $$ > two; exec sleep 1000' & wait; exec sleep 1000"
    with python(tmp_path, RUN, "sh", "-c", stubborn) as running:
        pids = [pid_in(tmp_path / "one"), pid_in(tmp_path / "two")]
        running.send_signal(signal.Signals[f"SIG{name}"])
        _, err = running.communicate(timeout=LONG)
    assert running.returncode == code
    assert err == (f"stopped by SIG{name}: the command did not finish\n" if code > 0 else "")
    until(lambda: all(gone(pid) for pid in pids))
    until(lambda: not list((tmp_path / "tmp").iterdir()))


def test_what_nohup_ignores_is_ignored_and_what_must_not_be_cut_is_not(capsys):
    usual = signal.getsignal(signal.SIGTERM)
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with workplace.stoppable("") as ignore_stops:
            os.kill(os.getpid(), signal.SIGHUP)
            ignore_stops()
            os.kill(os.getpid(), signal.SIGTERM)
        with pytest.raises(SystemExit) as ended, workplace.stoppable("as it was"):
            os.kill(os.getpid(), signal.SIGTERM)
        assert ended.value.code == 143
        assert capsys.readouterr().err == "stopped by SIGTERM: as it was\n"
        assert signal.getsignal(signal.SIGTERM) == usual
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_full_disk_at_the_end_leaves_every_file_as_it_was(tmp_path, capsys, monkeypatch):
    write_book(tmp_path, one=[(0, "1")], two=[(0, "2")], three=[(0, "3")])
    before = contents(tmp_path)

    def fill_the_disk(sources):
        (tmp_path / "book" / "three.ipynb.new").symlink_to("/dev/full")
        return results(sources)

    monkeypatch.setattr(execute, "execute", fill_the_disk)
    assert execute.main([], tmp_path) == 1
    (line,) = capsys.readouterr().err.splitlines()
    assert "three.ipynb.new cannot be written: No space left on device" in line
    assert line.endswith("no notebook was changed")
    assert contents(tmp_path) == before
    assert not recorded(tmp_path)


def test_a_place_that_cannot_be_written_is_told_before_anything_runs(tmp_path, capsys, monkeypatch):
    write_book(tmp_path, one=[(0, "1")], two=[(0, "2")])
    monkeypatch.setattr(execute, "execute", None)
    for place in ("book/two.ipynb.new", "_build/seconds.json.new"):
        (tmp_path / place).mkdir(parents=True)
        assert execute.main([], tmp_path) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert f"{place} cannot be written: Is a directory" in line
        (tmp_path / place).rmdir()
    ignored = ["git", "check-ignore", "book/two.ipynb.new"]  # what a kill leaves there
    assert subprocess.run(ignored, cwd=ROOT, stdout=subprocess.DEVNULL).returncode == 0


def test_a_broken_record_of_the_seconds_counts_as_empty(tmp_path, monkeypatch):
    write_book(tmp_path, one=[(0, "1")])
    (tmp_path / "_build").mkdir()
    record = tmp_path / "_build" / "seconds.json"
    for broken in (b'{"one": {', b"", b"\xff", b"[]"):
        record.write_bytes(broken)
        assert recorded(tmp_path) == {}
    monkeypatch.setattr(execute, "execute", results)
    assert execute.main([], tmp_path) == 0
    assert recorded(tmp_path) == {"one": {"together": 1.0, "cells": {}}}


@pytest.mark.parametrize("broken", [b"", b'{"cells": [', b"[]", b"null", b"{}", b"\xff\xfe"])
def test_a_broken_file_is_named_in_one_line(tmp_path, capsys, broken):
    write_book(tmp_path, one=[(0, "1")], two=[(0, "2")])
    for name in ("book/two.ipynb", "_toc.yml"):
        (tmp_path / name).write_bytes(broken)
        assert execute.main([], tmp_path) == 1
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith(Path(name).name)


def test_a_table_of_contents_that_is_no_yaml_is_named(tmp_path):
    (tmp_path / "_toc.yml").write_text("a: [\n")
    with pytest.raises(Problem, match=r"^_toc.yml is not YAML: [^\n]*$"):
        chapters(tmp_path)


@pytest.mark.parametrize("code", [0, 1])
def test_a_cut_output_of_papermill_is_named(tmp_path, code):
    write_book(tmp_path, one=[(0, "1")])
    path = tmp_path / "book" / "one.ipynb"
    (tmp_path / "out.ipynb").write_text('{"cells": [')
    papermill = SimpleNamespace(returncode=code, communicate=lambda: ("", "OSError: too large"))
    source = execute.Source(path, path.read_text(), nbformat.read(path, as_version=4))
    failure = execute.finish(papermill, 0.0, source, tmp_path / "out.ipynb").failure
    whole = "one: the kernel did not finish\n    OSError: too large"
    assert (
        failure == whole if code else failure.startswith("one.ipynb as papermill wrote it is not")
    )


@pytest.mark.parametrize("code", [EXECUTE, BUILD])
def test_a_second_build_of_the_same_book_waits(tmp_path, code):
    write_book(tmp_path, one=[(0, "1")])
    with workplace.alone(tmp_path), python(tmp_path, code) as second:
        assert second.stderr.readline() == "waiting for another build of this book to end\n"
        second.terminate()
        assert second.stderr.readline().startswith("stopped by SIGTERM: ")
    assert not (tmp_path / "_build" / "seconds.json").exists()


def test_whoever_waits_comes_in_when_the_other_has_left(tmp_path):
    code = "import pathlib, workplace\nhere = pathlib.Path.cwd()\n"
    code += "with workplace.alone(here): print((here / 'left').exists())"
    with ExitStack() as first:
        first.enter_context(workplace.alone(tmp_path))
        with python(tmp_path, code) as second:
            second.stderr.readline()
            (tmp_path / "left").touch()
            first.close()
            assert second.communicate(timeout=LONG)[0] == "True\n"


def test_pages_are_replaced_only_when_they_are_whole(tmp_path, capfd):
    folder = tmp_path / "_build"
    (folder / "html").mkdir(parents=True)
    (folder / "html" / "index.html").write_text("old")
    (folder / ".built").touch()
    code = """if True:
        import pathlib, sys
        new = pathlib.Path(sys.argv[-1], "_build", "html")
        new.mkdir(parents=True)
        (new / "index.html").write_text("new")
        assert pathlib.Path("_build/html/index.html").read_text() == "old"
        assert not pathlib.Path("_build/.built").exists()
        pathlib.Path("changed").touch()
    """
    assert build.build([sys.executable, "-c", code + "    sys.exit(3)"], tmp_path) == 3
    assert capfd.readouterr().err == "the build failed; the pages are as they were\n"
    assert {path.name for path in folder.iterdir()} == {".lock", "html"}
    assert (folder / "html" / "index.html").read_text() == "old"
    assert build.build([sys.executable, "-c", code], tmp_path) == 0
    assert {path.name for path in folder.iterdir()} == {".built", ".lock", "html"}
    assert (folder / "html" / "index.html").read_text() == "new"
    built, changed = (folder / ".built").stat(), (tmp_path / "changed").stat()
    assert built.st_mtime_ns <= changed.st_mtime_ns  # so make builds once more


@pytest.fixture
def make(tmp_path):
    """Make, with this Makefile, where .venv's Python is the given script."""

    def started(script, *arguments):
        pins = ("requirements.txt", "requirements.lock", "pyproject.toml")
        for name in (*pins, "_config.yml", "_toc.yml"):
            (tmp_path / name).touch()
        shutil.copy(ROOT / "Makefile", tmp_path)
        (tmp_path / "tools").mkdir(exist_ok=True)
        shutil.copy(TOOLS / "make.py", tmp_path / "tools")
        (tmp_path / ".venv" / "bin").mkdir(parents=True, exist_ok=True)
        (tmp_path / ".venv" / ".ready").touch()
        program = tmp_path / ".venv" / "bin" / "python"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        own = {name: text for name, text in os.environ.items() if not name.startswith("MAKE")}
        command = ["make", "--silent", f"PYTHON={sys.executable}", "SET=", "CHAPTER=", *arguments]
        return subprocess.Popen(command, cwd=tmp_path, env=own, stderr=subprocess.DEVNULL)

    return started


def test_make_does_one_thing_after_another(tmp_path, make):
    """But it builds while nbval checks, and tests as another processor beside its slow tests."""
    script = "echo begin >> log; sleep 0.05; echo end >> log"
    with make(script, "-j8", "book", "test", "test-slow") as running:
        assert running.wait(LONG) == 0
    log = (tmp_path / "log").read_text().split()
    one, both = ["begin", "end"], ["begin", "begin", "end", "end"]
    test, slow = 5 * one, 2 * one + both  # browser, build, lint, format, tests
    assert log == one + both + test + slow


def test_the_steps_need_no_make(tmp_path, make):
    """And where one fails none comes after it."""
    with make("true", "ready") as running:
        assert running.wait(LONG) == 0
    program = tmp_path / ".venv" / "bin" / "python"
    alone = [sys.executable, "tools/make.py"]
    for fails, count in (("execute", 1), ("build", 3), ("workplace", 3), ("nothing", 3)):
        program.write_text(f'#!/bin/sh\necho "$*" >> log\ncase "$*" in *{fails}*) exit 3;; esac\n')
        (tmp_path / "log").unlink(missing_ok=True)
        asked = [*alone, "book", "CHAPTER=one two"]
        done = subprocess.run(asked, cwd=tmp_path, env={"PATH": os.environ["PATH"]})
        assert done.returncode == (0 if fails == "nothing" else 3)
        log = (tmp_path / "log").read_text().splitlines()
        assert log[0] == "tools/execute.py one two" and len(log) == count
    assert "tools/build.py" in log[1:]
    assert any(line.endswith(" book/one.ipynb book/two.ipynb") for line in log[1:])
    program.write_text('#!/bin/sh\necho "$1" is done\ncase "$1" in *build*) exit 3;; esac\n')
    done = subprocess.run([*alone, "book"], cwd=tmp_path, capture_output=True, text=True)
    assert "\ntools/build.py is done\n" in done.stdout
    (line,) = done.stderr.splitlines()
    assert line.startswith("failed: ") and line.endswith("tools/build.py")
    for wrong in ("boko", "chapter=one"):
        done = subprocess.run([*alone, wrong], cwd=tmp_path, capture_output=True, text=True)
        (line,) = done.stderr.splitlines()
        assert done.returncode == 1 and wrong.partition("=")[0] in line


@pytest.mark.parametrize("uv", [True, False])
def test_what_is_installed_is_what_is_locked(tmp_path, make, uv):
    """First by hashes, then what the lock leaves out; again only after a change."""
    fails = "true" if uv else 'case "$*" in "-m uv"*) exit 2;; esac'
    with make(f'echo "$*" >> log; {fails}', "ready") as running:
        assert running.wait(LONG) == 0
    assert not (tmp_path / "log").exists()
    (tmp_path / "requirements.txt").write_text("numpy==2  # arrays\ntorch==1.0  # its CPU build\n")
    entry = (
        "uv==3 \\\n    --hash=sha256:12 \\\n    --hash=sha256:34\n    # via -r requirements.txt\n"
    )
    (tmp_path / "requirements.lock").write_text(f"numpy==2\n{entry}wheel==4\n")
    ready = tmp_path / ".venv" / ".ready"
    os.utime(ready, (1, 1))
    # as numba leaves it of a package that was installed here and is no more
    left = tmp_path / ".venv/lib/python3/site-packages/iclcore/__pycache__"
    left.mkdir(parents=True)
    script = (
        'import sys; sys.path.insert(0, "tools"); import make; make.sys.executable = make.PYTHON\n'
    )
    script += 'make.main(["ready"]); make.main(["ready"])'
    assert subprocess.run([sys.executable, "-c", script], cwd=tmp_path).returncode == 0
    assert not left.parent.exists()
    commands = (tmp_path / "log").read_text().splitlines()
    pip, locked = (
        "-m pip install --quiet --disable-pip-version-check",
        "--no-deps -r requirements.lock",
    )
    alone, python = (tmp_path / ".venv" / name for name in ("uv.txt", "bin/python"))
    assert alone.read_text() == entry
    assert commands == [
        "-m venv .venv",
        f"{pip} -r {alone}",
        f"-m uv pip install --python {python} --quiet --compile-bytecode {locked}",
        *([] if uv else [f"{pip} {locked}"]),
        f"{pip} torch==1.0",
        f"{pip} --no-deps --no-build-isolation -e .",
    ]


def test_make_sets_what_is_asked_and_does_not_compare_that(tmp_path, make):
    with make('echo "$*" >> log', "book", "CHAPTER=one", "SET=seeds=1 ranks=(1,2)") as running:
        assert running.wait(LONG) == 0
    commands = (tmp_path / "log").read_text().splitlines()
    assert commands == ["tools/execute.py one --set seeds=1 ranks=(1,2)", "tools/build.py"]


@pytest.mark.parametrize("step", ["tools/execute.py", "--nbval", "tools/build.py"])
def test_what_ends_make_ends_what_it_runs(tmp_path, make, step):
    script = f'case "$*" in *{step}*) echo $$ > pid; exec sleep 1000;; esac'
    with make(script, "book") as running:
        pid = pid_in(tmp_path / "pid")
        running.terminate()
    until(lambda: gone(pid))


@pytest.mark.parametrize("name", CHAPTERS)
def test_committed_outputs_are_whole_and_the_same_everywhere(name):
    assert_committable(CHAPTERS[name].read_text())


def assert_committable(text):
    notebook = nbformat.reads(text, as_version=4)
    assert "settings" not in notebook.metadata, "executed with other settings: run make book"
    code = [cell for cell in notebook.cells if cell.cell_type == "code"]
    counts = [cell.execution_count for cell in code]
    assert counts == list(range(1, len(code) + 1)), "not executed in order: run make book"
    for cell in code:
        for output in cell.outputs:
            assert output.output_type != "error"
            assert output.get("name") != "stderr", f"a warning is shown: {output.text}"
            shown = output.get("text", "") + str(output.get("data", {}).get("text/plain", ""))
            assert not re.search(r"\b0x[0-9a-f]{6,}", shown), f"a memory address: {shown}"
            if "image/png" in output.get("data", {}):
                alt = output.metadata.get("image/png", {}).get("alt", "")
                assert len(alt.split()) > 5, "a picture whose alt text says nothing"
    again = nbformat.reads(text, as_version=4)
    assert execute.canonical(again, notebook) == text, "saved by an editor: run make book"
    says = needed.committed(again, needed.address(ROOT))
    assert nbformat.writes(says) + "\n" == text, "_config.yml has another address: run make book"
