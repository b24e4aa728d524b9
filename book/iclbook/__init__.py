"""The book's own package: what its chapters measure, draw, quote and let readers move."""

import os

from iclcore import __version__

CITE = (  # as CITATION.cff has it
    f"The contributors to this book. Training dynamics of in-context learning. 2026. Version {__version__}"
)
# The stored outputs of a chapter must not depend on how fast a machine is, so its runs show no bar.
os.environ.setdefault("TQDM_DISABLE", "1")
