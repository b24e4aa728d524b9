// Puts each explorer of a built page in the place of its picture, as soon as its part of the page and
// its module are there: a page's formulas take longer. Plain scripts, so that pages work from disk.
(() => {
  const made = (window.explorers ??= {}), seen = {}, waiting = [];
  // What a kernel's model offers, without the kernel.
  const plain = (state) => {
    const held = { ...state };
    return {
      get: (key) => held[key],
      set: (key, value) => {
        held[key] = value;
      },
      on() {},
      off() {},
      save_changes() {},
    };
  };
  const place = () => {
    const loading = document.readyState === "loading";
    for (const el of document.querySelectorAll(".explorer[data-module]:not([data-explorer])")) {
      if (loading && !el.nextSibling) break; // its picture is still to come
      const name = el.dataset.module;
      seen[name] = (seen[name] ?? 0) + 1;
      el.dataset.explorer = seen[name] > 1 ? `${name}-${seen[name]}` : name;
      waiting.push(el);
    }
    for (const el of waiting.filter((each) => each.dataset.module in made)) {
      waiting.splice(waiting.indexOf(el), 1);
      made[el.dataset.module]({
        model: plain({ ...JSON.parse(el.dataset.state), place: el.dataset.explorer }),
        el,
      });
    }
  };
  const parsed = new MutationObserver(place);
  parsed.observe(document, { childList: true, subtree: true });
  document.addEventListener("readystatechange", () => {
    place();
    parsed.disconnect();
  });
  addEventListener("explorer", place); // a module has come
  place();
  if (document.readyState !== "loading") parsed.disconnect();
})();
