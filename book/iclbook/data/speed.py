"""What ``make bench`` measured last, on one machine: a page must not time the one that builds it."""

import json
from pathlib import Path

TABLE = Path(__file__).with_suffix(".json")


def read() -> dict:
    """All measurements by name."""
    return json.loads(TABLE.read_text())
