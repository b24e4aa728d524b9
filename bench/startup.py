"""What the first user waits for: import, first result with a cold and a warm compilation cache."""

import os
import subprocess
import sys
import tempfile
import time

FIRST_RESULT = (
    "from iclcore import MergedAttention, RegressionTask, train\n"
    "train(MergedAttention(), RegressionTask().sample(5000), 6001, 0.001)\n"
)


def seconds(script: str, **environment: str) -> float:
    """Wall time of a script in a process of its own."""
    clock = time.perf_counter()
    subprocess.run([sys.executable, "-c", script], check=True, env=os.environ | environment)
    return time.perf_counter() - clock


def startup() -> dict[str, float]:
    with tempfile.TemporaryDirectory() as cache:
        cold = seconds(FIRST_RESULT, NUMBA_CACHE_DIR=cache)
        warm = min(seconds(FIRST_RESULT, NUMBA_CACHE_DIR=cache) for _ in range(3))
    return {
        "python": min(seconds("pass") for _ in range(3)),
        "import": min(seconds("import iclcore") for _ in range(3)),
        "import_theory": min(seconds("import iclcore.theory") for _ in range(3)),
        "first_result_cold": cold,
        "first_result_warm": warm,
    }
