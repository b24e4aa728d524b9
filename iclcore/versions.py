"""The versions of everything that computes the numbers of a run."""

import hashlib
import platform
from functools import cache
from importlib import metadata
from pathlib import Path

from iclcore import __version__

PACKAGES = ("numpy", "numba", "scipy", "torch")


@cache
def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages. iclcore's version ends in a digest of its files."""
    packages = {name: _version(name) for name in PACKAGES}
    digest, folder = hashlib.sha256(), Path(__file__).parent
    for path in sorted(folder.rglob("*.py")):
        digest.update(f"{path.relative_to(folder).as_posix()}\\0".encode() + path.read_bytes())
    own = f"{__version__}+{digest.hexdigest()[:12]}"
    return {"python": platform.python_version(), "iclcore": own, **packages}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # only some engines need more than NumPy
        return "none"
