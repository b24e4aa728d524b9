"""``python -m bench``: measure everything in one run on one machine.

It writes what the book's chapter on speed shows, beside the book's other data.
``--quick`` measures less and writes nothing.
"""

import argparse
import json
import os
import platform
import sys

from bench import engines, machine, startup
from iclbook.data import speed


def measure(quick: bool) -> dict:
    """All measurements by name. The large run is first: peak memory is of all that came before."""
    large = (*engines.FOURTH[:2], 2000 if quick else 80_000, *engines.FOURTH[3:])
    found = {"fourth_published": engines.published_run(large)}
    found["fourth_published"]["memory_gb"] = engines.memory()
    found["first_published"] = engines.published_run(engines.FIRST)
    for name, case, times in (("first", engines.FIRST, 3), ("fourth", large, 1)):
        row = found[f"{name}_published"]
        row |= engines.against_naive(case, row, times)
    found["softmax"] = engines.softmax(500 if quick else 5000)
    found["step_against_blas"] = engines.against_blas()
    found["moments_against_rank_k"] = engines.moments_against_rank_k(2000 if quick else 80_000)
    found["machine"] = {
        "cores": os.cpu_count(),
        "processor": platform.machine(),
        "bandwidth": machine.bandwidth(),
        "peak_float32_one_core": machine.peak(),
    }
    found["growth"] = engines.growth(quick)
    found["startup"] = startup.startup()
    return found


def rows(name: str, value: object):
    """The results as lines of a table: what, how much."""
    if isinstance(value, dict):
        if any(isinstance(v, dict | list) for v in value.values()):
            for key, inner in value.items():
                yield from rows(f"{name}.{key}" if name else key, inner)
        else:
            shown = (f"{k} {v:,}" if isinstance(v, int) else f"{k} {v:.3g}" if isinstance(v, float)
                     else f"{k} {v}" for k, v in value.items())  # fmt: skip
            yield f"{name}: {', '.join(shown)}"
    else:
        for inner in value:
            yield from rows(name, inner)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a smaller run, nothing written")
    quick = parser.parse_args().quick
    found = measure(quick)
    print("\n".join(rows("", found)))
    if not quick:
        speed.TABLE.write_text(json.dumps(found, indent=1) + "\n")
        print(f"written: {speed.TABLE.name} beside {speed.__name__}")
        print("make book CHAPTER=how_it_is_fast shows it")
    return 0


if __name__ == "__main__":
    sys.exit(main())
