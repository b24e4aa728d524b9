// @ts-check
// Puts each explorer of a built page in the place of its picture, as soon as its part of the page and
// its script are there, without waiting for the rest of the page. It is a plain script, since a page
// opened from disk can import no module.
(() => {
  /** @import { Model, Settings } from "./types.d.ts" */
  /** @typedef {(place: { model: Model, el: HTMLElement }) => void} Render */
  const page = /** @type {{ explorers?: Record<string, Render> }} */ (globalThis);
  page.explorers ??= {}; // each explorer's script adds its own
  /** @type {Record<string, number>} */
  const counts = {};
  /** @type {HTMLElement[]} */
  const waiting = [];

  /** What a kernel's model offers, without a kernel. */
  function plainModel(/** @type {Settings} */ state) {
    const values = { ...state };
    return {
      get: (key) => values[key],
      set: (key, value) => {
        values[key] = value;
      },
      on() {},
      off() {},
      save_changes() {},
    };
  }

  function place() {
    const isLoading = document.readyState === "loading";
    const selector = ".explorer[data-module]:not([data-explorer])";
    for (const el of /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll(selector))) {
      if (isLoading && !el.nextSibling) break; // its picture is still to come
      const name = el.dataset.module;
      counts[name] = (counts[name] ?? 0) + 1;
      el.dataset.explorer = counts[name] > 1 ? `${name}-${counts[name]}` : name;
      waiting.push(el);
    }
    for (const el of waiting.filter((each) => each.dataset.module in page.explorers)) {
      waiting.splice(waiting.indexOf(el), 1);
      const state = { ...JSON.parse(el.dataset.state), place: el.dataset.explorer };
      page.explorers[el.dataset.module]({ model: plainModel(state), el });
    }
  }

  const observer = new MutationObserver(place);
  observer.observe(document, { childList: true, subtree: true });
  document.addEventListener("readystatechange", () => {
    place();
    observer.disconnect();
  });
  addEventListener("explorer", place); // a script has come
  place();
  if (document.readyState !== "loading") observer.disconnect();
})();
