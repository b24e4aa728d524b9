"""Joins an explorer's ES modules into one script.

A widget is given one module, and a page opened from disk cannot import any. So each module becomes a
function that is called once and returns what the module exports; each import becomes a lookup in an
object named ``modules``. This reads only the simple imports and exports that ``FORMS`` describes.
"""

import html
import posixpath
import re
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent
IMPORT = re.compile(r'^import \{([\w\s,]*)\} from "(\.{1,2}/[\w/.]+)\.mjs";$', re.MULTILINE)
EXPORT = re.compile(r"^export ((?:async )?function|const) (\w+)", re.MULTILINE)
COMMENT = re.compile(r"^ *//[^\n]*\n|/\*\*.*?\*/\s*", re.MULTILINE | re.DOTALL)
OTHER = re.compile(r"^(?:import|export)\b.*", re.MULTILINE)
FORMS = 'import { a, b } from "./x.mjs"; export const a = ...; export function a() {...}'


@cache
def _module(folder: Path, name: str) -> tuple[tuple[str, ...], str]:
    """The modules that a module imports, and a statement that defines it, without its comments."""
    text = COMMENT.sub("", (folder / f"{name}.mjs").read_text(encoding="utf-8"))
    needed = []

    def lookup(found: re.Match) -> str:
        needed.append(posixpath.normpath(posixpath.join(posixpath.dirname(name), found[2])))
        return f'const {{{found[1]}}} = modules["{needed[-1]}"];'

    text = IMPORT.sub(lookup, text)
    exports = ", ".join(match[2] for match in EXPORT.finditer(text))
    text = EXPORT.sub(r"\1 \2", text)
    if other := OTHER.search(text):
        raise ValueError(f"{name}.mjs may import and export like this: {FORMS}, not: {other[0]}")
    return tuple(needed), f'modules["{name}"] = (() => {{\n{text}return {{ {exports} }};\n}})();\n'


def modules(*names: str) -> str:
    """Defines ``modules`` with these modules and all that they import, each after those it imports.

    A module's name is its path in this folder without ``.mjs``, as in ``ui/chart``.
    """
    written: dict[str, str] = {}

    def write(name: str) -> None:
        if name not in written:
            needed, text = _module(FOLDER, name)
            for other in needed:
                write(other)
            written[name] = text

    for name in names:
        write(name)
    return "const modules = {};\n" + "".join(written.values())


def _function(name: str) -> str:
    """One explorer and all that it imports as one function. A worker runs the same text (worker.mjs)."""
    return f'function bundle() {{\n{modules(name)}return modules["{name}"];\n}}\n'


def widget(name: str) -> str:
    """The ES module of one explorer, in the form that anywidget imports."""
    return f"{_function(name)}export default {{ render: bundle().render }};\n"


def script(name: str) -> str:
    """The same as a plain script for a page. It fires an event once the explorer can be shown."""
    ready = f"(window.explorers ??= {{}}).{name} = bundle().render;\ndispatchEvent(new Event('explorer'));"
    return f"(() => {{\n{_function(name)}{ready}\n}})();\n"


def style() -> str:
    return (FOLDER / "explorers.css").read_text(encoding="utf-8")


PAGE = """<!doctype html>
<html lang="en" data-theme="light">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title><link rel="icon" href="data:,">
<style>{style}</style>
<style>body {{ margin: 16px auto; max-width: 880px; padding: 0 16px; font-family: system-ui, sans-serif }}
img {{ max-width: 100% }}</style></head>
<body><main><h1>{title}</h1>
{body}
</main>
<script>{script}</script>
</body>
</html>
"""


def page(name: str, title: str, body: str) -> str:
    """One explorer as a page that is a single file."""
    scripts = script(name) + (FOLDER / "explorers.js").read_text(encoding="utf-8")
    # "</script" in a string of the script would end the script there
    scripts = re.sub("</(script)", r"<\\/\1", scripts, flags=re.IGNORECASE)
    return PAGE.format(title=html.escape(title), style=style(), body=body, script=scripts)
