// @ts-check
// The controls of an explorer. The traits of the Python class say which there are (base.py).

import { choice } from "./choice.mjs";
import { button, make } from "./dom.mjs";
import { format } from "./format.mjs";
import { slider } from "./slider.mjs";
import { spectrum } from "./spectrum.mjs";

/** @import { Control, Input } from "../types.d.ts" */

/**
 * How many points were moved in a picture, and a button that puts them back.
 * @param {Control} control @param {(value: number[]) => void} set
 */
function points({ label }, set) {
  const output = make("output", {});
  const clear = () => {
    show([]);
    set([]);
  };
  const undo = button("Undo", clear, { "aria-label": `${label}: undo` });
  function show(/** @type {number[]} */ value, words = "") {
    output.textContent = value.length ? words || format(value.length / 3) : "none";
    undo.disabled = !value.length;
  }
  const heading = make("span", { class: "ex-heading" }, label);
  return { element: make("div", { class: "ex-control" }, heading, output, undo), show };
}

/**
 * A control for the page. `set` is called with what the reader sets, `say` with words on it.
 * @param {Control} spec @param {(value: any) => void} set @param {(words: string) => void} say
 * @returns {Input}
 */
export function control(spec, set, say) {
  if (spec.type === "choice") return choice(spec, set);
  if (spec.type === "spectrum") return spectrum(spec, set, say);
  return spec.type === "points" ? points(spec, set) : slider(spec, set, say);
}
