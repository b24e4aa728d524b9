// @ts-check
// The eigenvalues as bars, which are dragged or moved by the arrow keys. A law and a dimension set them
// all. Pressing a bar chooses it for the number field.

import { choice } from "./choice.mjs";
import { make, OWN_KEYS } from "./dom.mjs";
import { format, subscript } from "./format.mjs";
import { slider } from "./slider.mjs";
import { clamp } from "./values.mjs";

/** @import { Control } from "../types.d.ts" */

const FULL = 0.4; // the eigenvalue that fills the box, if none is larger
const ROOM = 18; // pixels above a full bar, for its number
const BY_HAND = "set by hand";
const LAWS = {
  "λ ∝ D + 1 − d": (d, dim) => dim - d,
  "λ ∝ 1/d": (d) => 1 / (d + 1),
  "all equal": () => 1,
};

/** The eigenvalues of a law, with sum 1. */
function eigenvaluesOf(/** @type {string} */ law, /** @type {number} */ dim) {
  const values = Array.from({ length: dim }, (_, d) => LAWS[law](d, dim));
  const total = values.reduce((a, b) => a + b);
  return values.map((each) => Number((each / total).toPrecision(6)));
}

function lawOf(/** @type {number[]} */ values) {
  const isLaw = (law) =>
    eigenvaluesOf(law, values.length).every((each, d) => Math.abs(each - values[d]) < 1e-5);
  return Object.keys(LAWS).find(isLaw);
}

/**
 * One bar. `read` gives its value and the eigenvalue that fills the box; `move` sets its value,
 * `restore` sets them all to what they were, and `choose` is called when it gets the focus.
 * @param {number} d
 * @param {{ min: number, max: number, read: () => { values: number[], full: number },
 *   move: (value: number) => void, restore: (values: number[]) => void, choose: () => void }} bars
 */
function makeBar(d, { min, max, read, move, restore, choose }) {
  const fill = make("span", { class: "ex-fill", style: `background:var(--ex-c${d % 8})` });
  const number = make("span", { class: "ex-number" });
  const grip = make("span", { class: "ex-handle" });
  /** @type {number[] | null} */
  let before = null; // the eigenvalues when the pointer came down
  let scale = FULL, from = 0;
  const keys = {
    ...{ ArrowUp: 0.01, ArrowRight: 0.01, ArrowDown: -0.01, ArrowLeft: -0.01 },
    ...{ PageUp: 0.1, PageDown: -0.1, Home: -max, End: max },
  };
  const listeners = {
    focus: choose,
    // By touch only the grip is dragged, since the bars are wide and the page must scroll.
    pointerdown: (event) => {
      if (event.pointerType === "touch" && event.target !== grip) return;
      const { values, full } = read();
      [before, scale, from] = [values, full, event.clientY];
      element.setPointerCapture(event.pointerId);
      element.focus({ preventScroll: true });
    },
    pointermove: (event) => {
      if (!before) return;
      const up = (from - event.clientY) / (element.clientHeight - ROOM);
      if (up || read().values !== before) move(before[d] + up * scale);
    },
    pointerup: () => {
      before = null;
    },
    pointercancel: () => {
      if (before) restore(before);
      before = null;
    },
    keydown: (event) => {
      if (!(event.key in keys)) return;
      event.preventDefault();
      event.stopPropagation();
      move(read().values[d] + keys[event.key]);
    },
  };
  const attributes = {
    ...{ class: "ex-bar", role: "slider", tabindex: 0, "aria-orientation": "vertical" },
    ...{ "aria-label": `eigenvalue ${d + 1}`, "aria-valuemin": min, "aria-valuemax": max },
    "data-tags": `e${subscript(d + 1)}`,
  };
  const element = make("div", { ...OWN_KEYS, ...listeners, ...attributes }, number, fill, grip);

  function show(/** @type {number} */ value, /** @type {number} */ full) {
    fill.style.height = `calc((100% - ${ROOM}px) * ${value / full})`;
    number.textContent = value.toFixed(value < 0.1 ? 3 : 2).replace(/^0/, "");
    for (const each of [number, grip]) each.style.bottom = fill.style.height;
    element.setAttribute("aria-valuenow", String(value));
    element.setAttribute("aria-valuetext", format(value));
  }
  return { element, show };
}

/**
 * @param {Control} control @param {(values: number[]) => void} set @param {(words: string) => void} say
 */
export function spectrum({ label, min, max, least, most }, set, say) {
  /** @type {number[]} */
  let values = [];
  /** @type {ReturnType<typeof makeBar>[]} */
  let bars = [];
  let full = FULL, chosen = 0;
  const one = /** @type {Partial<Control>} */ ({ type: "real", min, max });

  function change(/** @type {number[]} */ next, atLeast = FULL) {
    show(next, atLeast);
    set(next);
  }
  /** The box may grow with a bar that is moved, and does not shrink while it is. */
  function move(/** @type {number} */ d, /** @type {number} */ value) {
    chosen = d;
    change(values.with(d, clamp(one, Number(value.toFixed(3)))), full);
  }
  const bar = (d) =>
    makeBar(d, {
      ...{ min, max, restore: change, read: () => ({ values, full }) },
      move: (value) => move(d, value),
      choose: () => choose(d),
    });
  const plot = make("div", { class: "ex-bars", role: "group", "aria-label": label });
  const laws = choice(
    { label: "spectrum", options: [...Object.keys(LAWS), BY_HAND] },
    (law) => change(law === BY_HAND ? values : eigenvaluesOf(law, values.length)),
  );
  const dimension = slider(
    { label: "dimension D", type: "whole", min: least, max: most },
    (dim) => change(eigenvaluesOf(lawOf(values) ?? Object.keys(LAWS)[0], dim)),
  );
  function typed() {
    const value = field.valueAsNumber, allowed = clamp(one, value);
    const span = `from ${format(min)} to ${format(max)}`;
    say(allowed === value ? "" : `An eigenvalue is a number ${span}.`);
    if (allowed !== null) move(chosen, allowed);
    else choose();
  }
  const attributes = { type: "number", min, max, step: 0.01, "aria-label": "eigenvalue, number" };
  const field = make("input", { ...OWN_KEYS, ...attributes, change: typed });
  const name = make("span", { "aria-hidden": "true" });

  function choose(d = chosen) {
    chosen = Math.min(d, values.length - 1);
    name.textContent = `chosen: λ${subscript(chosen + 1)}`;
    bars.forEach((each, i) => each.element.classList.toggle("ex-set", i === chosen));
    field.value = String(Number(values[chosen].toFixed(3)));
  }
  function show(/** @type {number[]} */ next, atLeast = FULL) {
    values = [...next];
    full = Math.max(atLeast, ...values);
    if (bars.length !== values.length) {
      bars = values.map((_, d) => bar(d));
      plot.replaceChildren(...bars.map((each) => each.element));
    }
    values.forEach((value, d) => bars[d].show(value, full));
    laws.show(lawOf(values) ?? BY_HAND);
    dimension.show(values.length);
    choose();
  }
  const heading = make("span", { class: "ex-heading", "aria-hidden": "true" }, label);
  const top = make("div", { class: "ex-chosen" }, heading, name, field);
  const parts = [top, plot, laws.element, dimension.element];
  const element = make("div", { class: "ex-spectrum" }, ...parts);
  return { element, show: (/** @type {number[]} */ next) => show(next) };
}
