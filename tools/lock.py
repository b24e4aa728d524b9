"""Write requirements.lock: every package that requirements.txt brings, with the hashes of its files.

    python tools/lock.py [--upgrade]

What is locked already keeps its version as far as requirements.txt allows, or takes its newest. Nothing is
written unless every package has a wheel for each Python and system of `PAIRS`.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from make import ROOT

LOCK = ROOT / "requirements.lock"
# jsonschema would check by it what no notebook has, and to load it takes each process that reads a notebook
# two thirds of a second
LEFT_OUT = "rfc3987-syntax"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
SYSTEMS = {
    "Linux on x86-64": "x86_64-unknown-linux-gnu",
    "Linux on arm64": "aarch64-unknown-linux-gnu",
    "macOS 14 on arm64": "aarch64-apple-darwin",
    "Windows on x86-64": "x86_64-pc-windows-msvc",
}
PAIRS = [(python, name) for python in PYTHONS for name in SYSTEMS]
MACOS = {"MACOSX_DEPLOYMENT_TARGET": "14.0"}  # torch has wheels from there on
# Builds of torch for processors and for CUDA have one version, and other files.
CHOSEN = re.compile(r"(torch|triton|nvidia-[\w-]+|cuda-[\w-]+)==")
HEADER = f"""\
# What `make` installs: every package that requirements.txt brings, with the hashes of its files. All have
# wheels for Python {", ".join(PYTHONS)} on {", ".join(SYSTEMS)}.
# Written by tools/lock.py, which says what it leaves out. Not in it is torch, with CUDA: its builds are
# other files of one version, and which to take is for whoever installs.
--require-hashes
--only-binary=:all:

"""


def main(options: list[str]) -> int:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        left_out = place / "left_out.txt"
        left_out.write_text(LEFT_OUT)

        def compiled(what: Path, into: Path, *given: str, needed: bool = True) -> str:
            command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--no-header", what]
            command += ["--output-file", into, "--generate-hashes", "--excludes", left_out, *given]
            done = subprocess.run(command, cwd=ROOT, env=os.environ | MACOS, text=True,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)  # fmt: skip
            if done.returncode and needed:
                sys.exit(done.stderr)
            return done.stderr

        whole = place / "whole.txt"
        if LOCK.exists():
            whole.write_text(LOCK.read_text())
        compiled(
            ROOT / "requirements.txt",
            whole,
            "--universal",
            "--python-version",
            PYTHONS[0],
            *options,
        )
        for version, name in PAIRS:
            given = ["--python-version", version, "--python-platform", SYSTEMS[name]]
            wrong = compiled(
                whole, place / "one.txt", *given, "--only-binary", ":all:", needed=False
            )
            (place / "one.txt").unlink(missing_ok=True)
            print(
                f"Python {version}, {name}: {'not all have wheels' if wrong else 'all have wheels'}"
            )
            if wrong:
                sys.exit(wrong)
        # a package begins at the margin; its hashes, and whom it is for, are indented
        packages = re.findall(r"^\S.*\n(?:[ ]+.*\n)*", whole.read_text(), re.MULTILINE)
    kept = [each for each in packages if re.match(r"[\w.-]+==", each) and not CHOSEN.match(each)]
    LOCK.write_text(HEADER + "".join(kept))
    print(f"{len(kept)} packages in {LOCK.name}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
