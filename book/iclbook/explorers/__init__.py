"""Explorers: the reader moves the mathematics, in the built page and with a kernel.

Every class of this folder's files that has a name is here by itself, as ``explorers.RankOne``.
"""

import pkgutil
from importlib import import_module

from iclcore.extras import needs

with needs("book"):  # of matplotlib too
    for _file in pkgutil.iter_modules(__path__):
        import_module(f"{__name__}.{_file.name}")
    from iclbook.explorers.base import EXPLORERS

globals().update({kind.__name__: kind for kind in EXPLORERS.values()})
__all__ = sorted(kind.__name__ for kind in EXPLORERS.values())
