// What leads through an explorer: settings worth a look, each with a sentence on what to look at, and a
// question to be guessed, whose answer shows once the reader has moved the explorer to it.

import { button, make } from "./controls.mjs";

const close = (
  a,
  b,
) => (Array.isArray(a)
  ? a.length === b.length && a.every((each, i) => close(each, b[i]))
  : typeof a === "number"
  ? Math.abs(a - b) <= 0.1 * Math.abs(b) + 1e-9
  : a === b);
const meets = (state, settings) =>
  Object.entries(settings).every(([key, value]) => key === "at" || close(state[key], value));

// `hides(settings)`: these would move a control that is not to be seen, so they are not offered.
export function presets({ list, first, state, hides, assume }) {
  const look = make("p", { class: "ex-look", role: "status" });
  const buttons = list.map(({ name, settings }) =>
    button(name, () => assume({ ...first, ...settings }), { "aria-pressed": "false" })
  );
  const same = ({ settings }) =>
    Object.entries({ ...first, ...settings }).every(([key, value]) =>
      key === "at" || String(state[key]) === String(value)
    );
  const element = make(
    "div",
    {
      class: "ex-presets",
      role: "group",
      "aria-label": "settings worth a look",
      hidden: list.length === 0,
    },
    make("span", { class: "ex-heading" }, "Try"),
    ...buttons,
  );
  return {
    element,
    look, // stands below the controls: they do not move under the hand when it comes and goes
    show() {
      const active = list.findIndex(same);
      buttons.forEach((each, i) => {
        each.setAttribute("aria-pressed", i === active);
        each.hidden = hides(list[i].settings);
      });
      element.hidden = buttons.every((each) => each.hidden);
      const words = active < 0 ? "" : list[active].look;
      if (look.textContent !== words) look.textContent = words;
    },
  };
}

// A guess is answered at the settings that it is about, all else being as at first: elsewhere it may be wrong.
export function guess({ ask, first, state, hides, assume }) {
  if (!ask?.question) return { element: "", show() {} };
  let chosen = null, told = false;
  const answer = make("p", { class: "ex-answer", role: "status" });
  const moved = { ...first, ...ask.settings };
  const act = button("Move it for me", () => assume(moved), { hidden: true });
  const buttons = ask.answers.map((each, i) =>
    button(each, () => choose(i), { "aria-pressed": "false" })
  );
  function choose(i) {
    chosen = i;
    buttons.forEach((each, n) => each.setAttribute("aria-pressed", n === i));
    show(ready);
  }
  let ready = true;
  function show(finished = true) {
    ready = finished;
    element.hidden = hides(ask.settings);
    if (chosen === null || told) return;
    const there = meets(state, moved);
    act.hidden = there;
    if (!there) {
      answer.textContent = `Now find out: ${ask.move}${
        meets(state, ask.settings) ? ", with all other settings as at first" : ""
      }.`;
    } else if (finished) {
      told = true;
      answer.textContent = `${
        chosen === ask.right ? "Yes." : `No: ${ask.answers[ask.right]}.`
      } ${ask.why}`;
      buttons.forEach((each, i) => {
        each.disabled = true;
        each.classList.toggle("ex-right", i === ask.right);
      });
    } else answer.textContent = "Press Play, and wait for the end.";
  }
  const element = make(
    "div",
    { class: "ex-guess", role: "group", "aria-label": "a guess" },
    make("p", {}, make("b", {}, "Guess first. "), ask.question),
    make("div", { class: "ex-answers" }, ...buttons),
    answer,
    act,
  );
  return { element, show };
}
