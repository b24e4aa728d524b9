// @ts-check
import { make, OWN_KEYS, unique } from "./dom.mjs";
import { format } from "./format.mjs";
import { clamp } from "./values.mjs";

/** @import { Control } from "../types.d.ts" */

/**
 * Numbers as places of a slider. A logarithmic one has a whole number of places, so that the last
 * one is its greatest value.
 * @param {Partial<Control>} control
 */
function grid({ type, min, max, log, step }) {
  const fine = step ?? (type === "whole" ? 1 : 10 ** Math.floor(Math.log10((max - min) / 100)));
  if (!log) {
    return {
      range: { min, max, step: fine },
      step: fine,
      value: (place) => type === "whole" ? Math.round(place) : Number(place.toPrecision(6)),
      place: (value) => value,
      share: (value) => (value - min) / (max - min),
    };
  }
  const decades = Math.log10(max / min), places = Math.round(50 * decades);
  const place = (value) => (Math.log10(value / min) / decades) * places;
  return {
    range: { min: 0, max: places, step: 1 },
    step: "any",
    value: (at) => Number((min * 10 ** ((at / places) * decades)).toPrecision(2)),
    place,
    share: (value) => place(value) / places,
  };
}

/**
 * A slider with a number field. `say` tells the reader of a number that the control cannot take.
 * @param {Partial<Control>} control @param {(value: number) => void} set
 * @param {(words: string) => void} say
 */
export function slider(control, set, say = () => {}) {
  const { label, type, min, max, log } = control, id = `ex-${unique()}`;
  const places = grid(control), span = `from ${format(min)} to ${format(max)}`;
  /** @type {number | undefined} */
  let value;
  /** @type {number | null} */
  let edge = null; // past this value the page warns
  /** @type {number | null} */
  let pressed = null; // the value when the pointer came down

  const range = make("input", {
    ...OWN_KEYS,
    id,
    type: "range",
    "aria-describedby": `${id}-edge`,
    ...places.range,
    // The handle stays where the reader put it, even where the value is rounded.
    input: () => {
      const moved = clamp(control, places.value(range.valueAsNumber));
      write(moved);
      set(moved);
    },
    // A finger that comes down here and then scrolls the page did not mean to change anything.
    pointerdown: () => {
      pressed = value;
    },
    pointercancel: () => {
      if (pressed === null || pressed === value) return;
      show(pressed);
      set(pressed);
    },
  });
  const change = () => {
    const typed = field.valueAsNumber, allowed = clamp(control, typed);
    if (allowed === null) {
      say(`${label} takes a number ${span}: it stays at ${format(value)}.`);
      return show(value);
    }
    const what = type === "whole" ? "whole numbers " : "";
    say(
      allowed === typed ? "" : `${label} is held to ${format(allowed)}: it takes ${what}${span}.`,
    );
    show(allowed);
    set(allowed);
  };
  const limits = { min, max, step: places.step }, name = `${label}, number`;
  const field = make("input", {
    ...OWN_KEYS,
    type: "number",
    ...limits,
    "aria-label": name,
    change,
  });
  const tick = make("span", { class: "ex-edge", hidden: true, "aria-hidden": "true" });
  const warning = make("small", { class: "ex-limit", id: `${id}-edge`, hidden: true });

  function warn() {
    const isPast = edge !== null && value > edge;
    const words = isPast ? ", past the edge of stability" : "";
    range.setAttribute("aria-valuetext", format(value) + words);
    warning.classList.toggle("ex-past", isPast);
    warning.hidden = tick.hidden && !isPast;
    const rounded = edge === null ? "" : format(Number(edge.toPrecision(2)));
    warning.textContent = rounded && `${isPast ? "past the " : ""}edge of stability, ${rounded}`;
  }

  /** Marks the edge on the slider, whose handle is a rem wide and stays inside. */
  function mark(/** @type {number | null} */ next) {
    if (next === edge) return;
    edge = next;
    tick.hidden = edge === null || edge < min || edge > max;
    if (!tick.hidden) tick.style.left = `calc(0.5rem + (100% - 1rem) * ${places.share(edge)})`;
    if (value !== undefined) warn();
  }
  function write(/** @type {number} */ next) {
    value = next;
    warn();
    const plain = Number(value.toPrecision(6));
    field.value = log && plain < 1e-3 ? plain.toExponential() : String(plain);
  }
  function show(/** @type {number} */ next) {
    range.value = places.place(next);
    write(next);
  }
  const track = make("span", { class: "ex-track" }, range, tick);
  const parts = [make("label", { for: id }, label), track, field, warning];
  return { element: make("div", { class: "ex-control" }, ...parts), show, mark };
}
