// @ts-check
// Puts an explorer together from its module: controls, time bar, pictures, links, and words.
//
// A module ends with `export const render = explorer({ name, compute, show });`. types.d.ts says what
// these and the optional functions take and return. Whatever a worker calls is exported by its name.

import { compare } from "./compare.mjs";
import { control } from "./controls.mjs";
import { downloadCsv } from "./csv.mjs";
import { button, make, unique } from "./dom.mjs";
import { createPictures } from "./drawing.mjs";
import { createFiniteRun } from "./finite.mjs";
import { createFolding } from "./folding.mjs";
import { guess, presets } from "./guide.mjs";
import { encode, followLinks, linkButtons } from "./links.mjs";
import { createState } from "./state.mjs";
import { liveBar, reducedMotion, timeBar } from "./timebar.mjs";
import { inWorker } from "./worker.mjs";

/** @import { Control, Definition, Drawing, Input, Link, Model, Result, Settings } from "../types.d.ts" */

const QUIET = 400; // ms without a change before the summary is announced
const STILL = 800; // ms between two pictures of a live run for readers who want less motion
const HEAVY = 5e6; // multiply-adds; a worker computes longer runs

/**
 * Returns what a widget calls to show an explorer in `el`. That returns how to take it away again.
 * @param {Definition} definition
 */
export function explorer(definition) {
  return (/** @type {{ model: Model, el: HTMLElement }} */ { model, el }) => {
    const shown = new Explorer(definition, model, el);
    return () => shown.stop();
  };
}

class Explorer {
  /** @type {Result | null} */
  result = null;
  /** @type {Drawing | null} What `show` made of the result. */
  drawing = null;
  /** The pixels of its width, and of one unit of its pictures. */
  width = 0;
  unit = 1;
  isStale = true; // whether the result is of other settings
  isStopped = false;
  frame = 0; // the animation frame that was asked for
  drawnAt = 0;
  announcement = null; // the timer

  /** @param {Definition} definition @param {Model} model @param {HTMLElement} el */
  constructor(definition, model, el) {
    const { name, points, fits = () => ({}), data = () => null } = definition;
    this.definition = definition;
    this.model = model;
    this.fits = fits;
    this.data = data(model);
    /** @type {Control[]} */
    this.controls = model.get("controls").map((each) =>
      each.type === "points" ? { ...each, ...points } : each
    );
    // Two explorers of one kind on a page have different names.
    this.id = model.get("place") ?? name;
    this.number = unique();
    this.state = createState(model, this.controls, {
      changed: (recompute) => this.settingsChanged(recompute),
      show: (key) => this.inputs.get(key)?.show(this.state.values[key]),
    });
    /** The settings of the result. */
    this.computed = this.state.values;
    this.makeParts();
    this.makeElements(el);
    this.pictures = createPictures({
      root: this.root,
      stage: this.stage,
      number: this.number,
      drag: this.state.drag,
      move: (key, x, by) => this.moveCursor(key, x, by),
    });
    for (const key of this.inputs.keys()) this.inputs.get(key).show(this.state.values[key]);
    this.folding.update();
    el.replaceChildren(this.root);
    this.stopLinks = model.send
      ? () => {}
      : followLinks(this.id, this.controls, (link) => this.openLink(link));
    this.observer = new ResizeObserver(() => this.measure());
    this.observer.observe(this.ruler);
  }

  /** What has a state of its own: controls, time bar, workers, pinned curves and guides. */
  makeParts() {
    const { definition, model, controls } = this, { initial, values, set } = this.state;
    const refresh = () => this.refresh(false);
    this.notice = make("p", { class: "ex-notice", role: "status", hidden: true });
    const say = (words) => this.say(words);
    /** @type {Map<string, Input>} */
    this.inputs = new Map(
      controls.filter(({ key }) => key !== "at")
        .map((spec) => [spec.key, control(spec, (value) => set(spec.key, value), say)]),
    );
    const { inputs } = this, first = model.get("lead") ?? [];
    this.folding = createFolding({ first, initial, values, inputs, changed: refresh });
    this.time = this.makeTimeBar();
    this.worker = definition.compute
      ? inWorker("compute", this.data, (found, settings) => {
        if (found) [this.result, this.computed] = [found, settings];
        this.refresh(!found);
      })
      : null;
    const { finite } = definition;
    this.finiteRun = createFiniteRun({ model, finite, values, say, changed: refresh });
    this.pins = compare({
      controls,
      state: () => this.drawnSettings(),
      drawing: () => this.drawing,
      restore: (settings) => this.setAll(settings),
      changed: refresh,
    });
    const { hides } = this.folding, apply = (settings) => this.tryOut(settings);
    const list = model.get("presets") ?? [], ask = model.get("guess");
    this.guess = guess({ ask, initial, state: values, hides, apply });
    this.presets = presets({ list, initial, state: values, hides, apply });
  }

  makeTimeBar() {
    const { live } = this.definition, { values, set } = this.state;
    const report = (result) => {
      this.result = result;
      this.refresh(false);
    };
    if (live) return liveBar({ live, state: values, report });
    if (!("at" in values)) return null;
    const go = (at) => set("at", at);
    return timeBar({ at: () => values.at, go, rows: () => this.result.step.length });
  }

  makeElements(/** @type {HTMLElement} */ el) {
    const { folding, time, pins } = this;
    this.ruler = make("div", { class: "ex-ruler" });
    const id = `ex-summary-${this.number}`;
    this.summary = make("p", { class: "ex-summary", id, "aria-live": "polite" });
    const stage = { role: "group", "aria-label": "pictures", "aria-describedby": id };
    this.stage = make("div", { class: "ex-panels", ...stage });
    const inputs = [...this.inputs.values()].map(({ element }) => element);
    const isSpectrum = (each) => each.classList.contains("ex-spectrum");
    const others = inputs.filter((each) => !isSpectrum(each));
    const rest = make("div", { class: "ex-rest" }, ...others);
    const shelf = make("div", { class: "ex-controls" }, ...inputs.filter(isSpectrum), rest);
    const links = linkButtons(
      this.controls.filter(({ key }) => key !== "at"),
      (keys) => this.link(keys),
    );
    const actions = make(
      "div",
      { class: "ex-actions" },
      this.finiteRun.button ?? "",
      ...pins.buttons,
      button("Reset", () => this.reset()),
      ...(this.model.send ? [] : links.elements),
      button("Download CSV", () => this.save()),
    );
    this.recorded = this.makeRecorded(el);
    this.root = make(
      "section",
      { class: "ex", "aria-label": this.model.get("title"), "data-explorer": this.id },
      ...[this.ruler, this.notice, this.guess.element, this.presets.element, shelf],
      ...[folding.foldControls, time?.element ?? "", this.presets.look, this.stage],
      ...[this.recorded, folding.foldPictures, this.summary, pins.element, actions, links.status],
    );
  }

  /** The picture that Python drew, which stands for a live run until the reader asks for one. */
  makeRecorded(/** @type {HTMLElement} */ el) {
    this.still = this.definition.live && el.querySelector("img");
    const group = { tabindex: 0, role: "group", "aria-label": "a recorded run" };
    const words = "Recorded in Python at the settings this explorer begins with.";
    const frame = make("div", group, this.still || "");
    return make("figure", { class: "ex-still" }, frame, make("figcaption", {}, words));
  }

  // ---- settings

  settingsChanged(/** @type {boolean} */ recompute) {
    if (recompute) this.finiteRun.clear();
    this.refresh(recompute);
  }

  setAll(/** @type {Settings} */ settings) {
    this.state.setAll(settings);
    this.folding.update();
  }

  /** Sets what a preset, a guess or a link asks for. What was drawn stays beside it, pinned. */
  tryOut(/** @type {Settings} */ settings) {
    if (this.drawing && (!this.definition.live || this.result?.done)) this.pins.keep(settings);
    this.setAll(settings);
  }

  reset() {
    this.time?.pause();
    this.say("");
    this.setAll(this.folding.start());
  }

  /** Moves what the cursor of a picture stands for to x, or, if that is no move, one on or back. */
  moveCursor(/** @type {string} */ key, /** @type {number} */ x, by = 0) {
    const { values, set, drag } = this.state;
    if (key === "at") {
      const { step } = this.result, last = step.length - 1, now = Math.round(values.at * last);
      this.time.pause();
      let row = 0;
      step.forEach((each, i) => {
        if (Math.abs(each - x) < Math.abs(step[row] - x)) row = i;
      });
      if (row === now) row = Math.min(last, Math.max(0, row + by));
      return set("at", row / last);
    }
    const stays = this.state.control(key).type === "whole" && Math.round(x) === values[key];
    drag({ [key]: stays ? values[key] + by : x });
  }

  /** The settings of what is drawn, and where the time stands. */
  drawnSettings() {
    return { ...this.computed, at: this.state.values.at, ...this.fits(this.computed) };
  }

  openLink(/** @type {Link} */ link) {
    const { state, wrong, note } = link;
    if (wrong) {
      this.say(`${wrong}: here are the explorer's own settings.`);
      this.setAll(this.state.initial);
    }
    if (!state) return;
    this.say(note);
    this.folding.open(link);
    this.time?.pause();
    this.tryOut(state);
    this.root.scrollIntoView({ block: "nearest" });
  }

  link(/** @type {string[]} */ keys) {
    const settings = { ...this.state.values, ...this.fits(this.state.values) };
    const shown = keys ?? this.folding.forLink();
    return location.href.split("#")[0] + encode(this.id, this.controls, settings, shown);
  }

  save() {
    downloadCsv({
      name: this.id,
      title: this.model.get("title"),
      controls: this.controls,
      state: this.drawnSettings(),
      pinned: this.pins.pinned(),
      panels: this.drawing.panels,
    });
  }

  // ---- drawing, at most once a frame

  /** Follows the size of the page. It watches the ruler, whose size the pictures do not change. */
  measure() {
    const width = Math.floor(this.root.clientWidth);
    const unit = parseFloat(getComputedStyle(this.root).fontSize) / 14;
    if ((width === this.width && unit === this.unit) || !width) return;
    const isFirst = !this.width;
    [this.width, this.unit] = [width, unit];
    if (isFirst) this.redraw();
    else this.refresh(false);
  }

  refresh(/** @type {boolean} */ recompute) {
    this.isStale ||= recompute;
    if (!this.frame) this.frame = requestAnimationFrame(() => this.redraw());
  }

  redraw() {
    this.frame = 0;
    if (this.isStopped || !this.width || this.rests()) return;
    const start = this.drawnAt = performance.now();
    const wasStale = this.isStale;
    if (wasStale) this.recompute();
    this.isStale = false;
    const isBusy = Boolean(this.worker?.isBusy());
    this.stage.setAttribute("aria-busy", String(isBusy));
    if (wasStale && isBusy) return; // the old pictures stay until the answer comes
    const { live } = this.definition;
    this.recorded.hidden = !live || Boolean(this.result) || !this.still;
    if (this.result || live) this.present();
    this.stage.getBoundingClientRect(); // so that the measure below includes the layout
    const mark = `explorer ${this.id}`;
    performance.clearMeasures(mark); // they would pile up; an observer has seen them already
    performance.measure(mark, { start });
  }

  /** Whether a live run is drawn less often, for readers who want less motion. */
  rests() {
    return this.definition.live && reducedMotion() && this.result && !this.result.done &&
      !this.isStale && performance.now() - this.drawnAt < STILL;
  }

  recompute() {
    const { compute, effort = () => 0 } = this.definition, { values } = this.state;
    if (!compute) return this.time.restart();
    if (this.result && effort(values) > HEAVY && this.worker.ask(values)) return;
    this.worker.forget();
    [this.result, this.computed] = [compute(values, this.data), { ...values }];
  }

  present() {
    const { result, definition: { live, show } } = this, { values } = this.state;
    const hasTime = result?.step && "at" in values;
    const row = hasTime ? Math.round(values.at * (result.step.length - 1)) : null;
    const drawing = show(result, live ? values : { ...this.computed, at: values.at }, row);
    this.drawing = drawing;
    const { panels, note } = drawing;
    for (const { panel, ...series } of this.finiteRun.overlay()) panels[panel].series.push(series);
    for (const panel of panels) {
      if (hasTime && panel.cursor === result.step[row]) panel.moves ??= "at";
    }
    this.pins.add(drawing);
    this.showControls();
    const shown = this.folding.count(panels);
    this.pictures.drawPanels(panels, { width: this.width, unit: this.unit, shown });
    if (hasTime) this.time.show(result, row);
    if (!this.worker?.isBusy()) {
      for (const each of [this.guess, this.presets]) each.show(!live || Boolean(result?.done));
    }
    this.root.classList.toggle("ex-left", Boolean(note));
    this.announceLater();
  }

  /** What the result says about the controls: where the edge of stability is, what can be chosen. */
  showControls() {
    const { edge } = this.result ?? {}, { offers = {}, which } = this.drawing;
    for (const [key, input] of this.inputs) input.mark?.(edge?.[key] ?? null);
    for (const [key, most] of Object.entries(offers)) this.inputs.get(key).offer(most);
    for (const [key, value] of Object.entries(this.fits(this.state.values))) {
      this.inputs.get(key).show(value, which?.[key]);
    }
  }

  // ---- words

  say(/** @type {string} */ words) {
    this.notice.textContent = words;
    this.notice.hidden = !words;
  }

  /** After a drag only the last summary is announced; during a live run one now and then. */
  announceLater() {
    const { live } = this.definition;
    if (!live) clearTimeout(this.announcement);
    if (!live || !this.announcement) {
      this.announcement = setTimeout(() => this.announce(), live ? 2 * QUIET : QUIET);
    }
    if (!this.summary.textContent) this.announce();
  }

  announce() {
    clearTimeout(this.announcement);
    this.announcement = null;
    if (this.isStopped || !this.drawing) return;
    const { note, summary } = this.drawing;
    this.summary.textContent = [note, summary].filter(Boolean).join(" ");
    this.pins.tell();
  }

  stop() {
    this.isStopped = true;
    this.time?.pause();
    this.time?.stop();
    this.worker?.stop();
    this.finiteRun.stop();
    this.observer.disconnect();
    this.stopLinks();
    this.state.stop();
  }
}
