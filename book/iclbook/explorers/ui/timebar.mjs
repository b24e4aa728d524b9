// @ts-check
// The time bar: plays, steps and drags through a recorded run, or starts and stops a live one.

import { button, make, OWN_KEYS } from "./dom.mjs";
import { format } from "./format.mjs";

/** @import { Definition, Job, LiveResult, Result, Settings } from "../types.d.ts" */

const PLAY_SECONDS = 9, FRAME = 30; // seconds to play a run, milliseconds between pictures
const FEW_PICTURES = 12, FEW_FRAME = 800; // the same for readers who want less motion
const AFTER_DRAG = 150; // milliseconds without a change before a live run begins again

export const reducedMotion = () => matchMedia("(prefers-reduced-motion: reduce)").matches;

const bar = (/** @type {Node[]} */ ...parts) =>
  make("div", { class: "ex-time", role: "group", "aria-label": "time" }, ...parts);
const makeClock = () => make("output", { class: "ex-clock", "aria-live": "off" });

/**
 * A bar for a recorded run. The time goes from 0 to 1; `rows` is how many rows are recorded.
 * @param {{ at: () => number, go: (at: number) => void, rows: () => number }} run
 */
export function timeBar({ at, go, rows }) {
  /** @type {number | null} */
  let timer = null;
  let began = 0;
  const drag = () => {
    pause();
    go(position.valueAsNumber / Number(position.max));
  };
  const range = { type: "range", min: 0, step: 1, "aria-label": "time" };
  const position = make("input", { ...OWN_KEYS, ...range, input: drag });
  const clock = makeClock();
  const play = button("Play", () => (timer ? pause() : start()));
  function label() {
    play.textContent = timer ? "Pause" : "Play";
  }
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
    const few = reducedMotion();
    const next = few
      ? at() + 1 / FEW_PICTURES
      : (performance.now() - began) / (PLAY_SECONDS * 1000);
    go(Math.min(1, next));
    if (next >= 1) return pause();
    timer = setTimeout(tick, few ? FEW_FRAME : FRAME);
  }
  function step(/** @type {number} */ by) {
    pause();
    const last = rows() - 1;
    go(Math.min(last, Math.max(0, Math.round(at() * last) + by)) / last);
  }
  function show(/** @type {Result} */ { step: steps, unit = "step" }, /** @type {number} */ row) {
    position.max = String(steps.length - 1);
    position.value = String(row);
    clock.textContent = `${unit} ${format(steps[row])}`;
    position.setAttribute("aria-valuetext", clock.textContent);
  }
  const back = button("−", () => step(-1), { "aria-label": "one step back" });
  const on = button("+", () => step(1), { "aria-label": "one step on" });
  return { element: bar(play, back, on, position, clock), pause, show, stop: pause };
}

/**
 * A bar for a live run, which begins when the reader presses Play. When a setting changes, a run that
 * was going begins again, and one that was paused goes back to its start.
 * @param {{ live: Definition["live"], state: Settings,
 *   report: (result: LiveResult | null) => void }} explorer
 */
export function liveBar({ live, state, report }) {
  /** @type {Job | null} */
  let job = null;
  /** @type {LiveResult | null} */
  let last = null;
  /** @type {number | undefined} */
  let timer;
  let isGoing = false, number = 0;
  const clock = makeClock();
  const play = button("Play", () => (isGoing ? pause() : start()));
  function label() {
    play.textContent = isGoing ? "Pause" : "Play";
  }
  function begin() {
    job?.stop();
    last = null;
    const mine = ++number;
    job = live(state, (result) => {
      if (mine !== number) return; // a run that was stopped may still report
      last = result;
      if (result.done) isGoing = false;
      clock.textContent = result.clock ?? "";
      label();
      report(result);
    });
  }
  function start() {
    if (!job || last?.done) begin();
    isGoing = true;
    job.pause(false);
    label();
  }
  function pause() {
    clearTimeout(timer);
    isGoing = false;
    job?.pause(true);
    label();
  }
  function step() {
    pause();
    if (!job || last?.done) begin();
    job.step();
  }
  /** Forgets the run, since its settings have changed. A drag passes many settings before it rests. */
  function restart() {
    clearTimeout(timer);
    job?.stop();
    number++;
    job = last = null;
    clock.textContent = "";
    report(null);
    if (isGoing) timer = setTimeout(start, AFTER_DRAG);
  }
  function stop() {
    clearTimeout(timer);
    job?.stop();
  }
  const on = button("+", step, { "aria-label": "one step on" });
  return { element: bar(play, on, clock), pause, restart, show() {}, stop };
}
