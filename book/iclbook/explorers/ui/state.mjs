// @ts-check
// The settings of one explorer: what its controls, its pictures, links and a kernel set.

import { clamp, same } from "./values.mjs";

/** @import { Control, Model, Settings } from "../types.d.ts" */

/**
 * `changed(recompute)` is called after settings have changed. A control that only says what to look
 * at, and the time, need no new computation. `show(key)` has the page's control show its value.
 * @param {Model} model @param {Control[]} controls
 * @param {{ changed(recompute: boolean): void, show(key: string): void }} page
 */
export function createState(model, controls, { changed, show }) {
  /** @type {Settings} */
  const initial = Object.fromEntries(controls.map(({ key, value }) => [key, value]));
  /** @type {Settings} */
  const values = Object.fromEntries(controls.map(({ key }) => [key, model.get(key)]));
  const control = (key) => controls.find((each) => each.key === key);
  const recomputes = (key) => key !== "at" && !control(key).view;

  function write(key, value) {
    values[key] = value;
    model.set(key, value);
  }

  /** Sets one control. A run that leaves at its first step has no time but 0/0, which is refused. */
  function set(key, given) {
    const value = clamp(control(key), given);
    if (value === null || same(values[key], value)) return;
    write(key, value);
    model.save_changes();
    changed(recomputes(key));
  }

  /** Sets all controls at once, as a preset or a link does. What a control cannot take is left out. */
  function setAll(/** @type {Settings} */ given) {
    for (const each of controls) {
      const value = each.key in given ? clamp(each, given[each.key]) : null;
      if (value !== null) write(each.key, value);
    }
    model.save_changes();
    for (const { key } of controls) show(key);
    changed(true);
  }

  /** Sets controls from a place in a picture, rounded, and returns what they were before. */
  function drag(/** @type {Settings} */ given) {
    const before = Object.fromEntries(Object.keys(given).map((key) => [key, values[key]]));
    for (const [key, place] of Object.entries(given)) {
      const { type, log } = control(key);
      set(key, type === "real" ? Number(place.toPrecision(log ? 2 : 3)) : place);
      show(key);
    }
    return before;
  }

  /** @type {[string, () => void][]} */
  const listeners = controls.map(({ key }) => [`change:${key}`, () => {
    const value = clamp(control(key), model.get(key));
    if (value === null || same(value, values[key])) return;
    values[key] = value;
    show(key);
    changed(recomputes(key));
  }]);
  for (const [event, listener] of listeners) model.on(event, listener);
  const stop = () => {
    for (const [event, listener] of listeners) model.off(event, listener);
  };
  return { initial, values, control, set, setAll, drag, stop };
}
