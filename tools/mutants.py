"""Small faults put into the package, one at a time: does a test fail?  make test-mutants

    python tools/mutants.py [--seed 1] [--sample 40] [MODULE ...]

Each mutant changes one operator, number, comparison, sign or order of arguments, in a copy of the tree.
First every test is run once on the code as it is, to see which functions it reaches; that is kept until code
or tests change. A mutant meets the tests that reach its function, the quickest first, and if they all
pass, the whole files that they are in: a result that is kept between tests is computed in one of them only.
"""

import argparse
import ast
import copy
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from queue import Queue

import pytest
from make import ROOT
from workplace import guarded, stoppable

PACKAGE = ROOT / "iclcore"
REACH = "MUTANTS_REACH"
KEPT = ROOT / "_build" / "mutants.json"
SECOND = "multihead spectral"
ENGINES = "moments descent compiled lanes population query_row softmax"
DEFAULT = ["theory/*", *f"{SECOND} {ENGINES}".split()]
# tests of pages, records, commands and servers: a formula has nearer ones
APART = """browser/* *chapter* *book* *pages* *rendered* *project* *prose* *claims* *install* *serve* *cli*
*cluster* *workers* *sweep* *figure* *pictures* *panels* *colours* *explorers* *mutants* *phase_diagram*"""
COPIES = 2
# Seconds of its processor, so that a busy machine does not count, that a mutant has beside three times what
# the tests take: compiled code is compiled anew.
PATIENCE = 90

BINARY = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.Pow: ast.Mult,
}
BINARY |= {ast.FloorDiv: ast.Mult, ast.And: ast.Or, ast.Or: ast.And}
COMPARED = {ast.Lt: ast.GtE, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.GtE: ast.Lt, ast.Eq: ast.NotEq}
COMPARED |= {ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is}
NAMES = {"max": "min", "maximum": "minimum", "argmax": "argmin", "sqrt": "cbrt", "any": "all"}
NAMES |= {new: old for old, new in NAMES.items() if old != "sqrt"}

# --- What can be changed ---------------------------------------------------------------------------


def changes(node: ast.AST) -> Iterator[ast.AST]:
    """The node with one fault in it, in each way there is."""
    new = copy.deepcopy(node)
    match new:
        case ast.BinOp() | ast.AugAssign() | ast.BoolOp() if type(new.op) in BINARY:
            new.op = BINARY[type(new.op)]()
            yield new
        case ast.Compare(ops=[op]) if type(op) in COMPARED:
            new.ops = [COMPARED[type(op)]()]
            yield new
        case ast.UnaryOp(op=ast.USub() | ast.Not(), operand=operand):
            yield operand
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            # an index or a power one further; twice the size
            new.value = number + 1 if isinstance(number, int) else 2 * number or 1.0
            yield new
        case ast.Name(id=name) if name in NAMES:
            new.id = NAMES[name]
            yield new
        case ast.Attribute(attr=name) if name in NAMES:
            new.attr = NAMES[name]
            yield new
        case ast.Call(args=[first, second, *_]) if ast.dump(first) != ast.dump(second):
            if not any(
                isinstance(each, ast.Starred | ast.GeneratorExp) for each in (first, second)
            ):
                new.args[:2] = second, first
                yield new


def mutants(source: str) -> list[tuple[int, str, str, str]]:
    """Of each: line, the function it is in, what is changed, the changed source."""
    tree, found = ast.parse(source), []

    def visit(node: ast.AST, inside: tuple[str, ...]) -> None:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            inside = (*inside, node.name) if node is not tree else inside
        for field, value in ast.iter_fields(node):
            if field in ("annotation", "returns", "decorator_list"):
                continue
            for at, child in enumerate(value) if isinstance(value, list) else [(None, value)]:
                # what is said where something is refused is no formula, nor is text
                if not isinstance(child, ast.AST) or isinstance(child, ast.Raise | ast.JoinedStr):
                    continue
                for new in changes(child):
                    put(node, field, at, new)
                    what = f"{ast.unparse(child)} -> {ast.unparse(new)}"
                    found.append((child.lineno, ".".join(inside), what, ast.unparse(tree)))
                    put(node, field, at, child)
                visit(child, inside)

    visit(tree, ())
    return [each for each in found if each[3] != ast.unparse(tree)]


def put(node: ast.AST, field: str, at: int | None, child: ast.AST) -> None:
    if at is None:
        setattr(node, field, child)
    else:
        getattr(node, field)[at] = child


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

    def of(self, module: str, function: str) -> tuple[list[str], list[str]]:
        """The tests to be run first, and those after them."""
        first = self.by_name.get(f"{module}:{function}")
        if not first:  # compiled, or not in a function: what enters the module, or takes from it
            takers = [each for each in self.by_module if takes(each, module)]
            first = set().union(*(self.by_module[each] for each in takers))
        files = {test.partition("::")[0] for test in first}
        rest = {test for test in self.seconds if test.partition("::")[0] in files} - first
        return sorted(first, key=self.seconds.get), sorted(rest, key=self.seconds.get)


def takes(module: str, other: str) -> bool:
    name = other.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return module == other or f"iclcore.{name} " in (PACKAGE / module).read_text()


# --- A copy, and what becomes of a mutant in it -----------------------------------------------------


class Copy:
    """The tree, as it is now, in a folder of its own; compiled code is kept there between mutants."""

    def __init__(self, folder: Path, name: str):
        self.root, self.folder = folder / name, folder
        tracked = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
        names = subprocess.run(tracked, cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for each in filter(None, names.split("\0")):
            (self.root / each).parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileNotFoundError):  # removed, and not yet so in git
                shutil.copy2(ROOT / each, self.root / each)

    def pytest(self, tests: list[str], cache: Path, limit: float | None = None, **more) -> int:
        """Its exit code, a signal's below 0. No bytecode: two mutants may be of one second and size."""
        most = f"ulimit -t {limit:.0f}; " if limit else ""
        path = os.pathsep.join(str(self.root / each) for each in (".", "book", "tools"))
        given = {"PYTHONPATH": path, "NUMBA_CACHE_DIR": str(cache), "PYTHONDONTWRITEBYTECODE": "1"}
        given |= {"OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", **more}
        command = ["sh", "-c", f'{most}exec "$@"', "sh", sys.executable, "-m", "pytest", "-x"]
        command += ["-p", "no:cacheprovider", *tests]
        with tempfile.TemporaryFile() as said:
            environment = os.environ | given
            run = subprocess.run(command, cwd=self.root, env=environment, stdout=said, stderr=said)
            if run.returncode and REACH in more:
                said.seek(0)
                raise SystemExit(
                    "the tests fail before anything is changed:\n" + said.read().decode()
                )
        return run.returncode

    def reached(self, files: list[str]) -> dict:
        """By running these files of tests once."""
        kept = self.root / "reached.json"
        cache = self.root / "cache"
        self.pytest(["-p", "mutants", *files], cache, **{REACH: str(kept)})
        told = json.loads(kept.read_text())
        if self.pytest(["--collect-only", *told], cache):  # or each mutant would pass for killed
            raise SystemExit("pytest does not find the tests again by their names")
        return told

    def verdict(self, tests: Tests, module: str, function: str, source: str) -> str:
        """``killed`` and by how much of what was tried, or ``survived``."""
        path = self.root / "iclcore" / module
        was = path.read_text()
        groups = [group for group in tests.of(module, function) if group]
        compiled = "numba" in was  # the cache knows a function by its own file only
        tried = 0
        try:
            path.write_text(source)
            with tempfile.TemporaryDirectory(dir=self.folder) as fresh:
                cache = Path(fresh) if compiled else self.root / "cache"
                for group in groups:
                    limit = PATIENCE + 3 * sum(map(tests.seconds.get, group))
                    code = self.pytest(group, cache, limit)
                    tried += len(group)
                    if -code in (signal.SIGXCPU, signal.SIGKILL):
                        return "killed: it does not end"
                    if code:
                        return f"killed by one of {tried}"
        finally:
            path.write_text(was)
            shutil.copystat(PACKAGE / module, path)
        return f"survived {tried} tests" if groups else "survived: no test reaches it"


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
        for mutant in mutants(file.read_text())
    ]
    chosen = random.Random(given.seed).sample(every, min(given.sample, len(every)))
    with guarded() as (folder, _), ThreadPoolExecutor(COPIES) as pool:
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
    """What every test reaches, from the last time if code and tests are the same."""
    files = sorted((ROOT / "tests").glob("test_*.py"), key=lambda file: -file.stat().st_size)
    state = sha256()
    for file in sorted([*PACKAGE.rglob("*.py"), *files]):
        state.update(file.read_bytes())
    if KEPT.is_file() and (kept := json.loads(KEPT.read_text()))[0] == state.hexdigest():
        return kept[1]
    files = [f"tests/{file.name}" for file in files if not any(map(file.match, APART.split()))]
    halves = [files[number :: len(copies)] for number in range(len(copies))]
    parts = pool.map(lambda own, half: own.reached(half), copies, halves)
    reached = {test: told for part in parts for test, told in part.items()}
    KEPT.parent.mkdir(exist_ok=True)
    KEPT.write_text(json.dumps([state.hexdigest(), reached]))
    return reached


if __name__ == "__main__":
    with stoppable("not every mutant was judged"):
        sys.exit(main())
