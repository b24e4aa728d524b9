// @ts-check
// What an explorer shows as a file: its settings, those of each pinned curve, and every number drawn.

import { make } from "./dom.mjs";

/** @import { Control, Panel, Settings } from "../types.d.ts" */

/** Rows of panel, series, x and y. Of a heat map the series is the row and x the column. */
function rows(/** @type {Panel} */ { title, heat, series = [], levels = [], marks = [] }) {
  if (heat) {
    return Array.from(heat.values, (value, i) => {
      const row = Math.floor(i / heat.columns.length);
      return [title, heat.rows[row], heat.columns[i % heat.columns.length], value];
    });
  }
  return [
    ...series.flatMap((each) => Array.from(each.x, (x, i) => [title, each.name, x, each.y[i]])),
    ...levels.map((each) => [title, each.name, "", each.y]),
    ...marks.map((each) => [title, each.name, each.x, ""]),
  ].filter(([, , , y]) => y === "" || Number.isFinite(y));
}

const quote = (each) => (/[",\n]/.test(each) ? `"${String(each).replaceAll('"', '""')}"` : each);

/**
 * @param {{ name: string, title: string, controls: Control[], state: Settings,
 *   pinned: { letter: string, state: Settings }[], panels: Panel[] }} shown
 */
export function downloadCsv({ name, title, controls, state, pinned, panels }) {
  const settings = (values) =>
    controls.map(({ key, label }) => `${label} (${key}): ${JSON.stringify(values[key])}`);
  const axes = ({ title, x, y, heat }) =>
    heat
      ? `${title}: series is ${y.label || "the row"}, x ${x.label}`
      : `${title}: x is ${x.label}, y ${y.label}`;
  const comments = [
    ...settings(state),
    ...pinned.flatMap(({ letter, state }) => settings(state).map((each) => `${letter}: ${each}`)),
    ...panels.map(axes),
  ];
  const table = [["panel", "series", "x", "y"], ...panels.flatMap(rows)];
  const text = [
    `\ufeff# ${title}`, // the mark by which spreadsheets know the encoding
    ...comments.map((each) => `# ${each}`),
    ...table.map((row) => row.map(quote).join(",")),
    "",
  ].join("\n");
  const href = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  make("a", { download: `${name}.csv`, href }).click();
  setTimeout(() => URL.revokeObjectURL(href), 1000);
}
