// @ts-check
// Pieces of SVG as text, and the tags by which what belongs together lights up together.

/** @import { Axis, Colour, Series } from "../types.d.ts" */

// The width of a letter in the widest sans serif that a system may have. Room is left for it, since
// whatever is outside a picture is cut off.
export const LETTER = 7.8;

const escape = (text) => String(text).replace(/[&<>"]/g, (each) => `&#${each.charCodeAt(0)};`);

export const text = (x, y, words, attributes = "") =>
  `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" ${attributes}>${escape(words)}</text>`;

/** The value of a colour in the style sheet. */
export const paint = (/** @type {Colour | undefined} */ color) =>
  `var(--ex-${typeof color === "number" ? `c${color % 8}` : color ?? "ink"})`;

/** A curve lights up with all that has its name; a cell of a matrix, with its row and column. */
/** @returns {string[]} */
export const tagsOf = (/** @type {Series} */ { name, label, tags }) =>
  tags ?? /** @type {string[]} */
    ([name, label].filter((each) => typeof each === "string" && each));
export const tagged = (/** @type {string[]} */ tags) => `data-tags="${escape(tags.join("|"))}"`;

/** The tag of a row or column: its name or, if that is a number, with the word on the axis. */
export const headerTag = (name, /** @type {Axis} */ axis) =>
  Number.isFinite(Number(name)) ? `${axis.label} ${name}` : String(name);
