"""The numeric tests and the chapters as other processors would run them: make test-processors

    python tools/processors.py          all of it, a quarter of an hour
    python tools/processors.py quick    where round-off has shown, on the processor that differs most
    python tools/processors.py here     the numeric tests on this processor

What differs between processors of one family is which kernels a library picks, and each library can be told
to pick others. A test or a printed number that hangs on round-off fails here, not at a reader's.
"""

import os
import platform
import subprocess
import sys

from make import ONE_THREAD, ROOT

OLD_NUMPY = "X86_V4 AVX512_ICL"
PROCESSORS = {
    "this one": {},  # its tests are make test
    "SkylakeX's kernels": {"OPENBLAS_CORETYPE": "SkylakeX"},
    "haswell": {
        "OPENBLAS_CORETYPE": "Haswell",
        "NUMBA_CPU_NAME": "haswell",
        "NUMBA_CPU_FEATURES": "",  # those of the name alone, not this machine's own
        "ATEN_CPU_CAPABILITY": "avx2",
        "NPY_DISABLE_CPU_FEATURES": OLD_NUMPY,
    },
    "nehalem": {  # torch draws other last bits here
        "OPENBLAS_CORETYPE": "Nehalem",
        "NUMBA_CPU_NAME": "nehalem",
        "NUMBA_CPU_FEATURES": "",
        "ATEN_CPU_CAPABILITY": "default",
        "NPY_DISABLE_CPU_FEATURES": f"{OLD_NUMPY} X86_V3",
    },
}
PYTEST = [sys.executable, "-m", "pytest"]
BY_TWO = [*PYTEST, "-n", "2", "-m", ""]  # slow ones too
# pages are the same files whatever the processor; all else is asked, sweep and cluster included
NO_NUMBERS = (
    "browser",
    "attack",
    "test_mutants.py",
    "test_pages.py",
    "test_rendered.py",
    "test_project.py",
    "test_book.py",
)
SAME = "same notebooks"
STEPS = {
    "tests": [*BY_TWO, "--dist", "worksteal", "tests"]
    + [f"--ignore=tests/{name}" for name in NO_NUMBERS],
    "nbval": [*BY_TWO, "--dist", "loadfile", "--nbval", "--nbval-current-env", "book"],
    SAME: [sys.executable, "tools/execute.py", "--check"],
}


# where a test once hung on last bits, and what all chapters compute with
QUICK = (
    "test_stability.py",
    "test_gradients.py",
    "test_optimisers.py",
    "test_saddles.py",
    "test_theory.py",
)


def run(name: str, command: list[str]) -> int:
    cache = {"NUMBA_CACHE_DIR": str(ROOT / "_build" / "processors" / name.partition("'")[0])}
    settings = ONE_THREAD | cache | PROCESSORS[name]
    return subprocess.run(command, cwd=ROOT, env=os.environ | settings).returncode


def main(asked: list[str]) -> int:
    if asked == ["here"]:
        return run("this one", STEPS["tests"])
    if platform.machine().lower() not in ("x86_64", "amd64"):
        print(
            f"the processors emulated are x86-64, and this one is {platform.machine()}",
            file=sys.stderr,
        )
        return 0 if asked else 2
    if asked == ["quick"]:
        # by one process: beside others, and each would compile the same
        return run("nehalem", [*PYTEST, *(f"tests/{name}" for name in QUICK)])
    failed = []
    for name, settings in PROCESSORS.items():
        for step, command in (STEPS if settings else {SAME: STEPS[SAME]}).items():
            print(f"-- {name}: {step}", flush=True)
            if run(name, command):
                failed.append(f"{name}: {step}")
    print("failed: " + ", ".join(failed) if failed else f"all passed: {', '.join(PROCESSORS)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
