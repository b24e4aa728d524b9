"""Sphinx extension: what pages need on the web, and not from disk. A policy on what they may load, a card
for who links to one, a map of them, and a page for what is not found.

Where the book is, stands in _config.yml: the repository's address, from which come the buttons, and the
pages', from which come cards and map. A workflow that builds a fork of it says them by the environment.
"""

import base64
import hashlib
import os
import re
from html import escape
from pathlib import Path
from urllib.parse import urljoin

from docutils import nodes

HEADERS = "_headers"  # as hosts of static pages read it; tools/serve.py does, too
SCRIPT = re.compile(r"<script(?P<how>(?![^>]*\bsrc=)[^>]*)>(?P<text>.*?)</script>\n?", re.DOTALL)
# What the theme writes for a version switch and for thebe, neither of which the book has.
UNUSED = re.compile(r"DOCUMENTATION_OPTIONS\.pagename|x-thebe-config|^\s*kernelName = ")
ONCE = (re.compile(r"<meta charset[^>]*>\n?"), re.compile(r'<meta name="viewport"[^>]*>\n?'))
# What HTML does not allow: a paragraph in a summary, and a list of descriptions that describe no term.
FOLD = re.compile(r'<p class="(collapsed|expanded) admonition-title">(.*?)</p>', re.DOTALL)
PARAMETERS = re.compile(r"<dl>\n((?:<dd>.*?</dd>\n)+)</dl>")
POLICY = {
    "default-src": "'self'",
    "script-src": "'self'",  # and the scripts that stand in the pages, by their digests
    "style-src": "'self' 'unsafe-inline'",  # MathJax and the explorers style what they draw
    "img-src": "'self' data:",
    "font-src": "'self' data:",
    "worker-src": "blob:",  # softmax attention trains in one
    "object-src": "'none'",
    "base-uri": "'none'",
    "form-action": "'self'",
    "frame-ancestors": "'self'",
}
MISSING = """<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>No such page: {title}</title><link rel="icon" href="{home}_static/favicon.svg">
<style>body {{ font: 1.1rem/1.5 system-ui, sans-serif; max-width: 40rem; margin: 15vh auto; padding: 0 1rem;
color-scheme: light dark }}</style></head>
<body><main><h1>There is no such page</h1>
<p>It may have another name now. <a href="{home}book/index.html">The book begins here</a>, and
<a href="{home}search.html">this finds words in it</a>.</p></main></body>
</html>
"""
WORDS = 40  # of a description


def addresses(app, config):
    config.html_baseurl = os.environ.get("BOOK_ADDRESS") or config.html_baseurl
    if config.html_baseurl and not config.html_baseurl.endswith("/"):
        config.html_baseurl += "/"
    if repository := os.environ.get("BOOK_REPOSITORY"):
        config.html_theme_options["repository_url"] = repository


def card(app, pagename, templatename, context, doctree):
    """Title, first sentences and first picture: what a link to the page shows elsewhere."""
    if doctree is None:
        return
    said = [
        n.astext() for n in doctree.findall(nodes.paragraph) if "chapter-times" not in n["classes"]
    ]
    words = " ".join(said[0].split()).split(" ") if said else []
    text = " ".join(words[:WORDS]) + (" …" if len(words) > WORDS else "")
    title = re.sub(r"<.*?>|\\[()]", "", context.get("title", ""))
    facts = {"og:type": "article", "og:title": title, "og:description": text}
    facts["og:site_name"] = app.config.html_title or app.config.project
    home = app.config.html_baseurl
    picture = re.search(r'<img[^>]* src="([^"]+\.png)"', context.get("body", ""))
    if home:
        facts["og:url"] = urljoin(home, f"{pagename}.html")
        if picture:
            facts["og:image"] = urljoin(facts["og:url"], picture[1])
    tags = [f'<meta name="description" content="{escape(text)}" />']
    tags += [f'<meta property="{name}" content="{escape(fact)}" />' for name, fact in facts.items()]
    context["metatags"] = "\n".join([context.get("metatags", ""), *tags])


def tidy(page: str) -> str:
    """Without what nothing uses, what may stand once only, and a handler in an attribute: book.js has it."""
    page = SCRIPT.sub(lambda it: "" if UNUSED.search(it["how"] + it["text"]) else it[0], page)
    for tag in ONCE:
        first = tag.search(page)
        if first:
            page = page[: first.end()] + tag.sub("", page[first.end() :])
    page = FOLD.sub(r'<span class="\1 admonition-title">\2</span>', page)
    page = PARAMETERS.sub(lambda it: re.sub(r"(</?)d[ld]\b", r"\1div", it[0]), page)
    page = page.replace(
        '<div>\n<div><em class="sig-param', '<div class="sig-lines">\n<div><em class="sig-param'
    )
    return page.replace('onclick="window.print()"', "data-prints")


def inline(page: str) -> set[str]:
    """The digests of the scripts that stand in it, as a policy names them."""
    texts = [it["text"] for it in SCRIPT.finditer(page) if "json" not in it["how"]]
    digests = (hashlib.sha256(text.encode()).digest() for text in texts)
    return {f"'sha256-{base64.b64encode(each).decode()}'" for each in digests}


def finish(app, error):
    if error is not None or app.builder.format != "html":
        return
    folder, home = Path(app.outdir), app.config.html_baseurl
    for template in (folder / "_static").glob("*macros.html"):  # the theme's own
        template.unlink()
    for sheet in (folder / "_static").glob("mystnb*.css"):  # which shows the one or the other
        sheet.write_text(sheet.read_text(encoding="utf-8").replace("summary>p.", "summary>span."))
    pages, digests = sorted(folder.rglob("*.html")), set()
    for path in pages:
        path.write_text(tidy(path.read_text(encoding="utf-8")), encoding="utf-8")
        digests |= inline(path.read_text(encoding="utf-8"))
    policy = POLICY | {"script-src": " ".join([POLICY["script-src"], *sorted(digests)])}
    said = "; ".join(f"{name} {what}" for name, what in policy.items())
    lines = [f"Content-Security-Policy: {said}", "X-Content-Type-Options: nosniff"]
    lines += ["Referrer-Policy: strict-origin-when-cross-origin"]
    text = "\n".join(["/*", *(f"  {line}" for line in lines)]) + "\n"
    (folder / HEADERS).write_text(text, encoding="utf-8")
    missing = MISSING.format(title=escape(app.config.project), home=escape(home or "/"))
    (folder / "404.html").write_text(missing, encoding="utf-8")
    if home:
        shown = [urljoin(home, path.relative_to(folder).as_posix()) for path in pages]
        entries = "".join(f"<url><loc>{escape(each)}</loc></url>\n" for each in shown)
        head = '<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'
        (folder / "sitemap.xml").write_text(f"{head}{entries}</urlset>\n", encoding="utf-8")
        robots = f"User-agent: *\nAllow: /\nSitemap: {urljoin(home, 'sitemap.xml')}\n"
        (folder / "robots.txt").write_text(robots, encoding="utf-8")


def setup(app):
    app.connect("config-inited", addresses, priority=800)
    app.connect("html-page-context", card)
    app.connect("build-finished", finish, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
