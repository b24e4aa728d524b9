// @ts-check
// The values of controls: what each may be, and points as lists of numbers.

/** @import { Control } from "../types.d.ts" */

/** Whether two values are the same; lists are the same if their numbers are. */
export const same = (a, b) => String(a) === String(b);

/**
 * The nearest value that a control takes, or null if it takes nothing of the kind. All that a
 * link, a picture or the reader sets goes through here.
 * @param {Partial<Control>} control
 */
export function clamp(control, value) {
  const { type, options, least, most } = control;
  if (type === "choice") return options.includes(value) ? value : null;
  if (type === "points") return clampPoints(control, value);
  if (type === "spectrum") {
    if (!Array.isArray(value) || value.length < least || value.length > most) return null;
    const values = value.map((each) => clampNumber(control, each));
    return values.includes(null) ? null : values;
  }
  return clampNumber(control, value);
}

/** @param {Partial<Control>} control */
function clampNumber({ type, min, max }, value) {
  if (typeof value !== "number" || !Number.isFinite(value)) return null;
  return Math.min(max, Math.max(min, type === "whole" ? Math.round(value) : value));
}

/**
 * A place is rounded, so that no point is so close to an axis that dividing by it overflows.
 * @param {Partial<Control>} control
 */
function clampPoints({ min, max, most }, value) {
  if (!Array.isArray(value) || value.length % 3 !== 0 || value.length > 3 * most) return null;
  if (!value.every(Number.isFinite)) return null;
  const exists = ([which]) => Number.isInteger(which) && which >= min[0] && which <= max[0];
  if (!triples(value).every(exists)) return null;
  const near = (place, i) => Math.min(max[i], Math.max(min[i], Math.round(place * 1e6) / 1e6));
  return triples(value).flatMap(([which, x, y]) => [which, near(x, 1), near(y, 2)]);
}

/** The points of such a list, each as [which, x, y]. */
export const triples = (list) =>
  Array.from({ length: list.length / 3 }, (_, i) => list.slice(3 * i, 3 * i + 3));

/** The list with one point at another place. */
export function withPoint(list, which, x, y) {
  const others = triples(list).filter(([each]) => each !== which);
  const points = [...others, [which, x, y]].sort(([a], [b]) => a - b);
  return points.flat().map((each) => Number(each.toPrecision(3)));
}
