"""What has a say in a number: versions, this package's own sources, the kind of processor."""

import hashlib
import platform
from functools import cache
from importlib import metadata
from pathlib import Path

from iclcore import __version__

PACKAGES = ("numpy", "numba", "scipy", "torch")
# the modules that a run's numbers go through
SOURCES = (
    "engines/autograd", "engines/linear", "engines/lanes", "engines/population", "engines/query_row",
    "engines/softmax", "loops", "models", "modules", "moments", "optimisers", "published",
    "sweep", "task", "theory/linear", "threads", "trainer",
)  # fmt: skip


def versions() -> dict[str, str]:
    """Of Python and of all that computes; this package's has a digest of its sources."""
    return dict(_versions())


def here() -> dict[str, str]:
    """The same, and the processor: whoever has all in common computes the same bytes."""
    return versions() | {"processor": _processor()}


def difference(there: dict[str, str], here: dict[str, str]) -> str | None:
    """The first in which two differ, in words."""
    for name, version in here.items():
        if there.get(name) != version:
            return f"{name} {there.get(name)}, not {version}"
    return None


@cache
def _versions() -> dict[str, str]:
    own = f"{__version__}+{_digest()}"
    of_others = {name: _version(name) for name in PACKAGES}
    return {"python": platform.python_version(), "iclcore": own, **of_others}


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:  # moments and theory do without torch
        return "none"


def _digest() -> str:
    files = [Path(__file__).parent / f"{name}.py" for name in SOURCES]
    return hashlib.sha256(b"\0".join(file.read_bytes() for file in files)).hexdigest()[:12]


@cache
def _processor() -> str:
    """As LLVM, OpenBLAS and torch name it: each has other code, and rounds otherwise, for another."""
    import numba
    from llvmlite.binding import get_host_cpu_name

    from iclcore.threads import blas, torch_if_any

    found = {getattr(library, "architecture", "") for library in blas().lib_controllers}
    kinds = ", ".join(sorted(found))
    torch = torch_if_any()
    capability = torch.backends.cpu.get_cpu_capability() if torch else "none"
    name = numba.config.CPU_NAME or get_host_cpu_name()
    return f"{name} (BLAS {kinds}, torch {capability})"
