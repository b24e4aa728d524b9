// @ts-check
// Pinned curves, which stay behind the next ones, and a table of what differed and how each run ended.

import { button, make } from "./dom.mjs";
import { count, format } from "./format.mjs";
import { same } from "./values.mjs";

/** @import { Control, Drawing, Panel, Settings } from "../types.d.ts" */
/** @typedef {{ letter: string, state: Settings, ends: Drawing["ends"], panels?: Panel[] }} Pin */

const MOST = 4, LETTERS = "ABCDEFGH";
const SEEDS = ". A seed draws all that is random, the same each time: " +
  "runs with one setting changed start alike.";

/** A setting as the table shows it. */
function words(/** @type {Control} */ { type, names }, value) {
  if (type === "choice") return String(names?.[value] ?? value);
  if (type === "spectrum") return value.map(format).join(", ");
  return type === "points" ? count(value.length / 3, "point") : format(value);
}

/** How a run ended: as the explorer says, or the last point of its first curve. */
function endsOf(/** @type {Pick<Drawing, "ends" | "panels">} */ { ends, panels }) {
  if (ends) return ends;
  const { series } = panels.find((each) => each.series);
  const { name, y } = series.find((each) => !each.dots && !each.dashed && !each.pale) ?? series[0];
  return [{ name: `${name} at the end`, value: y.length ? y[y.length - 1] : null }];
}

function endWords(/** @type {number | string | null} */ value) {
  if (typeof value === "string") return value;
  return Number.isFinite(value) ? format(Number(value.toPrecision(4))) : "–";
}

/** Puts the curves of a pin behind those of a panel, whose axes grow to hold them. */
function addPin(/** @type {Panel} */ panel, /** @type {Panel | undefined} */ pinned, letter) {
  const isSame = panel.series && pinned?.x.label === panel.x.label &&
    pinned.y.label === panel.y.label;
  if (!isSame || !pinned.series.length) return;
  const pale = pinned.series.map((each, i) => ({
    ...each,
    name: `${letter}: ${each.name}`,
    label: i === 0 && letter,
    pale: true,
    tags: [`pinned ${letter}`],
  }));
  panel.series = [...pale, ...panel.series];
  for (const side of /** @type {const} */ (["x", "y"])) {
    const min = Math.min(panel[side].min, pinned[side].min);
    panel[side] = { ...panel[side], min, max: Math.max(panel[side].max, pinned[side].max) };
  }
}

/**
 * `state` and `drawing` give what is drawn; `restore` sets settings, `changed` is called when the
 * pictures are to be drawn again.
 * @param {{ controls: Control[], state: () => Settings, drawing: () => Drawing,
 *   restore: (settings: Settings) => void, changed: () => void }} explorer
 */
export function compare({ controls, state, drawing, restore, changed }) {
  /** @type {Pin[]} */
  let pins = [];
  const table = make("table", { class: "ex-tried" });
  const element = make("div", { class: "ex-tries", hidden: true }, table);
  const settings = controls.filter(({ key }) => key !== "at");
  const seed = settings.find(({ key }) => key === "seed");
  const pinButton = button("Pin", pin, {
    title: "Keep these curves, pale, behind the next ones",
  });
  const buttons = [pinButton];
  if (seed) {
    const title = "Keep these curves, pale, and draw the next start";
    buttons.push(button("Add another seed", addSeed, { title }));
  }

  function pin() {
    const { panels, ends } = drawing();
    const own = panels.map(({ series = [], ...panel }) => ({
      ...panel,
      series: series.filter((each) => !each.pale && !each.dashed),
    }));
    const letter = [...LETTERS].find((each) => pins.every((one) => one.letter !== each));
    pins.push({ letter, state: state(), panels: own, ends: endsOf({ ends, panels: own }) });
    update();
  }
  function addSeed() {
    const now = state();
    pin();
    restore({ ...now, seed: now.seed < seed.max ? now.seed + 1 : seed.min });
  }
  /** Pins what is drawn before other settings come, if nothing is pinned yet. */
  function keep(/** @type {Settings} */ next) {
    const now = state();
    if (!pins.length && settings.some(({ key }) => !same(next[key], now[key]))) pin();
  }
  function remove(/** @type {string} */ letter) {
    pins = pins.filter((each) => each.letter !== letter);
    update();
    pinButton.focus();
  }
  function update() {
    for (const each of buttons) each.disabled = pins.length === MOST;
    changed();
    tell();
  }
  /** Adds the pinned curves to what is about to be drawn. */
  function add(/** @type {Drawing} */ { panels }) {
    for (const pin of pins) {
      panels.forEach((panel, i) => addPin(panel, pin.panels[i], pin.letter));
    }
  }

  function row(/** @type {Pin} */ { letter, state, ends }, /** @type {Control[]} */ differing) {
    const cells = [
      ...differing.map((each) => words(each, state[each.key])),
      ...ends.map(({ value }) => endWords(value)),
    ].map((each) => make("td", {}, each));
    const attributes = (verb) => ({
      "aria-label": `${verb} ${letter}`,
      "data-pin": `${verb.split(" ")[0].toLowerCase()} ${letter}`,
    });
    const last = letter === "now" ? make("td", {}) : make(
      "td",
      {},
      button("Back to it", () => restore(state), attributes("Back to")),
      " ",
      button("Remove", () => remove(letter), attributes("Remove")),
    );
    const name = make("th", { scope: "row" }, letter);
    return make("tr", { "data-tags": `pinned ${letter}` }, name, ...cells, last);
  }
  /** Writes the table. The button that had the focus gets it again. */
  function tell() {
    element.hidden = pins.length === 0;
    if (!pins.length) return table.replaceChildren();
    const now = { letter: "now", state: state(), ends: endsOf(drawing()) };
    const all = [...pins, now];
    const differing = settings.filter(({ key }) =>
      all.some((each) => !same(each.state[key], now.state[key]))
    );
    const causes = differing.length > 1
      ? `; ${format(differing.length)} settings differ between them, and any may be the cause`
      : "";
    const names = [...differing.map(({ label }) => label), ...all[0].ends.map(({ name }) => name)];
    const heads = ["curves", ...names].map((each) => make("th", { scope: "col" }, each));
    const focused = document.activeElement?.getAttribute("data-pin");
    table.replaceChildren(
      make("caption", {}, `What was tried${causes}${seed ? SEEDS : ""}`),
      make("thead", {}, make("tr", {}, ...heads, make("td", {}))),
      make("tbody", {}, ...all.map((each) => row(each, differing))),
    );
    const again = focused && table.querySelector(`[data-pin="${focused}"]`);
    if (again) /** @type {HTMLElement} */ (again).focus();
  }
  return { element, buttons, keep, add, tell, pinned: () => pins };
}
