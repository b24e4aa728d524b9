"""Sphinx extension: a security policy and a card for links in every page, a site map, a page for error 404.

The address of the published pages is `html.baseurl` in _config.yml. The workflow that publishes the
book, or a fork of it, sets this address and that of the repository by environment variables.
"""

import base64
import hashlib
import os
import re
from collections.abc import Iterable
from html import escape
from pathlib import Path
from urllib.parse import urljoin

from docutils import nodes

# No page may load anything from another host, or run a script that the build did not write. In Chromium,
# Firefox and WebKit this holds on a host and for pages opened from disk, where 'self' is any file.
# `frame-ancestors` is not here because browsers ignore it in a <meta> tag.
POLICY = {
    "default-src": "'self'",
    "script-src": "'self' 'unsafe-hashes'",  # and digests; 'unsafe-hashes' extends them to onclick="..."
    "style-src": "'self' 'unsafe-inline'",  # MathJax and the explorers set styles on what they draw
    "img-src": "'self' data:",
    # Explorers make their workers from a blob, because a page from disk may not start one from a file. Such a
    # worker inherits the page's policy; one that is loaded by an address from disk would have none.
    "worker-src": "blob:",
    "base-uri": "'none'",
    "form-action": "'self'",
}
CHARSET = re.compile(r"<meta charset[^>]*>")  # the first tag: the policy holds for what follows it
INLINE = re.compile(r'<script(?![^>]*\bsrc=)[^>]*>(.*?)</script>|\sonclick="([^"]*)"', re.DOTALL)
DESCRIPTION = 40  # words


def set_addresses(app, config):
    address = os.environ.get("BOOK_ADDRESS") or config.html_baseurl
    config.html_baseurl = address and address.rstrip("/") + "/"
    if repository := os.environ.get("BOOK_REPOSITORY"):
        config.html_theme_options["repository_url"] = repository


def add_card(app, pagename, templatename, context, doctree):
    """Add the title, first sentences and first picture that other sites show with a link to the page."""
    if doctree is None:
        return
    paragraphs = [each.astext() for each in doctree.findall(nodes.paragraph) if not each["classes"]]
    words = paragraphs[0].split() if paragraphs else []
    description = " ".join(words[:DESCRIPTION]) + (" …" if len(words) > DESCRIPTION else "")
    facts = {
        "og:type": "article",
        "og:title": re.sub(r"<.*?>|\\[()]", "", context.get("title", "")),
        "og:description": description,
        "og:site_name": app.config.html_title or app.config.project,
    }
    picture = re.search(r'<img[^>]* src="([^"]+\.png)"', context.get("body", ""))
    if app.config.html_baseurl:
        facts["og:url"] = urljoin(app.config.html_baseurl, f"{pagename}.html")
        if picture:
            facts["og:image"] = urljoin(facts["og:url"], picture[1])
    tags = [f'<meta name="description" content="{escape(description)}" />']
    tags += [f'<meta property="{name}" content="{escape(fact)}" />' for name, fact in facts.items()]
    context["metatags"] = "\n".join([context.get("metatags", ""), *tags])


def policy_tag(pages: Iterable[str]) -> str:
    """Return the tag that states the policy, with the digests of all scripts inside these pages.

    One policy serves all pages: the search reads other pages, under the policy of its own.
    """
    scripts = {script or handler for page in pages for script, handler in INLINE.findall(page)}
    digests = [hashlib.sha256(script.encode()).digest() for script in sorted(scripts)]
    allowed = [f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests]
    rules = POLICY | {"script-src": " ".join([POLICY["script-src"], *allowed])}
    content = "; ".join(f"{name} {sources}" for name, sources in rules.items())
    return f'<meta http-equiv="Content-Security-Policy" content="{content}">'


def finish(app, error):
    """Add the policy to all pages, the book's address to the page for error 404, and a site map."""
    if error is not None or app.builder.format != "html":
        return
    folder, home = Path(app.outdir), app.config.html_baseurl
    pages = {path: path.read_text(encoding="utf-8") for path in sorted(folder.rglob("*.html"))}
    tag = policy_tag(pages.values())
    for path, page in pages.items():
        if path.name == "404.html":  # a host shows it in place of any missing page, in any folder
            page = page.replace('href="/', f'href="{escape(home or "/")}')
        path.write_text(CHARSET.sub(rf"\g<0>\n{tag}", page, count=1), encoding="utf-8")
    if home:
        places = [
            path.relative_to(folder).as_posix() for path in pages if path.parent.name == "book"
        ]
        addresses = "".join(f"{urljoin(home, place)}\n" for place in places)
        (folder / "sitemap.txt").write_text(addresses, encoding="utf-8")


def setup(app):
    app.connect("config-inited", set_addresses, priority=800)
    app.connect("html-page-context", add_card)
    app.connect("build-finished", finish, priority=900)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
