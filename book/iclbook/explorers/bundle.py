"""The explorers' ES modules as one text, since a widget takes one and a page from disk imports none.

Each module becomes a function called once; its imports become lookups, its exports what it returns.
The modules keep to what is understood here: ``import { a, b } from "./x.mjs";`` and exports of
``const``, ``function`` and ``async function`` declared at the start of a line.
"""

import html
import re
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).parent
IMPORT = re.compile(r'^import \{([^}]*)\} from "\./(\w+)\.mjs";\n', re.MULTILINE)
EXPORT = re.compile(r"^export ((?:async )?function|const) (\w+)", re.MULTILINE)


@cache
def _module(name: str) -> tuple[tuple[str, ...], str]:
    """What a module imports, and its text as the definition of an object of that name."""
    text = (FOLDER / f"{name}.mjs").read_text(encoding="utf-8")
    needed = tuple(match[2] for match in IMPORT.finditer(text))
    text = IMPORT.sub(lambda found: f"const {{{found[1]}}} = {found[2]};\n", text)
    exports = ", ".join(match[2] for match in EXPORT.finditer(text))
    text = EXPORT.sub(r"\1 \2", text)
    if re.search(r"^(import|export)\b", text, re.MULTILINE):
        raise ValueError(f"{name}.mjs takes imports and exports of the forms named in bundle.py")
    return needed, f"const {name} = (() => {{\n{text}return {{ {exports} }};\n}})();\n"


def modules(*names: str) -> str:
    """Definitions of these modules and of all that they import, each once, dependencies first."""
    written: dict[str, str] = {}

    def write(name: str) -> None:
        if name not in written:
            needed, text = _module(name)
            for other in needed:
                write(other)
            written[name] = text

    for name in names:
        write(name)
    return "".join(written.values())


def _function(name: str) -> str:
    """All of one explorer as one function, of whose text a worker can be made (aside.mjs)."""
    return f"function bundle() {{\n{modules(name)}return {name};\n}}\n"


def widget(name: str) -> str:
    """The ES module of one explorer, as anywidget imports it."""
    return f"{_function(name)}export default {{ render: bundle().render }};\n"


def script(name: str) -> str:
    """The same as a plain script, which a page opened from disk may load; it says that it has come."""
    comes = f"(window.explorers ??= {{}}).{name} = bundle().render;\ndispatchEvent(new Event('explorer'));"
    return f"(() => {{\n{_function(name)}{comes}\n}})();\n"


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
    """One explorer as a page of its own, all in one file."""
    scripts = script(name) + (FOLDER / "explorers.js").read_text(encoding="utf-8")
    ends = re.compile(
        "</(script)", re.IGNORECASE
    )  # in a text of the script: the page would end it there
    return PAGE.format(
        title=html.escape(title), style=style(), body=body, script=ends.sub(r"<\\/\1", scripts)
    )
