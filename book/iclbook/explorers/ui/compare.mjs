// Curves that were pinned stay, pale, behind the next ones; a table says what differed and how each ended.

import { count, format } from "./format.mjs";
import { button, make } from "./dom.mjs";

const MOST = 4, LETTERS = "ABCDEFGH";

export const words = (
  control,
  value,
) => (control.type === "choice"
  ? String(control.names?.[value] ?? value)
  : control.type === "spectrum"
  ? value.map(format).join(", ")
  : control.type === "points"
  ? count(value.length / 3, "point")
  : format(value));

// How a run went: what the explorer says, or the last point of its first curve.
function results({ ends, panels }) {
  if (ends) return ends;
  const { series } = panels.find((each) => each.series);
  const { name, y } = series.find((each) => !each.dots && !each.dashed && !each.pale) ?? series[0];
  return [{ name: `${name} at the end`, value: y.length ? y[y.length - 1] : null }];
}
const written = (
  { value },
) => (typeof value === "string"
  ? value
  : Number.isFinite(value)
  ? format(Number(value.toPrecision(4)))
  : "–");

export function compare({ controls, state, drawing, restore, changed }) {
  let pins = [];
  const table = make("table", { class: "ex-tried" }),
    element = make("div", { class: "ex-tries", hidden: true }, table);
  const pinning = button("Pin", pin, { title: "Keep these curves, pale, behind the next ones" });
  const settings = controls.filter(({ key }) => key !== "at");
  const seed = settings.find(({ key }) => key === "seed");
  // one click for what a second start would have done
  const other = seed
    ? button("Add another seed", () => {
      const now = state();
      pin();
      restore({ ...now, seed: now.seed < seed.max ? now.seed + 1 : seed.min });
    }, { title: "Keep these curves, pale, and draw the next start" })
    : null;
  const buttons = [pinning, other].filter(Boolean);

  function pin() {
    const { panels, ...rest } = drawing();
    const own = panels.map(({ series = [], ...panel }) => ({
      ...panel,
      series: series.filter((each) => !each.pale && !each.dashed),
    }));
    const letter = [...LETTERS].find((each) => pins.every((one) => one.letter !== each));
    pins.push({ letter, state: state(), panels: own, ends: results({ ...rest, panels: own }) });
    update();
  }
  function keep(next) {
    const now = state();
    if (!pins.length && settings.some(({ key }) => String(next[key]) !== String(now[key]))) pin();
  }
  function update() {
    for (const each of buttons) each.disabled = pins.length === MOST;
    changed();
    tell();
  }
  // the pinned curves, into what is about to be drawn; its axes grow to hold them
  function add({ panels }) {
    for (const { letter, panels: own } of pins) {
      panels.forEach((panel, i) => {
        if (
          !panel.series || own[i]?.x.label !== panel.x.label || own[i].y.label !== panel.y.label ||
          !own[i].series.length
        ) return;
        const pale = own[i].series.map((each, n) => ({
          ...each,
          name: `${letter}: ${each.name}`,
          label: n === 0 && letter,
          pale: true,
          tags: [`pinned ${letter}`],
        }));
        panel.series = [...pale, ...panel.series];
        for (const side of ["x", "y"]) {
          panel[side] = {
            ...panel[side],
            min: Math.min(panel[side].min, own[i][side].min),
            max: Math.max(panel[side].max, own[i][side].max),
          };
        }
      });
    }
  }
  function tell() {
    element.hidden = pins.length === 0;
    if (!pins.length) return table.replaceChildren(); // what it held is let go
    const { panels, ...rest } = drawing(),
      all = [...pins, { letter: "now", state: state(), ends: results({ ...rest, panels }) }];
    const differ = settings.filter(({ key }) =>
      new Set(all.map((each) => String(each.state[key]))).size > 1
    );
    const cells = (tag, list) =>
      list.map((each) => (each instanceof Node ? make("td", {}, each) : make(tag, {}, each)));
    const focused = document.activeElement?.dataset.pin;
    table.replaceChildren(
      make(
        "caption",
        {},
        `What was tried${
          differ.length > 1
            ? `; ${format(differ.length)} settings differ between them, and any may be the cause`
            : ""
        }${
          seed
            ? ". A seed draws all that is random, the same each time: runs with one setting changed start alike."
            : ""
        }`,
      ),
      make(
        "thead",
        {},
        make(
          "tr",
          {},
          ...[
            [
              "curves",
              ...differ.map(({ label }) => label),
              ...all[0].ends.map(({ name }) => name),
            ].map((each) => make("th", { scope: "col" }, each)),
            make("td", {}),
          ].flat(),
        ),
      ),
      make(
        "tbody",
        {},
        ...all.map(({ letter, state: had, ends }) =>
          make(
            "tr",
            { "data-tags": `pinned ${letter}` },
            make("th", { scope: "row" }, letter),
            ...cells("td", [
              ...differ.map((each) => words(each, had[each.key])),
              ...ends.map(written),
            ]),
            letter === "now" ? make("td", {}) : make(
              "td",
              {},
              button("Back to it", () => restore(had), {
                "aria-label": `Back to ${letter}`,
                "data-pin": `back ${letter}`,
              }),
              " ",
              button("Remove", () => {
                pins = pins.filter((each) => each.letter !== letter);
                update();
                pinning.focus();
              }, { "aria-label": `Remove ${letter}`, "data-pin": `remove ${letter}` }),
            ),
          )
        ),
      ),
    );
    if (focused) table.querySelector(`[data-pin="${focused}"]`)?.focus();
  }
  return { element, buttons, keep, add, tell, pinned: () => pins };
}
