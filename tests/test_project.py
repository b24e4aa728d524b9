"""The project as a whole: pins, pages, commands, and nothing of one machine in the tree."""

import os
import re
import subprocess
import sys
from pathlib import Path

from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parent.parent
TRACKED = subprocess.run(
    ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
).stdout.split("\0")[:-1]
TEXT = {
    "",
    *[".py", ".md", ".yml", ".toml", ".txt", ".lock", ".cff", ".ipynb", ".mjs", ".js", ".json"],
}
PIN = re.compile(r"(?P<name>[\w.-]+)==(?P<version>[\w.+]+) +# \S.*")
TARGETS = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE)


def requirements():
    """The version of each distribution in requirements.txt, where each line has a reason."""
    lines = (ROOT / "requirements.txt").read_text().splitlines()
    lines = [line for line in lines if line and not line.startswith("#")]
    pins = [PIN.fullmatch(line) for line in lines]
    assert all(pins), "want `name==version  # reason` on each line"
    return {canonicalize_name(pin["name"]): pin["version"] for pin in pins}


def test_the_table_of_contents_and_the_pages_are_the_same_set():
    named = set(re.findall(r"(?:root|file): (\S+)", (ROOT / "_toc.yml").read_text()))
    pages = [p for p in TRACKED if re.fullmatch(r"book/[a-z]\w*\.(md|ipynb)", p)]
    known = {str(Path(page).with_suffix("")) for page in pages}
    assert named == known, "_toc.yml names the pages that git knows (git add)"


def test_ci_runs_what_the_readme_says():
    readme, ci = (ROOT / "README.md").read_text(), (ROOT / ".ci" / "run").read_text()
    assert re.findall(r"^make \S+", readme, re.MULTILINE) == ["make book", "make test"]
    assert re.findall(r"^make \S+", ci, re.MULTILINE) == ["make book", "make test-all"]


def test_make_lists_its_commands_and_sets_what_it_is_asked():
    def make(*arguments):
        command = ["make", "--silent", f"PYTHON={sys.executable}", *arguments]
        alone = os.environ | {"MAKEFLAGS": ""}  # not as a part of `make test`
        return subprocess.run(command, cwd=ROOT, env=alone, capture_output=True, text=True).stdout

    assert [line.split()[0] for line in make().splitlines()[:-1]] == TARGETS
    steps = make("--dry-run", "book", "CHAPTER=task", "SET=seeds=1 ranks=(1,2)")
    assert "tools/execute.py task --set 'seeds=1' 'ranks=(1,2)'\n" in steps


def test_the_tree_holds_nothing_of_one_machine():
    """Nor where packages come from: whoever installs has chosen an index."""
    path = re.compile(r"/(?:home|root|Users|tmp|work)/\w|[A-Z]:\\Users")
    host = re.compile(
        r"--(?:extra-)?index-url|--find-links|(?:pypi|pythonhosted|pytorch|npmjs)\.org"
    )
    for name in TRACKED:
        file = ROOT / name
        assert file.stat().st_size < 3_000_000, f"{name} is large"
        if file.suffix in TEXT:
            text = file.read_text()
            assert not path.search(text), f"{name} has a path of one machine"
            if file.suffix not in (".ipynb", ".mjs", ".js") and name != "tests/test_project.py":
                assert not host.search(text), f"{name} says where packages come from"


def test_modules_are_short_enough_to_read():
    for name in TRACKED:
        if name.endswith((".py", ".mjs")) and not name.startswith("tests/"):
            lines = len((ROOT / name).read_text().splitlines())
            assert lines <= 400, f"{name} has {lines} lines"


def test_the_lock_has_every_requirement_with_hashes_and_neither_torch_nor_cuda():
    text = (ROOT / "requirements.lock").read_text()
    hashes = r"(?:    --hash=sha256:[0-9a-f]{64}(?: \\)?\n)+"
    pins = re.findall(rf"^(\S+)==(\S+)(?: ; .*)? \\\n{hashes}", text, re.MULTILINE)
    assert len(pins) == len(re.findall(r"^\w", text, re.MULTILINE)) > 150
    assert not [name for name, _ in pins if re.match(r"torch|triton|nvidia-|cuda-", name)]
    missing = requirements().items() - set(pins)
    assert [name for name, _ in missing] == ["torch"], "requirements.txt says how to lock"
