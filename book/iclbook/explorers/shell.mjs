// What all explorers share: controls, state, time, links, export, and the text that is announced.
//
//   explorer({ name, compute(state, data) → result, show(result, state, row) → { panels, summary, note } })
//
// `result.step` (if there) are the recorded steps; then there is a time bar, and `row` is where it
// stands. `live(state, report)` instead of `compute` runs on and reports results; it returns { stop, pause }.
// A model has get, set, on, off, save_changes; one with `send` has a kernel behind it.

import { draw, format, rows } from "./chart.mjs";
import { control, make, unique } from "./controls.mjs";
import { decode, encode } from "./link.mjs";

const PLAY_SECONDS = 9, STILLS = 12, QUIET = 400;

export function explorer({ name, compute, live, show, data = () => null }) {
  return ({ model, el }) => {
    const controls = model.get("controls"), title = model.get("title");
    const id = model.get("place") ?? name, kernel = typeof model.send === "function";
    const first = Object.fromEntries(controls.map((each) => [each.key, each.value]));
    const state = Object.fromEntries(controls.map(({ key }) => [key, model.get(key)]));
    const extra = data(model), number = unique(), panels = [];
    let result = null, drawing = null, overlay = [], width = 0, frame = 0, waiting = null, ended = false;

    // ---- what is there to see
    const notice = make("p", { class: "ex-notice", role: "status", hidden: true });
    const say = (words) => { notice.textContent = words; notice.hidden = !words; };
    const summary = make("p", { class: "ex-summary", "aria-live": "polite" });
    const stage = make("div", { class: "ex-panels" });
    const inputs = new Map(controls.filter(({ key }) => key !== "at")
      .map((spec) => [spec.key, control(spec, (value) => change(spec.key, value))]));
    const isBars = (each) => each.classList.contains("ex-spectrum");
    const elements = [...inputs.values()].map((each) => each.element);
    const shelf = make("div", { class: "ex-controls" }, ...elements.filter(isBars),
      make("div", { class: "ex-rest" }, ...elements.filter((each) => !isBars(each))));
    const button = (label, click, attributes = {}) => make("button", { type: "button", click, ...attributes }, label);
    const actions = make("div", { class: "ex-actions" }, button("Reset", reset));
    if (!kernel) actions.append(button("Copy link", copy));
    actions.append(button("Download CSV", download));
    const run = kernel && model.get("finite") ? button("Run on finite data", ask, { class: "ex-run" }) : null;
    if (run) actions.prepend(run);
    const timeBar = "at" in state || live ? makeTime() : null;
    const root = make("section", { class: "ex", "aria-label": title, "data-explorer": id },
      notice, shelf, stage, ...(timeBar ? [timeBar.element] : []), summary, actions);

    // ---- state
    function change(key, value) {
      if (String(state[key]) === String(value)) return;
      state[key] = value;
      model.set(key, value);
      model.save_changes();
      if (key !== "at") overlay = [];
      refresh(key !== "at");
    }
    function assume(next) {
      for (const [key, value] of Object.entries(next)) {
        state[key] = value;
        model.set(key, value);
      }
      model.save_changes();
      overlay = [];
      display();
      refresh(true);
    }
    function display() {
      for (const [key, input] of inputs) input.show(state[key]);
    }
    function reset() {
      timeBar?.pause();
      say("");
      assume(first);
    }

    // ---- drawing: at most once a frame
    let stale = true;
    function refresh(recompute) {
      stale ||= recompute;
      if (!frame) frame = requestAnimationFrame(redraw);
    }
    function redraw() {
      frame = 0;
      if (ended || !width) return;
      const from = performance.now();
      if (stale && compute) result = compute(state, extra);
      if (stale && live) restart();
      stale = false;
      if (result) present();
      stage.getBoundingClientRect();  // layout belongs to what is measured
      performance.measure(`explorer ${id}`, { start: from });
    }
    function present() {
      const row = result.step && "at" in state ? Math.round(state.at * (result.step.length - 1)) : null;
      drawing = show(result, state, row);
      for (const { panel, ...series } of overlay) drawing.panels[panel].series.push(series);
      while (panels.length < drawing.panels.length) panels.push(makePanel(panels.length));
      const columns = width < 620 ? 1 : 2;
      stage.style.setProperty("--columns", columns);
      drawing.panels.forEach((panel, i) => {
        panels[i].caption.textContent = panel.title;
        const wide = panel.wide && columns === 2;
        panels[i].figure.classList.toggle("ex-wide", Boolean(wide));
        draw(panels[i].svg, panel, wide || columns === 1 ? width : (width - 20) / 2, `ex-clip-${number}-${i}`);
      });
      timeBar?.show(row);
      root.classList.toggle("ex-left", Boolean(drawing.note));
      // after a drag the last words, of a run that goes on some words now and then
      if (!live) clearTimeout(waiting);
      if (!live || !waiting) waiting = setTimeout(announce, live ? 2 * QUIET : QUIET);
      if (!summary.textContent) announce();
    }
    const announce = () => {
      clearTimeout(waiting);
      waiting = null;
      if (ended || !drawing) return;
      summary.textContent = [drawing.note, drawing.summary].filter(Boolean).join(" ");
    };
    function makePanel() {
      const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      svg.setAttribute("role", "img");
      const caption = make("figcaption");
      const figure = make("figure", {}, caption, svg);
      stage.append(figure);
      return { figure, caption, svg };
    }

    // ---- time
    function makeTime() {
      let timer = null, began = 0;
      const still = matchMedia("(prefers-reduced-motion: reduce)");
      const position = make("input", {
        type: "range", min: 0, step: 1, "aria-label": "time", "data-lm-suppress-shortcuts": "true",
        input: () => { pause(); change("at", position.valueAsNumber / position.max); },
      });
      const clock = make("output", { class: "ex-clock" });
      const play = button("Play", () => (timer ? pause() : start()));
      const back = button("−", () => step(-1), { "aria-label": "one step back" });
      const forth = button("+", () => step(1), { "aria-label": "one step on" });
      const label = () => { play.textContent = timer ? "Pause" : "Play"; };
      function pause() {
        clearTimeout(timer);
        timer = null;
        job?.pause(true);
        label();
      }
      function start() {
        timer = setTimeout(tick, 0);
        label();
        if (live) return job?.pause(false);
        if (state.at >= 1) change("at", 0);
        began = performance.now() - state.at * PLAY_SECONDS * 1000;
      }
      function tick() {
        if (live) return;
        const at = still.matches ? state.at + 1 / STILLS : (performance.now() - began) / (PLAY_SECONDS * 1000);
        change("at", Math.min(1, at));
        if (at >= 1) return pause();
        timer = setTimeout(tick, still.matches ? 800 : 30);
      }
      function step(by) {
        pause();
        if (live) return job?.step();
        const last = result.step.length - 1;
        const row = Math.min(last, Math.max(0, Math.round(state.at * last) + by));
        change("at", row / last);
      }
      const shown = (row) => {
        if (row !== null) {
          position.max = result.step.length - 1;
          position.value = row;
          clock.textContent = `${result.unit ?? "step"} ${format(result.step[row])}`;
        } else clock.textContent = result.clock ?? "";
        position.setAttribute("aria-valuetext", clock.textContent);
        if (live && result.done) pause();
      };
      const parts = live ? [play, forth, clock] : [play, back, forth, position, clock];
      return { element: make("div", { class: "ex-time", role: "group", "aria-label": "time" }, ...parts), show: shown, pause, start };
    }

    // ---- runs that go on
    let job = null;
    let begun = false, soon = null;
    function restart() {
      job?.stop();
      clearTimeout(soon);
      const report = (next) => { result = next; refresh(false); };
      // a drag passes many settings: only the one where it rests is worth a run
      soon = setTimeout(() => {
        job = live(state, report);
        if (begun) timeBar.start();
        begun = true;
      }, result ? 150 : 0);
    }

    // ---- out of the page
    async function copy() {
      const link = location.href.split("#")[0] + encode(id, controls, state);
      try {
        await navigator.clipboard.writeText(link);
        say("The link is copied.");
      } catch {
        say(`The link: ${link}`);
      }
    }
    function download() {
      const quote = (each) => (/[",\n]/.test(each) ? `"${String(each).replaceAll('"', '""')}"` : each);
      const settings = controls.map(({ key }) => `# ${key}: ${JSON.stringify(state[key])}`);
      const table = [["panel", "series", "x", "y"], ...drawing.panels.flatMap(rows)];
      const text = [`# ${title}`, ...settings, ...table.map((row) => row.map(quote).join(","))].join("\n");
      const link = make("a", { download: `${id}.csv`, href: URL.createObjectURL(new Blob([text, "\n"], { type: "text/csv" })) });
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    }

    // ---- the kernel's part
    function ask() {
      run.disabled = true;
      say("Training on finite data …");
      model.send({ run: true });
    }
    function hear(message) {
      run.disabled = false;
      say(message.note ?? "");
      if (!message.overlay) return;
      overlay = message.overlay;
      refresh(false);
    }
    const heard = controls.map(({ key }) => [`change:${key}`, () => {
      if (String(model.get(key)) === String(state[key])) return;
      state[key] = model.get(key);
      inputs.get(key)?.show(state[key]);
      overlay = [];
      refresh(key !== "at");
    }]);
    for (const [event, handler] of heard) model.on(event, handler);
    if (run) model.on("msg:custom", hear);

    // ---- the link that the page was opened with
    function follow() {
      const { state: given, wrong } = decode(location.hash, id, controls);
      if (wrong) {
        say(`${wrong}: here are the explorer's own settings.`);
        assume(first);
      }
      if (given) {
        say("");
        assume(given);
        root.scrollIntoView({ block: "start" });
      }
    }
    display();
    el.replaceChildren(root);
    if (!kernel) {
      follow();
      addEventListener("hashchange", follow);
    }
    const observer = new ResizeObserver(() => {
      const wide = Math.floor(stage.clientWidth);
      if (wide === width || !wide) return;
      const begins = !width;
      width = wide;
      if (begins) redraw();
      else refresh(false);
    });
    observer.observe(stage);
    return () => {
      ended = true;
      timeBar?.pause();
      job?.stop();
      observer.disconnect();
      removeEventListener("hashchange", follow);
      for (const [event, handler] of heard) model.off(event, handler);
      if (run) model.off("msg:custom", hear);
    };
  };
}
