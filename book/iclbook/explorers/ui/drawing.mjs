// @ts-check
// The pictures of an explorer: one figure a panel, in one column or two.

import { draw } from "./chart.mjs";
import { make } from "./dom.mjs";
import { handles } from "./handles.mjs";
import { readout } from "./readout.mjs";

/** @import { Panel, Picture, Settings } from "../types.d.ts" */

const TWO_COLUMNS = 620, GAP = 20; // units of a picture; pixels

/** @returns {Picture} */
function makePicture() {
  const caption = make("figcaption");
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const values = make("div", { class: "ex-values", hidden: true, "aria-hidden": "true" });
  const frame = make("div", { class: "ex-frame" }, svg, values);
  return { figure: make("figure", {}, caption, frame), caption, svg, values, frame, points: [] };
}

/**
 * `drag` sets what a point is dragged to, and `move` the time or the control that a cursor stands for.
 * @param {{ root: HTMLElement, stage: HTMLElement, number: number,
 *   drag: (settings: Settings) => Settings, move: (key: string, x: number, by?: number) => void }} explorer
 */
export function createPictures({ root, stage, number, drag, move }) {
  /** @type {Picture[]} */
  const pictures = [];
  const moving = handles({ root, stage, pictures, put: drag });
  const reader = readout({ root, pictures, move, aim: moving.aim });

  /**
   * Draws the first `shown` panels on a page `width` pixels wide. One that would stand alone in its
   * row takes the whole row.
   * @param {Panel[]} panels @param {{ width: number, unit: number, shown: number }} page
   */
  function drawPanels(panels, { width, unit, shown }) {
    while (pictures.length < panels.length) {
      pictures.push(makePicture());
      stage.append(pictures.at(-1).figure);
    }
    const wide = width / unit, columns = wide < TWO_COLUMNS ? 1 : 2;
    const half = (wide - GAP / unit) / 2;
    stage.style.setProperty("--columns", String(columns));
    pictures.forEach((picture, i) => {
      const panel = panels[i];
      picture.figure.hidden = !panel || i >= shown;
      if (!panel) return;
      if (picture.caption.textContent !== panel.title) picture.caption.textContent = panel.title;
      const isAlone = i % 2 === 0 && i === panels.length - 1 && !panels[0].wide;
      const fillsRow = columns === 2 && Boolean(panel.wide || isAlone);
      picture.figure.classList.toggle("ex-wide", fillsRow);
      const size = fillsRow || columns === 1 ? wide : half;
      const place = draw(picture.svg, panel, size, `ex-clip-${number}-${i}`, unit);
      Object.assign(picture, { panel, place, unit, width: size });
    });
    reader.after();
    moving.after();
  }
  return { drawPanels };
}
