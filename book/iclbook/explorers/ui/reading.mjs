// @ts-check
// Reads values off a picture: the curves at a place, and the whole picture in words.

import { format } from "./format.mjs";
import { headerTag } from "./svg.mjs";

/** @import { Panel, Picture, Series } from "../types.d.ts" */

const MOST = 9; // so many values are read out at a place
const DOT = 6; // a dot is read out this near, in units of the picture

const digits = new Intl.NumberFormat("en", { useGrouping: false, maximumFractionDigits: 12 });
/** Without an exponent, as an attribute of a slider must be. */
export const decimal = (/** @type {number} */ value) => digits.format(value);
export const short = (/** @type {number} */ value) => format(Number(value.toPrecision(3)));
/** A place on the x axis; whole numbers in full. */
export const exact = (/** @type {number} */ x) =>
  Number.isInteger(x) ? x.toLocaleString("en") : short(x);

/** Whether a picture can be read out at a place: it is a chart, and its curves are functions of x. */
export const isReadable = (/** @type {Picture} */ { place, panel }) =>
  Boolean(place) && !panel.plane;

/** Whether another picture is read out together with this one: it has the same axis. */
export const sharesAxis = (/** @type {Picture} */ one, /** @type {Picture} */ other) =>
  isReadable(other) && other.panel.x.label === one.panel.x.label;

/** Between the points of a curve y at x; null outside. Of dots, the y of the one that is there. */
function valueAt(/** @type {Series} */ { x, y, dots }, at, within) {
  if (dots) {
    const i = Array.from(x).findIndex((each) => Math.abs(each - at) <= within);
    return i < 0 ? null : y[i];
  }
  let high = 0;
  while (high < x.length && x[high] < at) high++;
  if (high === x.length) return null;
  if (x[high] === at) return y[high];
  if (high === 0) return null;
  return y[high - 1] + ((at - x[high - 1]) / (x[high] - x[high - 1])) * (y[high] - y[high - 1]);
}

/** The values at a place: curves first, then theory, then pinned curves. */
export function valuesAt(/** @type {Picture} */ { panel, place }, /** @type {number} */ at) {
  const within = Math.abs(place.invert(place.sx(at) + DOT) - at) + 1e-12;
  const order = (/** @type {Series} */ { dashed, pale }) => 2 * Number(!!dashed) + Number(!!pale);
  return (panel.series ?? [])
    .map((series) => ({ series, value: valueAt(series, at, within) }))
    .filter(({ series, value }) => value !== null && Number.isFinite(value) && series.name)
    .sort((a, b) => order(a.series) - order(b.series));
}

export const firstValuesAt = (picture, at) => valuesAt(picture, at).slice(0, MOST);

/** The place that is nearest among those that are recorded. */
export function nearestPlace(/** @type {Picture} */ { panel }, /** @type {number} */ at) {
  const curve = panel.series.find(({ dots, dashed, pale, x }) =>
    !dots && !dashed && !pale && x.length > 1
  );
  if (!curve) return at;
  const f = panel.x.log ? Math.log : (value) => value;
  let nearest = curve.x[0];
  for (const x of curve.x) if (Math.abs(f(x) - f(at)) < Math.abs(f(nearest) - f(at))) nearest = x;
  return nearest;
}

/** What is read out at a place, in words. */
export function wordsAt(/** @type {Picture} */ picture, /** @type {number} */ at) {
  const values = firstValuesAt(picture, at).map(({ series, value }) =>
    `${series.name} ${short(value)}`
  );
  return `${picture.panel.x.label} ${exact(at)}: ${values.join(", ")}`;
}

/** A picture that is not read out at a place: the ends of its curves, or the cells of a matrix. */
export function inWords(/** @type {Panel} */ { title, heat, series = [], y }) {
  const row = (name, i) => {
    const values = heat.columns.map((column, j) =>
      `${column} ${heat.values[i * heat.columns.length + j].toFixed(2)}`
    );
    return `${headerTag(name, y)}: ${values.join(", ")}`;
  };
  const curve = (/** @type {Series} */ { name, x, y }) => {
    const last = x.length - 1, from = `${short(x[0])}, ${short(y[0])}`;
    return `${name}: from ${from} to ${short(x[last])}, ${short(y[last])}`;
  };
  const parts = heat
    ? heat.rows.map(row)
    : series.filter(({ dots, dashed, x }) => !dots && !dashed && x.length).map(curve);
  return `${title}. ${parts.join("; ")}`;
}
