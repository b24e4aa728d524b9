// The time bar: where in the run the picture stands, played, stepped and dragged; or a run that goes on.

import { format } from "./format.mjs";
import { button, make, OWN_KEYS } from "./dom.mjs";

const PLAY_SECONDS = 9, STILLS = 12;
export const reducedMotion = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

// `at()` and `go(at)` read and set the share of the run; `rows()` is how many are recorded.
export function timeBar({ at, go, rows, playing = () => {} }) {
  let timer = null, began = 0;
  const position = make("input", {
    ...OWN_KEYS,
    type: "range",
    min: 0,
    step: 1,
    "aria-label": "time",
    input: () => {
      pause();
      go(position.valueAsNumber / position.max);
    },
  });
  const clock = make("output", { class: "ex-clock", "aria-live": "off" });
  const play = button("Play", () => (timer ? pause() : start()));
  const parts = [
    play,
    button("−", () => step(-1), { "aria-label": "one step back" }),
    button("+", () => step(1), { "aria-label": "one step on" }),
    position,
    clock,
  ];
  const label = () => {
    play.textContent = timer ? "Pause" : "Play";
    playing(Boolean(timer));
  };
  function pause() {
    clearTimeout(timer);
    timer = null;
    label();
  }
  function start() {
    timer = setTimeout(tick, 0);
    label();
    if (at() >= 1) go(0);
    began = performance.now() - at() * PLAY_SECONDS * 1000;
  }
  function tick() {
    const still = reducedMotion();
    const next = still ? at() + 1 / STILLS : (performance.now() - began) / (PLAY_SECONDS * 1000);
    go(Math.min(1, next));
    if (next >= 1) return pause();
    timer = setTimeout(tick, still ? 800 : 30);
  }
  function step(by) {
    pause();
    const last = rows() - 1;
    go(Math.min(last, Math.max(0, Math.round(at() * last) + by)) / last);
  }
  return {
    element: make("div", { class: "ex-time", role: "group", "aria-label": "time" }, ...parts),
    pause,
    stop: pause,
    show: ({ step: steps, unit = "step" }, row) => {
      position.max = steps.length - 1;
      position.value = row;
      clock.textContent = `${unit} ${format(steps[row])}`;
      position.setAttribute("aria-valuetext", clock.textContent);
    },
  };
}

// A run that goes on while it is looked at: live(state, report) → { stop, pause, step }. It begins when it is asked
// to; when a setting moves, one that was going begins again and one that rested goes back to its start.
export function liveBar({ live, state, report }) {
  let job = null, going = false, soon = null, last = null, run = 0;
  const clock = make("output", { class: "ex-clock", "aria-live": "off" });
  const play = button("Play", () => (going ? pause() : start()));
  const label = () => {
    play.textContent = going ? "Pause" : "Play";
  };
  function begin() {
    job?.stop();
    last = null;
    const mine = ++run;
    job = live(state, (next) => {
      if (mine !== run) return; // of a worker that was stopped since
      last = next;
      if (next.done) going = false;
      clock.textContent = next.clock ?? "";
      label();
      report(next);
    });
  }
  function start() {
    if (!job || last?.done) begin();
    going = true;
    job.pause(false);
    label();
  }
  function pause() {
    clearTimeout(soon);
    going = false;
    job?.pause(true);
    label();
  }
  function step() {
    pause();
    if (!job || last?.done) begin();
    job.step();
  }
  // a drag passes many settings: only the one where it rests is worth a run
  function restart() {
    clearTimeout(soon);
    job?.stop();
    run++;
    job = last = null;
    clock.textContent = "";
    report(null);
    if (going) soon = setTimeout(start, 150);
  }
  return {
    element: make(
      "div",
      { class: "ex-time", role: "group", "aria-label": "time" },
      play,
      button("+", step, { "aria-label": "one step on" }),
      clock,
    ),
    pause,
    restart,
    show() {},
    stop: () => {
      clearTimeout(soon);
      job?.stop();
    },
  };
}
