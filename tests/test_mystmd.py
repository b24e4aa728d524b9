"""What only Jupyter Book 1 understands is known, and does not grow unseen."""

import re
from pathlib import Path

import mystmd

ROOT = Path(__file__).resolve().parent.parent
ROW = re.compile(r"^\| (role|directive): `([\w:-]+)` \| (?:about )?(\d+) \|", re.MULTILINE)


def test_what_only_this_version_understands_is_listed():
    rows = ROW.findall((ROOT / "CONTRIBUTING.md").read_text())
    told = {f"{kind}: {name}": int(times) for kind, name, times in rows}
    found = mystmd.only_here(mystmd.texts(ROOT / "book"))
    assert told.keys() == found.keys()
    for name, times in told.items():
        assert abs(found[name] - times) <= times // 5, f"{name}: {found[name]}"


def test_roles_and_directives_are_told_from_formulas():
    text = "$\\hat{y}`$ {eq}`a` {odd}`b` a{o}`c`\n```{table} {said}`d`\n```\n:::{odder}\n:::\n"
    assert mystmd.only_here([text]) == {"role: odd": 1, "role: said": 1, "directive: odder": 1}
