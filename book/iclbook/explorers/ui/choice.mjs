// @ts-check
import { make, OWN_KEYS, unique } from "./dom.mjs";

/** @import { Control, Input } from "../types.d.ts" */

/**
 * A list of which one is chosen.
 * @param {Pick<Control, "label" | "options" | "names">} control @param {(value: any) => void} set
 */
export function choice({ label, options, names = {} }, set) {
  const id = `ex-${unique()}`;
  const elements = options.map((each) => make("option", {}, String(names[each] ?? each)));
  const change = () => set(options[select.selectedIndex]);
  const select = make("select", { ...OWN_KEYS, id, change }, ...elements);
  return {
    element: make("div", { class: "ex-control" }, make("label", { for: id }, label), select),
    show: (value) => {
      select.selectedIndex = options.indexOf(value);
    },
    /** Offers the first so many options. If the chosen one is not among them, the first is shown. */
    offer: (/** @type {number} */ most) => {
      elements.forEach((each, i) => {
        each.hidden = each.disabled = i >= most;
      });
      if (select.selectedIndex >= most) select.selectedIndex = 0;
    },
  };
}
