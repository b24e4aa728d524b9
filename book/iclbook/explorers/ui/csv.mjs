// What an explorer shows, as a file: its settings, those of each curve that was pinned, and every number that is drawn.

import { rows } from "./chart.mjs";
import { make } from "./controls.mjs";

const quote = (each) => (/[",\n]/.test(each) ? `"${String(each).replaceAll('"', '""')}"` : each);

export function downloadCsv({ name, title, controls, state, pinned, panels }) {
  // what is set, by the names on the page; and what x and y are
  const said = (had) =>
    controls.map(({ key, label }) => `${label} (${key}): ${JSON.stringify(had[key])}`);
  const axes = panels.map(({ title: of, x, y, heat }) =>
    `${of}: ${
      heat ? `series is ${y.label || "the row"}, x ${x.label}` : `x is ${x.label}, y ${y.label}`
    }`
  );
  const settings = [
    ...said(state),
    ...pinned.flatMap(({ letter, state: had }) => said(had).map((each) => `${letter}: ${each}`)),
    ...axes,
  ];
  const table = [["panel", "series", "x", "y"], ...panels.flatMap(rows)];
  const text = [
    `\ufeff# ${title}`,
    ...settings.map((each) => `# ${each}`),
    ...table.map((row) => row.map(quote).join(",")),
  ].join("\n");
  const link = make("a", {
    download: `${name}.csv`,
    href: URL.createObjectURL(new Blob([text, "\n"], { type: "text/csv" })),
  });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
