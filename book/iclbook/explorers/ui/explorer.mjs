// What all explorers share: controls, state, pictures, links, export, and the text that is announced.
//
//   explorer({ name, compute(state, data) → result, show(result, state, row) → { panels, summary, note, ends, offers } })
//
// `result.step` (if there) are the recorded steps; then there is a time bar, and `row` is where it stands.
// `result.edge` has settings past which words warn ({ lr: 2.9 }), and `show` may say how it went: `ends` ([{ name, value }]).
// A control of what is looked at (`view`, and the time) computes nothing anew; `offers` says how many of a choice's options there are.
// `fits(state)` are the points moved by hand ({ moved: […] }) that are there at these settings; `which` may say them in words.
// `effort(state)` are a run's multiply-adds: more than HEAVY are done in a worker, away from the page's thread (worker.mjs).
// `finite(state) → { overlay, note }` is a run that is asked for; with a kernel it is asked. Modules export both by these names.
// `live(state, report)` instead of `compute` runs on and reports results (timebar.mjs).
// A model has get, set, on, off, save_changes; one with `send` has a kernel behind it.

import { inWorker } from "./worker.mjs";
import { draw } from "./chart.mjs";
import { compare } from "./compare.mjs";
import { button, control, make, unique } from "./controls.mjs";
import { downloadCsv } from "./csv.mjs";
import { handles } from "./handles.mjs";
import { guess, presets } from "./guide.mjs";
import { decode, encode, hold } from "./links.mjs";
import { readout } from "./readout.mjs";
import { liveBar, reducedMotion, timeBar } from "./timebar.mjs";

const QUIET = 400, STILL = 800, HEAVY = 5e6;

export function explorer(
  { name, compute, live, show, finite, fits = () => ({}), effort = () => 0, data = () => null },
) {
  return ({ model, el }) => {
    const controls = model.get("controls"), title = model.get("title");
    const id = model.get("place") ?? name, kernel = typeof model.send === "function";
    const first = Object.fromEntries(controls.map((each) => [each.key, each.value]));
    const state = Object.fromEntries(controls.map(({ key }) => [key, model.get(key)]));
    const lead = model.get("lead") ?? []; // the controls of an explorer that is small at first
    const specOf = (key) => controls.find((each) => each.key === key),
      looksAt = (key) => key === "at" || specOf(key).view;
    const own = (of) => ({ ...of, at: state.at, ...fits(of) }); // the settings of what is drawn, and where the time stands
    const extra = data(model), number = unique(), pictures = [];
    let result = null,
      seen = state,
      drawing = null,
      overlay = [],
      width = 0,
      unit = 1,
      frame = 0,
      waiting = null,
      ended = false;
    let shown = lead.length ? lead : null, small = lead.length > 0; // controls that are to be seen, null: all
    let home = first; // what Reset returns to; with a link that leaves some of the controls, what it set
    const lesson = () => shown !== null && shown !== lead;
    // would set what such a link hides
    const hides = (settings) =>
      lesson() && Object.entries({ ...first, ...settings })
        .some(([key, value]) =>
          key !== "at" && !shown.includes(key) && String(value) !== String(home[key])
        );

    // ---- what is there to see
    const notice = make("p", { class: "ex-notice", role: "status", hidden: true });
    const say = (words) => {
      notice.textContent = words;
      notice.hidden = !words;
    };
    const copied = make("p", { class: "ex-copied", role: "status" }),
      tell = (words) => {
        copied.textContent = words;
      };
    const summary = make("p", {
      class: "ex-summary",
      id: `ex-summary-${number}`,
      "aria-live": "polite",
    });
    const stage = make("div", {
      class: "ex-panels",
      role: "group",
      "aria-label": "pictures",
      "aria-describedby": summary.id,
    });
    const inputs = new Map(
      controls.filter(({ key }) => key !== "at")
        .map((spec) => [spec.key, control(spec, (value) => change(spec.key, value), say)]),
    );
    const isBars = (each) => each.classList.contains("ex-spectrum");
    const elements = [...inputs.values()].map((each) => each.element);
    const shelf = make(
      "div",
      { class: "ex-controls" },
      ...elements.filter(isBars),
      make("div", { class: "ex-rest" }, ...elements.filter((each) => !isBars(each))),
    );
    const time = live
      ? liveBar({
        live,
        state,
        report: (next) => {
          result = next;
          refresh(false);
        },
      })
      : "at" in state
      ? timeBar({
        at: () => state.at,
        go: (at) => change("at", at),
        rows: () => result.step.length,
      })
      : null;
    const far = compute && inWorker("compute", extra, (found, of) => {
      if (found) [result, seen] = [found, of];
      refresh(!found);
    });
    const long = finite && inWorker("finite", null, (found) => hear(found ?? finite(state)));
    const tries = compare({
      controls,
      state: () => own(seen),
      drawing: () => drawing,
      restore: assume,
      changed: () => refresh(false),
    });
    const guides = [guess, presets].map((each) =>
      each(
        {
          ask: model.get("guess"),
          list: model.get("presets") ?? [],
          first,
          state,
          hides,
          assume: turn,
        },
      )
    );
    const run = (kernel ? model.get("finite") : finite)
      ? button("Run on finite data", ask, { class: "ex-run" })
      : "";
    const fold = button("", () => {
      shown = shown ? null : lead;
      unfold();
    }, { class: "ex-fold" });
    const more = button("", () => {
      small = !small;
      unfold();
    }, { class: "ex-fold" });
    const actions = make(
      "div",
      { class: "ex-actions" },
      run,
      ...tries.buttons,
      button("Reset", reset),
      ...(kernel ? [] : [button("Copy link", () => copy()), choosing()]),
      button("Download CSV", save),
    );
    // until a run is asked for, the picture that Python drew of one stands there too
    const still = live && el.querySelector("img");
    const waits = make(
      "figure",
      { class: "ex-still" },
      make("div", { tabindex: 0, role: "group", "aria-label": "a recorded run" }, still || ""),
      make("figcaption", {}, "Recorded in Python at the settings this explorer begins with."),
    );
    const ruler = make("div", { class: "ex-ruler" });
    const root = make(
      "section",
      { class: "ex", "aria-label": title, "data-explorer": id },
      ruler,
      notice,
      guides[0].element,
      guides[1].element,
      shelf,
      fold,
      ...(time ? [time.element] : []),
      guides[1].look,
      stage,
      waits,
      more,
      summary,
      tries.element,
      actions,
      copied,
    );

    // ---- state
    function change(key, value) {
      // a run that leaves at its first step has no other place in time
      if (String(state[key]) === String(value) || Number.isNaN(value)) return;
      state[key] = value;
      model.set(key, value);
      model.save_changes();
      if (!looksAt(key)) part();
      refresh(!looksAt(key));
    }
    // a run on finite data is of the settings it was asked for
    function part() {
      overlay = [];
      if (long?.waits()) hear({});
      long?.stop();
    }
    function assume(next) {
      for (const [key, value] of Object.entries(next)) {
        state[key] = value;
        model.set(key, value);
      }
      model.save_changes();
      part();
      display();
      unfold();
      refresh(true);
    }
    // What is drawn stays beside what a preset or a link in the words sets, if nothing is pinned yet.
    function turn(next) {
      if (drawing && (!live || result?.done)) tries.keep(next);
      assume(next);
    }
    function display() {
      for (const [key, input] of inputs) input.show(state[key]);
    }
    function reset() {
      time?.pause();
      say("");
      assume(home);
    }
    // The cursor of a picture is moved: the time, or a control, to what is there on its axis.
    function move(key, x, by = 0) {
      if (key === "at") {
        const { step } = result, last = step.length - 1, now = Math.round(state.at * last);
        time.pause();
        let row = step.reduce(
          (best, each, i) => (Math.abs(each - x) < Math.abs(step[best] - x) ? i : best),
          0,
        );
        if (row === now) row = Math.min(last, Math.max(0, row + by));
        return change("at", row / last);
      }
      const stays = specOf(key).type === "whole" && Math.round(x) === state[key];
      put({ [key]: stays ? state[key] + by : x });
    }
    // What is moved in a picture sets controls, each to what it takes; what they were is returned.
    function put(next) {
      const before = Object.fromEntries(Object.keys(next).map((key) => [key, state[key]]));
      for (const [key, given] of Object.entries(next)) {
        const spec = specOf(key), digits = spec.log ? 2 : 3;
        const value = hold(spec, spec.type === "real" ? Number(given.toPrecision(digits)) : given);
        inputs.get(key).show(value);
        change(key, value);
      }
      return before;
    }
    // What a link shows is all that is shown; of an explorer that is small at first, what was set elsewhere too.
    function unfold() {
      const set = (key) => shown === lead && String(state[key]) !== String(first[key]);
      for (const [key, input] of inputs) {
        input.element.hidden = shown !== null && !shown.includes(key) && !set(key);
      }
      fold.hidden = !lead.length || lesson();
      for (
        const [each, few, what] of [[fold, shown !== null, "settings"], [more, small, "pictures"]]
      ) {
        each.textContent = `${few ? "All" : "Fewer"} ${what}`;
        each.setAttribute("aria-expanded", !few);
      }
      refresh(false);
    }

    // ---- drawing: at most once a frame
    let stale = true;
    function refresh(recompute) {
      stale ||= recompute;
      if (!frame) frame = requestAnimationFrame(redraw);
    }
    let rested = 0;
    function redraw() {
      frame = 0;
      if (ended || !width) return;
      if (
        live && reducedMotion() && result && !result.done && !stale &&
        performance.now() - rested < STILL
      ) return;
      rested = performance.now();
      const from = performance.now();
      if (stale && compute && !(result && effort(state) > HEAVY && far.ask(state))) {
        far.forget();
        [result, seen] = [compute(state, extra), { ...state }];
      }
      if (stale && live) time.restart();
      const asks = stale;
      stale = false;
      stage.setAttribute("aria-busy", Boolean(far?.waits()));
      if (asks && far?.waits()) return; // what is there stays until the answer comes
      waits.hidden = !live || Boolean(result) || !still;
      if (result || live) present();
      stage.getBoundingClientRect(); // layout belongs to what is measured
      const mark = `explorer ${id}`;
      performance.clearMeasures(mark); // whoever measures observes; kept, they would be as many as redraws
      performance.measure(mark, { start: from });
    }
    function present() {
      const row = result?.step && "at" in state
        ? Math.round(state.at * (result.step.length - 1))
        : null;
      drawing = show(result, live ? state : { ...seen, at: state.at }, row);
      for (const { panel, ...series } of overlay) drawing.panels[panel].series.push(series);
      for (const panel of drawing.panels) {
        if (row !== null && panel.cursor === result.step[row]) panel.moves ??= "at";
      }
      tries.add(drawing);
      for (const [key, input] of inputs) input.mark?.(result?.edge?.[key] ?? null);
      for (const [key, most] of Object.entries(drawing.offers ?? {})) inputs.get(key).offer(most);
      for (const [key, value] of Object.entries(fits(state))) {
        inputs.get(key).show(value, drawing.which?.[key]);
      }
      const seenAtFirst = drawing.panels[0].wide ? 1 : 2; // what is seen of one that is small at first
      more.hidden = !lead.length || drawing.panels.length <= seenAtFirst;
      while (pictures.length < drawing.panels.length) pictures.push(makePicture());
      const wide = width / unit, columns = wide < 620 ? 1 : 2;
      stage.style.setProperty("--columns", columns);
      pictures.forEach((picture, i) => {
        const panel = drawing.panels[i];
        picture.figure.hidden = !panel || (small && i >= seenAtFirst);
        if (!panel) return;
        if (picture.caption.textContent !== panel.title) picture.caption.textContent = panel.title;
        // one that would stand alone in its row has the row
        const whole = columns === 2 &&
          (panel.wide ||
            (i % 2 === 0 && i === drawing.panels.length - 1 && !drawing.panels[0].wide));
        picture.figure.classList.toggle("ex-wide", Boolean(whole));
        const size = whole || columns === 1 ? wide : (wide - 20 / unit) / 2;
        const place = draw(picture.svg, panel, size, `ex-clip-${number}-${i}`, unit);
        Object.assign(picture, { panel, place, unit, width: size });
      });
      looks.after();
      held.after();
      if (row !== null) time.show(result, row);
      if (!far?.waits()) { for (const each of guides) each.show(!live || Boolean(result?.done)); }
      root.classList.toggle("ex-left", Boolean(drawing.note));
      // after a drag the last words, of a run that goes on some words now and then
      if (!live) clearTimeout(waiting);
      if (!live || !waiting) waiting = setTimeout(announce, live ? 2 * QUIET : QUIET);
      if (!summary.textContent) announce();
    }
    function makePicture() {
      const caption = make("figcaption"),
        svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
      const values = make("div", { class: "ex-values", hidden: true, "aria-hidden": "true" });
      const frame = make("div", { class: "ex-frame" }, svg, values),
        figure = make("figure", {}, caption, frame);
      stage.append(figure);
      return { figure, caption, svg, values, frame, hands: [] };
    }
    const held = handles({ root, stage, pictures, put }),
      looks = readout({ root, pictures, move, aim: held.aim });
    const announce = () => {
      clearTimeout(waiting);
      waiting = null;
      if (ended || !drawing) return;
      summary.textContent = [drawing.note, drawing.summary].filter(Boolean).join(" ");
      tries.tell();
    };

    // ---- out of the page
    async function copy(keys = null) {
      const kept = lesson() ? shown : lead.length && (shown === null || !small) ? ["all"] : null;
      const link = location.href.split("#")[0] + encode(id, controls, own(state), keys ?? kept);
      history.replaceState(history.state, "", link); // what is seen is there again after a reload
      try {
        await navigator.clipboard.writeText(link);
        tell("The link is copied.");
      } catch {
        tell(`The link: ${link}`);
      }
    }
    // a teacher's link, with some of the controls
    function choosing() {
      const boxes = [...inputs.keys()].map((
        key,
      ) => [key, make("input", { type: "checkbox", "aria-label": `show ${specOf(key).label}` })]);
      const label = ([key, box]) => make("label", {}, box, specOf(key).label);
      const chosen = () => boxes.filter(([, box]) => box.checked).map(([key]) => key);
      return make(
        "details",
        { class: "ex-lesson" },
        make("summary", {}, "Link with fewer controls"),
        make(
          "div",
          { role: "group", "aria-label": "controls that the link shows" },
          ...boxes.map(label),
          button(
            "Copy this link",
            () => (chosen().length
              ? copy(chosen())
              : tell("Choose the controls that the link shows.")),
          ),
        ),
      );
    }
    function save() {
      downloadCsv({
        name: id,
        title,
        controls,
        state: own(seen),
        pinned: tries.pinned(),
        panels: drawing.panels,
      });
    }

    // ---- a run on finite data, here or in the kernel
    function ask() {
      run.disabled = true;
      say("Training on finite data …");
      if (kernel) model.send({ run: true });
      else if (!long.ask(state)) setTimeout(() => hear(finite(state)), 30); // the words above are painted before
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
      if (!looksAt(key)) part();
      refresh(!looksAt(key));
    }]);
    for (const [event, handler] of heard) model.on(event, handler);
    if (run && kernel) model.on("msg:custom", hear);

    // ---- links: the one that the page was opened with, and those in its text
    function follow() {
      const { state: given, shown: only, unfolded, wrong, note } = decode(
        location.hash,
        id,
        controls,
      );
      if (wrong) {
        say(`${wrong}: here are the explorer's own settings.`);
        assume(first);
      }
      if (given) {
        say(note);
        if (only || unfolded) {
          [shown, small, home] = [only, lead.length > 0 && !unfolded, only ? given : first];
        }
        unfold();
        time?.pause();
        turn(given);
        root.scrollIntoView({ block: "nearest" });
      }
    }
    // one that was followed before is in the address already, and changes nothing there
    const again = (event) => {
      const link = event.target.closest?.("a[href^='#']");
      if (link && link.getAttribute("href") === location.hash) follow();
    };
    display();
    unfold();
    el.replaceChildren(root);
    if (!kernel) {
      follow();
      addEventListener("hashchange", follow);
      document.addEventListener("click", again);
    }
    // What is watched keeps its size when the pictures come, or browsers report a loop.
    const observer = new ResizeObserver(() => {
      const space = Math.floor(root.clientWidth);
      const size = parseFloat(getComputedStyle(root).fontSize) / 14;
      if ((space === width && size === unit) || !space) return;
      const begins = !width;
      [width, unit] = [space, size];
      if (begins) redraw();
      else refresh(false);
    });
    observer.observe(ruler);
    return () => {
      ended = true;
      time?.pause();
      time?.stop?.();
      far?.stop();
      long?.stop();
      observer.disconnect();
      removeEventListener("hashchange", follow);
      document.removeEventListener("click", again);
      for (const [event, handler] of heard) model.off(event, handler);
      if (run && kernel) model.off("msg:custom", hear);
    };
  };
}
