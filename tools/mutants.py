"""Small faults put into the package, one at a time: does a test fail?  make test-mutants

    python tools/mutants.py [--seed 1] [--sample 40] [MODULE ...]

Each mutant has one fault of ``faults``, in a copy of the tree.
First every test is run once on the code as it is, to see which functions it reaches; that is kept until code
or its file change. A mutant meets the tests that reach its function, the quickest first, and after them
the rest of their files: a result that is kept between tests is computed in one of them only.
"""

import argparse
import csv
import json
import multiprocessing
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import cache
from hashlib import sha256
from pathlib import Path
from queue import Queue

import faults
import pytest
from make import ONE_THREAD, PLACE, ROOT
from workplace import guarded, stoppable

PACKAGE = ROOT / "iclcore"
PATH = (".", "book", "tools")
IMPORTED = "hypothesis jaxtyping numba pytest scipy.integrate scipy.optimize scipy.stats torch"
REACH = "MUTANTS_REACH"
KEPT = ROOT / "_build" / "mutants.json"
DEFAULT = [
    "theory/*",
    "heads/*",
    "moments",
    "gaussian",
    "loops",
    "plain",
    "engines/linear",
    "engines/population",
    "engines/softmax",
]
# tests of pages, records, commands and servers: a formula has nearer ones
APART = """browser/* *chapter* *book* *pages* *rendered* *project* *prose* *claims* *install* *serve* *cli*
*cluster* *workers* *sweep* *figure* *pictures* *panels* *colours* *explorers* *mutants* *phase_diagram*
*systems*"""
# what changes no result, and why
EQUIVALENT = ROOT / "tools" / "equivalent.csv"
COPIES = 2
# Seconds that a test has beside three times what it takes: compiled code is compiled anew.
PATIENCE = 90

# --- Which tests reach it: this module is a plugin of pytest's --------------------------------------

REACHED: dict[str, tuple[float, list[str]]] = {}


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    package, seen, began = f"{item.config.rootpath / 'iclcore'}{os.sep}", set(), time.process_time()

    def called(frame, event, _) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(package):
            seen.add(frame.f_code)

    sys.setprofile(called)
    try:
        return (yield)
    finally:
        sys.setprofile(None)
        places = {(Path(code.co_filename).relative_to(package), code.co_qualname) for code in seen}
        names = {f"{file}:{name}".replace(".<locals>", "") for file, name in places}
        REACHED[item.nodeid] = time.process_time() - began, sorted(names)


def pytest_sessionfinish() -> None:
    Path(os.environ[REACH]).write_text(json.dumps(REACHED))


class Tests:
    """Seconds of every test, and which of them reach a function of the package."""

    def __init__(self, reached: dict[str, tuple[float, list[str]]]):
        self.seconds = {test: seconds for test, (seconds, _) in reached.items()}
        self.by_name, self.by_module = {}, {}
        for test, (_, names) in reached.items():
            for name in names:
                self.by_name.setdefault(name, set()).add(test)
                self.by_module.setdefault(name.partition(":")[0], set()).add(test)

    def of(self, module: str, function: str) -> list[str]:
        """The tests to be run, in this order."""
        first = self.by_name.get(f"{module}:{function}")
        if not first:  # compiled, or not in a function: what enters the module, or takes from it
            takers = [each for each in self.by_module if takes(each, module)]
            first = set().union(*(self.by_module[each] for each in takers))
        files = {test.partition("::")[0] for test in first}
        rest = {test for test in self.seconds if test.partition("::")[0] in files} - first
        return [*sorted(first, key=self.seconds.get), *sorted(rest, key=self.seconds.get)]


def takes(module: str, other: str) -> bool:
    name = other.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return module == other or f"iclcore.{name} " in (PACKAGE / module).read_text()


# --- A copy, and what becomes of a mutant in it -----------------------------------------------------


@cache
def warm() -> multiprocessing.context.BaseContext:
    """Of processes that begin with what all tests import: to import it takes longer than most tests."""
    os.environ.update(ONE_THREAD)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(IMPORTED.split())
    return context


class Limit:
    """To a process as much time of a processor as its test should need: another's busy machine does not
    count. A plugin of pytest's."""

    def __init__(self, seconds: dict[str, float]):
        self.seconds = seconds

    def pytest_runtest_setup(self, item) -> None:
        import resource

        most = time.process_time() + PATIENCE + 3 * self.seconds[item.nodeid]
        _, own = resource.getrlimit(resource.RLIMIT_CPU)
        resource.setrlimit(resource.RLIMIT_CPU, (int(most), own))


def within(
    root: Path, said: Path, environment: dict, arguments: list[str], limit: Limit | None
) -> None:
    """What such a process does: pytest in this copy, where nothing is known of the tree itself."""
    import numba

    for number in (1, 2):
        os.dup2(os.open(said, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND), number)
    os.chdir(root)
    os.environ.update(environment)
    numba.config.reload_config()
    sys.dont_write_bytecode = False
    sys.path[:] = [str(root / each) for each in PATH] + [
        each for each in sys.path if not ours(each)
    ]
    for name, module in list(sys.modules.items()):
        if ours(getattr(module, "__file__", None) or "") and not name.startswith("__"):
            del sys.modules[name]
    plugins = [limit] if limit else []
    sys.exit(pytest.main(["-x", "-m", "", "-p", "no:cacheprovider", *arguments], plugins))


@contextmanager
def ended() -> Iterator[None]:
    """Whatever ends this ends such processes: else the last mutants would be waited for."""
    try:
        yield
    finally:
        for each in multiprocessing.active_children():
            each.terminate()


def ours(path: str) -> bool:
    return Path(path).is_relative_to(ROOT) and not Path(path).is_relative_to(PLACE)


class Copy:
    """The tree, as it is now, in a folder of its own; compiled code is kept there between mutants."""

    def __init__(self, folder: Path, name: str):
        self.root, self.cache = folder / name, folder / name / "cache"
        self.cache.mkdir(parents=True)
        tracked = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(tracked, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for each in filter(None, names.split("\0")):
            (self.root / each).parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):  # removed, and not yet so in git
                shutil.copy2(ROOT / each, self.root / each)

    def pytest(self, arguments: list[str], limit: Limit | None = None, **more) -> tuple[int, str]:
        """Its exit code, a signal's below 0, and what it said."""
        path = os.pathsep.join(str(self.root / each) for each in PATH)
        # plugins take longer than most tests, and of two runs all files but one are the same
        given = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONDONTWRITEBYTECODE": ""}
        given |= {"PYTHONPATH": path, "NUMBA_CACHE_DIR": str(self.cache), **more}
        said = self.root / "said"
        said.unlink(missing_ok=True)  # or a process that does not begin would pass for killed
        run = warm().Process(target=within, args=(self.root, said, given, arguments, limit))
        run.start()
        run.join()
        return run.exitcode, said.read_text(errors="replace")

    def reached(self, files: list[str]) -> dict:
        """By running these files of tests once."""
        kept = self.root / "reached.json"
        code, said = self.pytest(["-p", "mutants", *files], **{REACH: str(kept)})
        if code:
            raise SystemExit(f"the tests fail before anything is changed:\n{said}")
        told = json.loads(kept.read_text())
        # or each mutant would pass for killed
        if self.pytest(["--collect-only", *told])[0]:
            raise SystemExit("pytest does not find the tests again by their names")
        return told

    def verdict(self, tests: Tests, module: str, function: str, source: str) -> str:
        """``killed`` and by which test, or ``survived``."""
        path = self.root / "iclcore" / module
        was, given = path.read_text(), tests.of(module, function)
        if not given:
            return "survived: no test reaches it"
        try:
            path.write_text(source)
            with tempfile.TemporaryDirectory(dir=self.root) as folder:
                cache = self.others(module, Path(folder)) if "njit" in was else str(self.cache)
                code, said = self.pytest(given, Limit(tests.seconds), NUMBA_CACHE_DIR=cache)
        finally:
            path.write_text(was)
            shutil.copystat(PACKAGE / module, path)
            for each in path.parent.glob(f"__pycache__/{path.stem}.*"):
                each.unlink()  # Python knows a file by second and size: two mutants may have the same
        if -code == signal.SIGXCPU:
            return "killed: it does not end"
        if -code in (signal.SIGKILL, signal.SIGTERM):
            raise SystemExit(f"a mutant's process was ended from outside, in {module}")
        by = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - |$)", said, re.MULTILINE)
        if code:
            return f"killed by {by[1] if by else f'exit code {code}'}"
        return f"survived {len(given)} tests"

    def others(self, module: str, folder: Path) -> str:
        """What is compiled of other modules than this one and those that take from it: a cache knows a
        function by its own file only."""
        names = {str(file.relative_to(PACKAGE)) for file in PACKAGE.rglob("*.py")}
        changed = [f"{Path(name).stem}.*" for name in names if takes(name, module)]
        shutil.copytree(self.cache, folder / "cache", ignore=shutil.ignore_patterns(*changed))
        return str(folder / "cache")


def equivalent() -> set[tuple[str, str, str]]:
    """Of a module the line and the change: none of them is tried."""
    with EQUIVALENT.open(newline="") as file:
        return {tuple(row[:3]) for row in list(csv.reader(file))[1:]}


def line_of(module: str, number: int) -> str:
    return (PACKAGE / module).read_text().splitlines()[number - 1].strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("modules", nargs="*", default=DEFAULT, help="as theory/phases or moments")
    parser.add_argument("--seed", type=int, default=1, help="of the sample")
    parser.add_argument("--sample", type=int, default=40, help="how many mutants")
    given = parser.parse_args()
    files = sorted({file for each in given.modules for file in PACKAGE.glob(f"{each}.py")})
    if not files:
        parser.error(f"modules takes names in iclcore, not {' '.join(given.modules)}")
    every = [
        (str(file.relative_to(PACKAGE)), *mutant)
        for file in files
        for mutant in faults.mutants(file.read_text())
    ]
    sample = random.Random(given.seed).sample(every, min(given.sample, len(every)))
    known = equivalent()
    chosen = [
        mutant for mutant in sample if (mutant[0], line_of(*mutant[:2]), mutant[3]) not in known
    ]
    with guarded() as (folder, _), ThreadPoolExecutor(COPIES) as pool, ended():
        copies, free = [Copy(folder, str(number)) for number in range(COPIES)], Queue()
        tests = Tests(reached_by(copies, pool))
        for each in copies:
            free.put(each)

        def judge(mutant: tuple) -> str:
            module, line, function, what, source = mutant
            own = free.get()
            try:
                told = own.verdict(tests, module, function, source)
            finally:
                free.put(own)
            print(f"iclcore/{module}:{line}: {what}: {told}", flush=True)
            return told

        told = list(pool.map(judge, sorted(chosen, key=lambda mutant: mutant[:2])))
    alive = sum(each.startswith("survived") for each in told)
    print(f"{len(told) - alive} of {len(told)} killed, of {len(every)} that could be made")
    return 0


def reached_by(copies: list[Copy], pool: ThreadPoolExecutor) -> dict:
    """What every test reaches, from the last time where code and its file are the same."""
    files = sorted((ROOT / "tests").glob("test_*.py"), key=lambda file: -file.stat().st_size)
    files = [file for file in files if not any(map(file.match, APART.split()))]
    state = sha256()
    for file in [*sorted(PACKAGE.rglob("*.py")), ROOT / "tests" / "conftest.py"]:
        state.update(file.read_bytes())
    now = {
        f"tests/{file.name}": sha256(state.digest() + file.read_bytes()).hexdigest()
        for file in files
    }
    kept = json.loads(KEPT.read_text()) if KEPT.is_file() else {}
    kept = {file: told for file, told in kept.items() if told[0] == now.get(file)}
    new = [file for file in now if file not in kept]
    parts = [part for part in (new[at :: len(copies)] for at in range(len(copies))) if part]
    for told in pool.map(lambda own, part: own.reached(part), copies, parts):
        for test, reached in told.items():
            file = test.partition("::")[0]
            kept.setdefault(file, [now[file], {}])[1][test] = reached
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_text(json.dumps(kept))
    return {test: told for _, part in kept.values() for test, told in part.items()}


if __name__ == "__main__":
    with stoppable("not every mutant was judged"):
        sys.exit(main())
