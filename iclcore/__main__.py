"""``python -m iclcore``."""

import signal
import sys

try:
    from iclcore.cli import main

    status = main()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # all is written: nothing is left but to exit
    sys.exit(status)
except KeyboardInterrupt:  # while it is still loading
    sys.exit(130)
