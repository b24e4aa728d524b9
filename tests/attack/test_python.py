"""The public Python, called with what is generated: in a process without the tests' own checks of types."""

import subprocess
import sys
from pathlib import Path

from pace import slow

from attack.conftest import share

CALLS = Path(__file__).with_name("calls.py")


@slow
def test_calls():
    count = share(5000)
    done = subprocess.run([sys.executable, CALLS, str(count)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
