"""``python -m iclcore``."""

import signal
import sys

try:
    from iclcore.cli import main

    status = main()
except KeyboardInterrupt:  # while it is still loading
    status = 130
signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is written: nothing is left but to exit
sys.exit(status)
