"""The whole book as a PDF to print: the built pages joined to one document, printed by Chromium.

    python tools/paper.py

Links between pages lead within the document, headings are its outline, pictures keep their alt texts;
explorers are their static pictures, and solutions are open.
"""

import re
import sys
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory

import yaml
from browsers import chromium
from chapters import ROOT
from playwright.sync_api import Browser, Page, sync_playwright

from iclcore.files import write_whole

HTML, PDF = ROOT / "_build" / "html", ROOT / "_build" / "print" / "book.pdf"
FIRST = "index"
NEXT = re.compile(r'<link rel="next"[^>]* href="([\w-]+)\.html"')
SHEET = re.compile(r'<link [^>]*href="\.\./(_static/[^"]+\.css[^"]*)"')
SETTINGS = re.compile(r"<script>window\.MathJax = .*?</script>")
JOIN, STYLE = (Path(__file__).with_suffix(end).read_text("utf-8") for end in (".js", ".css"))
DOCUMENT = """<!doctype html>
<html lang="en" data-theme="light" data-mode="light">
<head><meta charset="utf-8"><title>{title}</title>
{sheets}<style>{style}</style>
{settings}<script src="{base}/_static/mathjax/tex-svg-full.js"></script></head>
<body>{body}</body></html>
"""
LAID_OUT = """async () => {
  await MathJax.startup.promise;
  await Promise.all([...document.images].map((each) => each.decode()));
}"""
NUMBER = '<p style="font: 8pt sans-serif; margin: 0 auto"><span class="pageNumber"></span></p>'
MARGIN = dict.fromkeys(("top", "bottom", "left", "right"), "18mm")
PRINTED = {"format": "A4", "scale": 0.8, "margin": MARGIN, "print_background": True,
           "display_header_footer": True, "header_template": "<p></p>", "footer_template": NUMBER,
           "outline": True, "tagged": True}  # fmt: skip


def pages() -> dict[str, str]:
    """By name the texts of the built pages, in the order of the book: each names the next."""
    found, name = {}, FIRST
    while name:
        found[name] = (HTML / "book" / f"{name}.html").read_text(encoding="utf-8")
        following = NEXT.search(found[name])
        name = following and following[1]
    return found


def joined(texts: dict[str, str], page: Page) -> str:
    """One document of all, whose pictures and styles are those of the pages."""
    sheets = dict.fromkeys(sheet for text in texts.values() for sheet in SHEET.findall(text))
    settings = next(filter(None, map(SETTINGS.search, texts.values())))
    title = yaml.safe_load((ROOT / "_config.yml").read_text(encoding="utf-8"))["title"]
    base = HTML.as_uri()
    return DOCUMENT.format(
        title=escape(title),
        sheets="".join(f'<link rel="stylesheet" href="{base}/{each}">\n' for each in sheets),
        style=STYLE,
        settings=settings[0],
        base=base,
        body=page.evaluate(JOIN, [list(texts.items()), base]),
    )


def printed(texts: dict[str, str], browser: Browser) -> bytes:
    """The PDF, each chapter from a new page on; a moving picture is its last frame."""
    context = browser.new_context(reduced_motion="reduce", color_scheme="light")
    page = context.new_page()
    page.set_default_timeout(0)  # formulas of a whole book: a slow machine takes minutes
    with TemporaryDirectory() as folder:
        document = Path(folder, "book.html")
        document.write_text(joined(texts, page), encoding="utf-8")
        page.goto(document.as_uri())
        page.evaluate(LAID_OUT)
        content = page.pdf(**PRINTED)
    context.close()
    return content


def main() -> None:
    with sync_playwright() as playwright:
        browser = chromium(playwright)
        content = printed(pages(), browser)
        browser.close()
    PDF.parent.mkdir(exist_ok=True)
    write_whole(PDF, lambda file: file.write(content))
    print(f"the book is in {PDF.relative_to(ROOT)}")


if __name__ == "__main__":
    try:
        main()
    except OSError as error:
        sys.exit(str(error))
