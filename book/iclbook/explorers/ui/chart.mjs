// @ts-check
// One small picture in SVG: curves on labelled axes with theory dashed, or a heat map of a matrix.
// types.d.ts describes the panel that is drawn.

import { inverse, scale, ticks } from "./axes.mjs";
import { format } from "./format.mjs";
import { drawHeatMap } from "./heatmap.mjs";
import { labels } from "./labels.mjs";
import { LETTER, paint, tagged, tagsOf, text } from "./svg.mjs";

/** @import { Axis, Panel, Place, Series } from "../types.d.ts" */

/** A curve as a path, broken where there is no number. */
function path(/** @type {Series} */ { x, y }, /** @type {Panel} */ panel, { sx, sy }) {
  let d = "", pen = "M";
  for (let i = 0; i < x.length; i++) {
    if (!Number.isFinite(y[i]) || (panel.y.log && y[i] <= 0) || (panel.x.log && x[i] <= 0)) {
      pen = "M";
      continue;
    }
    d += `${pen}${sx(x[i]).toFixed(1)},${Math.max(-2000, Math.min(4000, sy(y[i]))).toFixed(1)}`;
    pen = "L";
  }
  return d;
}

const dotClass = (/** @type {Series} */ { pale }) => `ex-dot${pale ? " ex-pale" : ""}`;

function bars(/** @type {Series} */ series, { sx, sy }) {
  const { x, y, bars: width, color } = series, tags = tagged(tagsOf(series));
  return Array.from(x, (at, i) => {
    const left = sx(at - width / 2), right = sx(at + width / 2);
    const top = sy(Math.max(0, y[i])), bottom = sy(Math.min(0, y[i]));
    return `<rect ${tags} class="${dotClass(series)}" x="${left.toFixed(1)}" y="${
      top.toFixed(1)
    }" ` +
      `width="${(right - left).toFixed(1)}" height="${(bottom - top).toFixed(1)}" ` +
      `style="fill:${paint(color)}"/>`;
  }).join("");
}

function dots(/** @type {Series} */ series, { sx, sy }) {
  const { x, y, dots: radius, ring, color } = series, tags = tagged(tagsOf(series));
  const style = ring ? `fill:none;stroke:${paint(color)};stroke-width:2` : `fill:${paint(color)}`;
  return Array.from(
    x,
    (at, i) =>
      `<circle ${tags} class="${dotClass(series)}" r="${radius}" cx="${sx(at).toFixed(1)}" ` +
      `cy="${sy(y[i]).toFixed(1)}" style="${style}"/>`,
  ).join("");
}

/**
 * Dashes for curves that lie on one another to a pixel: they share the line, each in its turn.
 * @param {Series[]} series
 * @returns {Map<Series, string>}
 */
function stripes(series, { sx, sy }) {
  const curves = series.filter(({ dots, bars, dashed, pale, x }) =>
    !dots && !bars && !dashed && !pale && x.length > 1
  );
  const coincide = (one, other) => {
    const last = one.x.length - 1;
    const samples = Array.from({ length: 25 }, (_, i) => Math.floor((i * last) / 24));
    return other.x.length === one.x.length &&
      samples.every((i) =>
        Math.abs(sx(one.x[i]) - sx(other.x[i])) < 1 && Math.abs(sy(one.y[i]) - sy(other.y[i])) < 1
      );
  };
  /** @type {Series[][]} */
  const groups = [];
  for (const each of curves) {
    const group = groups.find(([first]) => coincide(each, first));
    if (group) group.push(each);
    else groups.push([each]);
  }
  const dashes = (group) =>
    group.map((each, i) => [
      each,
      `;stroke-dasharray:7 ${7 * (group.length - 1)};stroke-dashoffset:${-7 * i}`,
    ]);
  return new Map(groups.filter((group) => group.length > 1).flatMap(dashes));
}

function curves(/** @type {Panel} */ panel, /** @type {Place} */ place, id) {
  const { series = [], levels = [], marks = [] } = panel,
    { left, right, top, bottom, sx, sy } = place;
  const dashes = stripes(series, place);
  const curve = (/** @type {Series} */ each) => {
    const name = `${each.dashed ? "ex-dashed" : "ex-solid"}${each.pale ? " ex-pale" : ""}`;
    const style = `stroke:${paint(each.color)}${dashes.get(each) ?? ""}`;
    const d = path(each, panel, place);
    return `<path class="${name}" ${tagged(tagsOf(each))} style="${style}" d="${d}"/>`;
  };
  const vertical = ({ x }) =>
    `<line class="ex-mark" x1="${sx(x)}" x2="${sx(x)}" y1="${top}" y2="${bottom}"/>`;
  const horizontal = ({ y }) =>
    `<line class="ex-level" x1="${left}" x2="${right}" y1="${sy(y)}" y2="${sy(y)}"/>`;
  const drawn = series.map((each) =>
    each.bars ? bars(each, place) : each.dots ? dots(each, place) : curve(each)
  );
  const inside = [...marks.map(vertical), ...levels.map(horizontal), ...drawn].join("");
  return `<g clip-path="url(#${id})">${inside}</g>`;
}

/** The vertical axis, with the clip path of the curves. */
function yAxis(
  /** @type {Axis} */ y,
  /** @type {Place} */ { left, right, top, bottom, sy },
  at,
  id,
) {
  const size = `width="${right - left}" height="${bottom - top + 6}"`;
  let svg = `<clipPath id="${id}"><rect x="${left}" y="${top - 4}" ${size}/></clipPath>`;
  for (const each of at) {
    svg += `<line class="ex-grid" x1="${left}" x2="${right}" y1="${sy(each)}" y2="${sy(each)}"/>`;
    svg += text(left - 6, sy(each) + 4, format(each), 'text-anchor="end"');
  }
  const turn = `translate(11 ${(top + bottom) / 2}) rotate(-90)`;
  return svg + text(0, 0, y.label, `text-anchor="middle" class="ex-name" transform="${turn}"`);
}

function xAxis(/** @type {Axis} */ x, /** @type {Place} */ { left, right, bottom, sx }, height) {
  let svg = `<line class="ex-axis" x1="${left}" x2="${right}" y1="${bottom}" y2="${bottom}"/>`;
  for (const each of ticks(x, Math.max(2, Math.floor((right - left) / 76)))) {
    const at = sx(each);
    svg += `<line class="ex-tick" x1="${at}" x2="${at}" y1="${bottom}" y2="${bottom + 4}"/>`;
    svg += text(at, bottom + 17, format(each), 'text-anchor="middle"');
  }
  const words = 'text-anchor="middle" class="ex-name"';
  return svg + text((left + right) / 2, height - 4, x.label, words);
}

function cursorLine(
  /** @type {Panel} */ { cursor, moves },
  /** @type {Place} */ { top, bottom, sx },
) {
  if (cursor == null) return "";
  const at = sx(cursor).toFixed(1);
  const grip = moves ? `<circle class="ex-grip" r="5" cx="${at}" cy="${bottom}"/>` : "";
  return `<line class="ex-cursor" x1="${at}" x2="${at}" y1="${top}" y2="${bottom}"/>${grip}`;
}

function drawChart(/** @type {Panel} */ panel, width, height, id) {
  const { x, y } = panel, names = labels(panel);
  const top = 14, bottom = height - 38;
  const yTicks = ticks(y, Math.max(2, Math.floor(height / 52)));
  const letters = (/** @type {number[]} */ numbers) =>
    Math.max(...numbers.map((each) => format(each).length));
  const left = 26 + LETTER * letters(yTicks);
  const room = names.longest ? Math.min(0.4 * width, 10 + LETTER * names.longest) : 14;
  const right = width - Math.max((LETTER / 2) * letters(ticks(x, 2)), room);
  /** @type {Place} */
  const place = {
    ...{ left, right, top, bottom },
    sx: scale(x, left, right),
    sy: scale(y, bottom, top),
    invert: inverse(x, left, right),
    rise: inverse(y, bottom, top),
  };
  const parts = [
    yAxis(y, place, yTicks, id),
    xAxis(x, place, height),
    curves(panel, place, id),
    cursorLine(panel, place),
    names.draw(place),
  ];
  return { parts, place };
}

/** @type {WeakMap<SVGSVGElement, string[]>} */
const drawn = new WeakMap();

/**
 * Draws a panel `width` units wide, where a unit has `unit` pixels, since text grows with the reader's
 * own size. Returns where in the picture a chart's lines are. Only the parts that have changed are
 * set: most of the time of a redraw goes into laying out their words.
 * @param {SVGSVGElement} svg @param {Panel} panel
 * @param {number} width @param {string} id of the clip path
 * @returns {Place | null}
 */
export function draw(svg, panel, width, id, unit = 1) {
  const height = (panel.height ?? (width < 420 ? 220 : 254)) + (panel.heat ? 14 : 0);
  const { parts, place } = panel.heat
    ? drawHeatMap(panel, width, height)
    : drawChart(panel, width, height, id);
  const box = `0 0 ${width} ${height}`, before = drawn.get(svg) ?? [];
  if (svg.getAttribute("viewBox") !== box) svg.setAttribute("viewBox", box);
  svg.style.height = `${height * unit}px`;
  if (before.length !== parts.length) svg.innerHTML = "<g></g>".repeat(parts.length);
  parts.forEach((each, i) => {
    if (each !== before[i] || before.length !== parts.length) svg.children[i].innerHTML = each;
  });
  drawn.set(svg, parts);
  return place;
}
