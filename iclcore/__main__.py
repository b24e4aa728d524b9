"""``python -m iclcore``."""

import sys

try:
    from iclcore import interrupts

    interrupts.listen()
except KeyboardInterrupt:
    sys.exit(130)
try:
    from iclcore.cli import main

    code = main()
except KeyboardInterrupt:  # while it is still loading
    code = 130
except OSError:
    if not interrupts.came():
        raise
    sys.stdout = sys.stderr = None  # the terminal is gone: nothing can be said
    code = 130
interrupts.deaf()
sys.exit(interrupts.status() if code == 130 else code)
