"""``python -m iclcore``."""

import sys

from iclcore.cli import main

sys.exit(main())
