"""What a run holds in memory, said before any work: the sum of what is there at the same time.

Numbers of bytes, of which those that no formula gives were measured. On the safe side: a run that is let
through can be held.
"""

import os
import resource
from collections import Counter
from collections.abc import Callable
from pathlib import Path

LOADED = 500_000_000  # by Python with its libraries


def within(needs: Counter[str], refuse: Callable) -> None:
    """Refuse what needs more than there is; the flag that needs most is named."""
    need, there = needs.total(), memory()
    if need > there:
        name = largest(needs)
        amount = f"{-(-need // 10**9):,}" if need < 10**24 else "more than 10^15"
        refuse(
            f"argument {name}: takes less: this needs {amount} GB, and there are {there // 10**9}"
        )


def memory() -> int:
    """Of the machine, or what is left to this process of its address space."""
    page = os.sysconf("SC_PAGE_SIZE")
    physical = page * os.sysconf("SC_PHYS_PAGES") - LOADED
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return physical
    taken = page * int(Path("/proc/self/statm").read_text().split()[0])
    return min(physical, max(0, limit - taken))


def largest(numbers: dict[str, int]) -> str:
    return max(numbers, key=numbers.__getitem__)
