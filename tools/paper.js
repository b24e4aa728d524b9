// Join the pages of the book into the body of one document. `pages` are [name, text] in the order of the book,
// `base` is the address of their folder. The id of an element becomes page--id, so that links between pages
// lead to the same places as before. A link to what is not on paper, such as the settings of an explorer,
// becomes plain text.
([pages, base]) => {
  const names = new Map(pages.map(([name]) => [`/book/${name}.html`, name]));
  const body = document.createElement("body");

  for (const [name, text] of pages) {
    const article = new DOMParser().parseFromString(text, "text/html").querySelector("article.bd-article");
    const resolve = (relative) => new URL(relative, `http://pages/book/${name}.html`);
    article.querySelectorAll("a.headerlink, details.hide, script").forEach((each) => each.remove());
    article.querySelectorAll("details").forEach((each) => (each.open = true));
    article.querySelectorAll("[id]").forEach((each) => (each.id = `${name}--${each.id}`));
    for (const each of article.querySelectorAll("[src]")) {
      const { host, pathname } = resolve(each.getAttribute("src"));
      if (host === "pages") each.setAttribute("src", `${base}${pathname}`);
    }
    for (const link of article.querySelectorAll("a[href]")) {
      const { host, pathname, hash } = resolve(link.getAttribute("href"));
      if (host !== "pages") continue;
      const id = decodeURIComponent(hash.slice(1));
      link.setAttribute("href", `#${names.get(pathname) ?? ""}--${id}`);
    }
    article.id = `${name}--`;
    body.append(article);
  }

  const targets = new Set([...body.querySelectorAll("[id]")].map((each) => each.id));
  for (const link of body.querySelectorAll("a[href^='#']")) {
    if (!targets.has(link.getAttribute("href").slice(1))) link.replaceWith(...link.childNodes);
  }
  return body.innerHTML;
}
