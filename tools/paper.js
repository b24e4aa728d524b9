// The pages of the book as one document to print: its body, of pages [name, text] in order and the address
// of their folder. What has an id is called page--id, so that links between pages lead to where they led. A
// link to what is not on paper, as an explorer's setting, is its words.
([pages, base]) => {
  const names = new Map(pages.map(([name]) => [`/book/${name}.html`, name]));
  const body = document.createElement("body");

  for (const [name, text] of pages) {
    const article = new DOMParser().parseFromString(text, "text/html").querySelector("article.bd-article");
    const address = (relative) => new URL(relative, `http://pages/book/${name}.html`);
    article.querySelectorAll("a.headerlink, details.hide, script").forEach((each) => each.remove());
    article.querySelectorAll("details").forEach((each) => (each.open = true));
    article.querySelectorAll("[id]").forEach((each) => (each.id = `${name}--${each.id}`));
    for (const each of article.querySelectorAll("[src]")) {
      const { host, pathname } = address(each.getAttribute("src"));
      if (host === "pages") each.setAttribute("src", `${base}${pathname}`);
    }
    for (const link of article.querySelectorAll("a[href]")) {
      const { host, pathname, hash } = address(link.getAttribute("href"));
      if (host !== "pages") continue;
      const inside = decodeURIComponent(hash.slice(1));
      link.setAttribute("href", `#${names.get(pathname) ?? ""}--${inside}`);
    }
    article.id = `${name}--`;
    body.append(article);
  }

  const there = new Set([...body.querySelectorAll("[id]")].map((each) => each.id));
  for (const link of body.querySelectorAll("a[href^='#']")) {
    if (!there.has(link.getAttribute("href").slice(1))) link.replaceWith(...link.childNodes);
  }
  return body.innerHTML;
}
