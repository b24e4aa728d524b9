"""The explorers' JavaScript outside a browser: one deno process for all tests of a session."""

import atexit
import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import deno
import numpy as np

from iclbook.explorers import bundle
from iclbook.explorers.base import Explorer

SCRIPT = Path(__file__).parent / "modules.mjs"
SHOW = """(name, state) => {
  const { compute, show, data } = eval(name);
  const found = compute?.(state, data?.({ get: (key) => state[key] })) ?? null;
  const row = found?.step ? Math.round(state.at * (found.step.length - 1)) : null;
  const { panels, summary, note } = show(found, state, row);
  const curves = panels.map(({ title, series = [], levels = [], heat }) => [title, {
    ...Object.fromEntries(series.map(({ name, x, y }) => [name, [x, y]])),
    levels: levels.map(({ y }) => y),
    ...(heat && { heat: heat.values }) }]);
  return { curves: Object.fromEntries(curves), summary, note, found }; }"""


@cache
def _deno() -> subprocess.Popen:
    """It may read the explorers' folder, and nothing else."""
    folder = str(bundle.FOLDER)
    command = [deno.find_deno_bin(), "run", "--no-prompt", "--no-remote", "--no-config"]
    process = subprocess.Popen(
        [*command, f"--allow-read={folder}", str(SCRIPT), folder],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    atexit.register(process.communicate)  # which closes its input, and with that ends it
    return process


def js(function: str, *arguments: Any) -> Any:
    """What a function, in which each module has its file's name, returns for these arguments."""
    process = _deno()
    assert process.stdin and process.stdout
    process.stdin.write(json.dumps([function, *arguments], default=np.ndarray.tolist) + "\n")
    process.stdin.flush()
    answer = json.loads(process.stdout.readline())
    assert isinstance(answer, list), answer["error"]
    return answer[0]


def shown(explorer: Explorer) -> dict[str, Any]:
    """What a page shows of an explorer: the curves of each panel, what is said, and what was found."""
    return js(SHOW, explorer.name, explorer.state())
