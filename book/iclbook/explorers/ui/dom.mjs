// @ts-check
// Elements of the page.

/** A number that nothing else on the page has. Each explorer comes with modules of its own. */
export function unique() {
  const page = /** @type {{ explorersMade?: number }} */ (globalThis);
  page.explorersMade = (page.explorersMade ?? 0) + 1;
  return page.explorersMade;
}

/**
 * An element. Attributes that are functions listen to the event of that name.
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {Record<string, any>} attributes
 * @param {(Node | string)[]} children
 */
export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

export const button = (
  /** @type {string} */ label,
  /** @type {() => void} */ click,
  attributes = {},
) => make("button", { type: "button", click, ...attributes }, label);

/** Without this attribute JupyterLab takes the arrow keys for itself. */
export const OWN_KEYS = { "data-lm-suppress-shortcuts": "true" };
