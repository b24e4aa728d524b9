// @ts-check
// Axes: where their ticks are, and how numbers become places in a picture and back.

/** @import { Axis } from "../types.d.ts" */

/** About `wanted` round numbers on an axis, and at least three if it is long enough. */
export function ticks(/** @type {Axis} */ axis, wanted) {
  const { min, max, whole } = axis;
  if (whole && max - min <= 10) {
    const first = Math.ceil(min);
    return Array.from({ length: Math.floor(max) - first + 1 }, (_, i) => first + i);
  }
  let list = [];
  for (let n = wanted; list.length < 3 && n < wanted + 6; n++) {
    list = axis.log ? powersOfTen(axis, n) : evenTicks(axis, n);
  }
  return list;
}

function powersOfTen(/** @type {Axis} */ { min, max }, count) {
  const low = Math.ceil(Math.log10(min) - 1e-9), high = Math.floor(Math.log10(max) + 1e-9);
  const every = Math.max(1, Math.ceil((high - low) / count)), list = [];
  for (let power = low; power <= high; power += every) list.push(10 ** power);
  return list;
}

function evenTicks(/** @type {Axis} */ { min, max }, count) {
  const rough = (max - min) / count, unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * ([1, 2, 5, 10].find((each) => each * unit >= rough * 0.999) ?? 10);
  const list = [];
  for (let n = Math.ceil(min / step - 1e-9); n * step <= max + 1e-9 * step; n++) {
    list.push(Number((n * step).toPrecision(12)));
  }
  return list;
}

const linear = (value) => value;

/** The place of a number, where the axis goes from one place to another. */
export function scale(/** @type {Axis} */ { min, max, log }, from, to) {
  const f = log ? Math.log10 : linear;
  const low = f(min), slope = (to - from) / (f(max) - low);
  return (value) => from + (f(value) - low) * slope;
}

/** The number at a place; beyond the axis, that of its end. */
export function inverse(/** @type {Axis} */ { min, max, log }, from, to) {
  const f = log ? Math.log10 : linear;
  return (at) => {
    const value = f(min) + ((at - from) / (to - from)) * (f(max) - f(min));
    return Math.min(max, Math.max(min, log ? 10 ** value : value));
  };
}
