"""The book's own package: what its chapters measure, draw, quote and let readers move."""

from iclcore import __version__

CITE = (  # as CITATION.cff has it
    f"The contributors to this book. Training dynamics of in-context learning. 2026. Version {__version__}"
)
