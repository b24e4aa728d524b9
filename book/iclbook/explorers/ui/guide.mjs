// @ts-check
// What leads the reader through an explorer: presets, and a question to guess the answer of.

import { button, make } from "./dom.mjs";
import { same } from "./values.mjs";

/** @import { Guess, Preset, Settings } from "../types.d.ts" */

/** Numbers within a tenth are close enough for a guess. */
function close(a, b) {
  if (Array.isArray(a)) return a.length === b.length && a.every((each, i) => close(each, b[i]));
  return typeof a === "number" ? Math.abs(a - b) <= 0.1 * Math.abs(b) + 1e-9 : a === b;
}
/** Whether settings agree; where the time stands does not matter. */
const agree = (state, settings, equal) =>
  Object.entries(settings).every(([key, value]) => key === "at" || equal(state[key], value));

/**
 * Buttons for settings worth a look, each with a sentence on what to look at. Those that would move a
 * control that a link has hidden are left out.
 * @param {{ list: Preset[], initial: Settings, state: Settings,
 *   hides: (settings: Settings) => boolean, apply: (settings: Settings) => void }} explorer
 */
export function presets({ list, initial, state, hides, apply }) {
  // It stands below the controls, which do not move when it comes and goes.
  const look = make("p", { class: "ex-look", role: "status" });
  const buttons = list.map(({ name, settings }) =>
    button(name, () => apply({ ...initial, ...settings }), { "aria-pressed": "false" })
  );
  const group = { role: "group", "aria-label": "settings worth a look" };
  const heading = make("span", { class: "ex-heading" }, "Try");
  const attributes = { class: "ex-presets", ...group, hidden: list.length === 0 };
  const element = make("div", attributes, heading, ...buttons);
  function show() {
    const active = list.findIndex(({ settings }) =>
      agree(state, { ...initial, ...settings }, same)
    );
    buttons.forEach((each, i) => {
      each.setAttribute("aria-pressed", String(i === active));
      each.hidden = hides(list[i].settings);
    });
    element.hidden = buttons.every((each) => each.hidden);
    const words = active < 0 ? "" : list[active].look;
    if (look.textContent !== words) look.textContent = words;
  }
  return { element, look, show };
}

/**
 * A question, whose answer is told once the reader has chosen one and moved the explorer to it. All
 * other settings must be as at first, since with others the answer may be wrong.
 * @param {{ ask: Guess, initial: Settings, state: Settings,
 *   hides: (settings: Settings) => boolean, apply: (settings: Settings) => void }} explorer
 */
export function guess({ ask, initial, state, hides, apply }) {
  if (!ask?.question) return { element: "", show: () => {} };
  /** @type {number | null} */
  let chosen = null;
  let isTold = false, isReady = true;
  const goal = { ...initial, ...ask.settings };
  const answer = make("p", { class: "ex-answer", role: "status" });
  const move = button("Move it for me", () => apply(goal), { hidden: true });
  const buttons = ask.answers.map((each, i) =>
    button(each, () => choose(i), { "aria-pressed": "false" })
  );
  function choose(/** @type {number} */ i) {
    chosen = i;
    buttons.forEach((each, n) => each.setAttribute("aria-pressed", String(n === i)));
    show(isReady);
  }
  function tell() {
    isTold = true;
    const verdict = chosen === ask.right ? "Yes." : `No: ${ask.answers[ask.right]}.`;
    answer.textContent = `${verdict} ${ask.why}`;
    buttons.forEach((each, i) => {
      each.disabled = true;
      each.classList.toggle("ex-right", i === ask.right);
    });
  }
  /** `ready` is false while a live run has not come to its end. */
  function show(ready = true) {
    isReady = ready;
    element.hidden = hides(ask.settings);
    if (chosen === null || isTold) return;
    const isThere = agree(state, goal, close);
    move.hidden = isThere;
    if (isThere && ready) return tell();
    const others = agree(state, ask.settings, close) ? ", with all other settings as at first" : "";
    answer.textContent = isThere
      ? "Press Play, and wait for the end."
      : `Now find out: ${ask.move}${others}.`;
  }
  const element = make(
    "div",
    { class: "ex-guess", role: "group", "aria-label": "a guess" },
    make("p", {}, make("b", {}, "Guess first. "), ask.question),
    make("div", { class: "ex-answers" }, ...buttons),
    answer,
    move,
  );
  return { element, show };
}
