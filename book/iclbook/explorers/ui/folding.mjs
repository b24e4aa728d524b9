// @ts-check
// Which controls and pictures of an explorer are shown: few at first, all, or those a link names.

import { button } from "./dom.mjs";
import { same } from "./values.mjs";

/** @import { Input, Link, Settings } from "../types.d.ts" */

/**
 * `first` are the keys of the controls that are shown at first; if there are none, all are shown.
 * `changed` is called when other pictures are to be drawn.
 * @param {{ first: string[], initial: Settings, values: Settings, inputs: Map<string, Input>,
 *   changed: () => void }} explorer
 */
export function createFolding({ first, initial, values, inputs, changed }) {
  let fewControls = first.length > 0, fewPictures = fewControls;
  /** @type {string[] | null} */
  let linked = null; // the controls that a link shows, if it names them
  let start = initial; // what Reset goes back to: with a link that names controls, what the link set

  const foldControls = button("", () => {
    fewControls = !fewControls;
    update();
  }, { class: "ex-fold" });
  const foldPictures = button("", () => {
    fewPictures = !fewPictures;
    update();
  }, { class: "ex-fold" });

  function label(fold, few, what) {
    fold.textContent = `${few ? "All" : "Fewer"} ${what}`;
    fold.setAttribute("aria-expanded", !few);
  }

  function isShown(key) {
    if (linked) return linked.includes(key);
    return !fewControls || first.includes(key) || !same(values[key], initial[key]);
  }

  function update() {
    for (const [key, { element }] of inputs) element.hidden = !isShown(key);
    foldControls.hidden = !first.length || linked !== null;
    label(foldControls, linked !== null || fewControls, "settings");
    label(foldPictures, fewPictures, "pictures");
    changed();
  }

  /** Shows what a link asks for. */
  function open(/** @type {Link} */ { shown, all, state }) {
    if (!shown && !all) return;
    linked = shown;
    fewControls = false;
    fewPictures = first.length > 0 && !all;
    start = shown ? state : initial;
  }

  /** Whether settings would move a control that a link has left out. */
  function hides(/** @type {Settings} */ settings) {
    return linked !== null && Object.entries({ ...initial, ...settings })
      .some(([key, value]) => key !== "at" && !linked.includes(key) && !same(value, start[key]));
  }

  /** How many of the pictures are shown. An explorer with few shows one row. */
  function count(panels) {
    const few = panels[0].wide ? 1 : 2;
    foldPictures.hidden = !first.length || panels.length <= few;
    return fewPictures ? few : panels.length;
  }

  /** What a link has to say, so that it shows the same controls and pictures. */
  const forLink = () => linked ?? (first.length && !(fewControls && fewPictures) ? ["all"] : null);

  return { foldControls, foldPictures, update, open, hides, count, forLink, start: () => start };
}
