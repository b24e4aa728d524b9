// @ts-check
// A matrix as a heat map, with its numbers where there is room.

import { format } from "./format.mjs";
import { headerTag, LETTER, tagged, text } from "./svg.mjs";

/** @import { Axis, Heat, Panel } from "../types.d.ts" */

/** The number in a cell. A narrow cell has no room for "0" before the point. */
function cellText(value, isNarrow) {
  const digits = isNarrow && Math.abs(value) >= 0.995 ? 1 : 2;
  const shown = value.toFixed(digits).replace(/^-0\.00$/, "0.00").replace("-", "−");
  return isNarrow ? shown.replace(/^(−?)0\./, "$1.") : shown;
}

const longest = (names) => Math.max(...names.map((each) => String(each).length));

/** The sizes of a heat map: of its cells, and where they begin. */
function layout(/** @type {Heat} */ { rows, columns }, width, height) {
  const left = 24 + LETTER * longest(rows), top = 8, bottom = height - 58, right = width - 10;
  const room = (right - left) / columns.length;
  const high = Math.min(room, (bottom - top) / rows.length);
  const word = 8 + LETTER * longest(columns); // names of columns stand beside one another
  const wide = Math.min(room, Math.max(1.6 * high, word, 36));
  const from = left + (right - left - wide * columns.length) / 2;
  return { left, top, from, wide, high, under: top + rows.length * high };
}

const paint = (/** @type {Heat} */ { signed, max }, value) =>
  `fill:var(--ex-c${signed && value < 0 ? 1 : 0});opacity:${
    Math.min(1, Math.abs(value) / max).toFixed(3)
  }`;

function cells(/** @type {Panel} */ { heat, x, y }, { top, from, wide, high }) {
  const { rows, columns, values, max } = heat;
  const size = `width="${(wide - 2).toFixed(1)}" height="${(high - 2).toFixed(1)}"`;
  const cell = (row, i, column, j) => {
    const value = values[i * columns.length + j], left = from + j * wide, at = top + i * high;
    const box = `x="${left.toFixed(1)}" y="${at.toFixed(1)}" ${size} rx="2"`;
    const ink = Math.abs(value) > 0.75 * max ? "ex-on" : "ex-off";
    const inside = `text-anchor="middle" class="ex-value ${ink}"`;
    const number = wide > 28 && high > 15
      ? text(left + wide / 2 - 1, at + high / 2 + 3, cellText(value, wide < 36), inside)
      : "";
    const tags = tagged([headerTag(row, y), headerTag(column, x)]);
    const rects = `<rect class="ex-cell" ${box}/><rect ${box} style="${paint(heat, value)}"/>`;
    return `<g class="ex-square" ${tags}>${rects}${number}</g>`;
  };
  return rows.flatMap((row, i) => columns.map((column, j) => cell(row, i, column, j))).join("");
}

/** The colours, and the number that the fullest stands for. */
function legend(/** @type {Heat} */ heat, middle, under) {
  const shades = heat.signed ? [-1, -0.6, -0.2, 0.2, 0.6, 1] : [0.05, 0.25, 0.5, 0.75, 1];
  const most = format(Number(heat.max.toPrecision(2))), begin = middle - 8 * shades.length;
  const boxes = shades.map((share, i) => {
    const box = `x="${(begin + 16 * i).toFixed(1)}" y="${under + 38}" width="15" height="9"`;
    return `<rect class="ex-cell" ${box}/><rect ${box} style="${paint(heat, share * heat.max)}"/>`;
  });
  const least = text(begin - 5, under + 47, heat.signed ? `−${most}` : "0", 'text-anchor="end"');
  return boxes.join("") + least + text(begin + 16 * shades.length + 4, under + 47, most);
}

function names(/** @type {Panel} */ { heat, x, y }, { left, top, from, wide, high, under }) {
  const { rows, columns } = heat, middle = from + (wide * columns.length) / 2;
  const besideRow = (row, i) =>
    text(
      from - 6,
      top + (i + 0.5) * high + 4,
      row,
      `text-anchor="end" ${tagged([headerTag(row, y)])}`,
    );
  const belowColumn = (column, j) => {
    const tags = tagged([headerTag(column, x)]);
    return text(from + (j + 0.5) * wide - 1, under + 13, column, `text-anchor="middle" ${tags}`);
  };
  const turn = `translate(${from - left + 11} ${top + (rows.length * high) / 2}) rotate(-90)`;
  return rows.map(besideRow).join("") + columns.map(belowColumn).join("") +
    text(middle, under + 31, x.label, 'text-anchor="middle" class="ex-name"') +
    legend(heat, middle, under) +
    text(0, 0, y.label, `text-anchor="middle" class="ex-name" transform="${turn}"`);
}

/** The parts of the picture as SVG: what is above changes more often than what is below it. */
export function drawHeatMap(/** @type {Panel} */ panel, width, height) {
  const sizes = layout(panel.heat, width, height);
  return { parts: [cells(panel, sizes), names(panel, sizes)], place: null };
}
