"""What ``python -m bench`` measured last, on one machine: a page must not time the one that builds it."""

import json
from pathlib import Path

TABLE = Path(__file__).with_suffix(".json")


def read() -> dict:
    """All measurements by name."""
    return json.loads(TABLE.read_text(encoding="utf-8"))


class Table(str):
    """Markdown, which a notebook shows as a table."""

    def _repr_markdown_(self) -> str:
        return str(self)

    __repr__ = str.__str__


def table(found: dict) -> "Table":
    """What takes how long, and what it is compared with, which takes how many times as long."""
    first, fourth, soft = (found[n] for n in ("first_published", "fourth_published", "softmax"))
    rows: list[tuple[str, float, str, float]] = []
    for name, run in (("first", first), ("fourth", fourth)):
        size = f"{name} published command: P = {run['P']:,}, D = {run['D']}, H = {run['H']}"
        rows.append((f"descent of the {size}, {run['steps']:,} steps", run["descent"],
                     "full attention", 3600 * run["naive_hours"]))  # fmt: skip
    fused = f"softmax step of the first published command, {soft['threads']} threads"
    for other, name in (("naive_step", "full attention"), ("torch_row_step", "the query's row in torch"),
                        ("limit_step", "its multiply-adds at the processor's peak")):  # fmt: skip
        rows.append((fused, soft["fused_step"], name, soft[other]))
    for row in found["step_against_blas"]:
        rows.append((f"step on moments, D = {row['D']}, H = {row['H']}, R = {row['R']}", row["step"],
                     "BLAS matrix-vector product", row["blas"]))  # fmt: skip
    row = found["moments_against_rank_k"]
    rows.append((f"moments of {row['P']:,} sequences, D = 8", row["moments"],
                 "BLAS rank-k update", row["rank_k"]))  # fmt: skip
    lines = ["| what | takes | compared with | takes | ratio |", "|---|--:|---|--:|--:|"]
    for what, seconds, other, others in rows:
        ratio = others / seconds
        shown = f"{float(f'{ratio:.2g}'):,.0f}" if ratio >= 10 else f"{ratio:.2f}"
        lines.append(f"| {what} | {_time(seconds)} | {other} | {_time(others)} | {shown} |")
    machine, begin = found["machine"], found["startup"]
    said = (
        f"{machine['cores']} cores, {machine['processor']}: "
        f"{machine['peak_float32_one_core'] / 1e9:.0f} billion float32 operations a second each, "
        f"{machine['bandwidth'] / 1e9:.0f} GB a second from memory. The fourth command held at most "
        f"{fourth['memory_gb']:.2f} GB. From the start of Python to the first result: "
        f"{begin['first_result_warm']:.2f} s, or {begin['first_result_cold']:.1f} s with nothing compiled."
    )
    lines += ["", said]
    return Table("\n".join(lines))


def _time(seconds: float) -> str:
    for size, unit in ((3600, "h"), (60, "min"), (1, "s"), (1e-3, "ms")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds / 1e-6:.3g} µs"
