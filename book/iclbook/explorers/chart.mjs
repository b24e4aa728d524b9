// One small chart, in SVG: lines on labelled axes with theory dashed, or a heat map of a matrix.
//
// A panel is plain data, so that the same numbers are drawn, exported and tested:
//   { title, x: { label, min, max, log }, y: { label, min, max, log }, cursor,
//     series: [{ name, x, y, color, dashed, label, dots }], levels: [{ y, name }], marks: [{ x, name }] }
//   { title, heat: { rows, columns, values, max, signed }, x: { label }, y: { label } }
// color: 0 … 7 of the palette, or "theory", "quiet", "ink"; the style sheet knows what they look like.

const FONT = 12, LETTER = 7.8;  // of the widest sans serif a system may have: what is beside a chart is cut off

export const format = (value) => {
  if (value === 0) return "0";
  if (value < 0) return `−${format(-value)}`;
  if (value >= 1e6 || value < 1e-3) {
    const [digits, power] = value.toExponential(1).split("e");
    const factor = Number(digits) === 1 ? "" : `${Number(digits)}·`;
    return `${factor}10${superscript(Number(power))}`;
  }
  return Number(value.toPrecision(4)).toLocaleString("en", { maximumFractionDigits: 6 });
};
const raised = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };
export const superscript = (n) => [...String(n)].map((each) => raised[each]).join("");
export const subscript = (n) => [...String(n)].map((each) => "₀₁₂₃₄₅₆₇₈₉"[each]).join("");

const escape = (text) => String(text).replace(/[&<>"]/g, (each) => `&#${each.charCodeAt(0)};`);
const paint = (color) => `var(--ex-${typeof color === "number" ? `c${color % 8}` : color ?? "ink"})`;

export function ticks({ min, max, log }, count) {
  if (log) {
    const low = Math.ceil(Math.log10(min) - 1e-9), high = Math.floor(Math.log10(max) + 1e-9);
    const every = Math.max(1, Math.ceil((high - low) / count)), list = [];
    for (let power = low; power <= high; power += every) list.push(10 ** power);
    return list;
  }
  const rough = (max - min) / count, unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * ([1, 2, 5, 10].find((each) => each * unit >= rough * 0.999) ?? 10);
  const list = [];
  for (let n = Math.ceil(min / step - 1e-9); n * step <= max + 1e-9 * step; n++)
    list.push(Number((n * step).toPrecision(12)));
  return list;
}

function scale({ min, max, log }, from, to) {
  const f = log ? Math.log10 : (value) => value;
  const low = f(min), slope = (to - from) / (f(max) - low);
  return (value) => from + (f(value) - low) * slope;
}

// Labels at the right end, moved apart as little as can be: neighbours that would cover each other
// are stacked around the mean of their places.
function spread(labels, top, bottom) {
  const gap = Math.min(FONT + 1, (bottom - top) / labels.length), stacks = [];
  for (const each of labels.sort((a, b) => Math.round(a.at) - Math.round(b.at))) {
    let stack = { members: [each], sum: each.at };
    const place = ({ members, sum }) => {
      const half = (gap * (members.length - 1)) / 2;
      return Math.max(top + half, Math.min(bottom - half, sum / members.length));
    };
    const reach = (each) => (gap * each.members.length) / 2;
    while (stacks.length && place(stacks.at(-1)) + reach(stacks.at(-1)) > place(stack) - reach(stack)) {
      const { members, sum } = stacks.pop();
      stack = { members: [...members, ...stack.members], sum: sum + stack.sum };
    }
    stack.at = place(stack);
    stacks.push(stack);
  }
  for (const { members, at } of stacks)
    members.forEach((each, i) => { each.at = at + gap * (i - (members.length - 1) / 2); });
  return labels;
}

function path({ x, y }, sx, sy, { log: logX }, { log: logY }) {
  let d = "", pen = "M";
  for (let i = 0; i < x.length; i++) {
    if (!Number.isFinite(y[i]) || (logY && y[i] <= 0) || (logX && x[i] <= 0)) {
      pen = "M";
      continue;
    }
    d += `${pen}${sx(x[i]).toFixed(1)},${Math.max(-2000, Math.min(4000, sy(y[i]))).toFixed(1)}`;
    pen = "L";
  }
  return d;
}

const text = (x, y, words, extra = "") => `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" ${extra}>${escape(words)}</text>`;

function lines(panel, width, height, id) {
  const { x, y, series = [], levels = [], marks = [], cursor } = panel;
  const named = [
    ...levels.map((each) => ({ name: each.name, value: each.y, color: "theory" })),
    ...series.filter((each) => each.label !== false && each.x.length).map((each) => {
      let last = each.y.length - 1;
      while (last > 0 && !(each.y[last] <= y.max && each.x[last] <= x.max)) last--;
      return { name: each.label ?? each.name, value: each.y[last], color: each.color };
    }),
  ].filter((each) => each.name && Number.isFinite(each.value));
  const longest = Math.max(0, ...named.map((each) => each.name.length));
  const yTicks = ticks(y, Math.max(2, Math.floor(height / 52)));
  const left = 26 + LETTER * Math.max(...yTicks.map((each) => format(each).length));
  const half = (LETTER / 2) * Math.max(...ticks(x, 2).map((each) => format(each).length));
  const right = width - Math.max(half, longest ? Math.min(0.4 * width, 10 + LETTER * longest) : 14);
  const top = 10, bottom = height - 38;
  const sx = scale(x, left, right), sy = scale(y, bottom, top);
  let svg = `<clipPath id="${id}"><rect x="${left}" y="${top - 4}" width="${right - left}" height="${bottom - top + 6}"/></clipPath>`;
  for (const each of yTicks) {
    const at = sy(each);
    svg += `<line class="ex-grid" x1="${left}" x2="${right}" y1="${at}" y2="${at}"/>`;
    svg += text(left - 6, at + 4, format(each), 'text-anchor="end"');
  }
  for (const each of ticks(x, Math.max(2, Math.floor((right - left) / 76)))) {
    const at = sx(each);
    svg += `<line class="ex-tick" x1="${at}" x2="${at}" y1="${bottom}" y2="${bottom + 4}"/>`;
    svg += text(at, bottom + 17, format(each), 'text-anchor="middle"');
  }
  svg += `<line class="ex-axis" x1="${left}" x2="${right}" y1="${bottom}" y2="${bottom}"/>`;
  svg += text((left + right) / 2, height - 4, x.label, 'text-anchor="middle" class="ex-name"');
  svg += text(0, 0, y.label, `text-anchor="middle" class="ex-name" transform="translate(11 ${(top + bottom) / 2}) rotate(-90)"`);
  svg += `<g clip-path="url(#${id})">`;
  for (const each of marks)
    svg += `<line class="ex-mark" x1="${sx(each.x)}" x2="${sx(each.x)}" y1="${top}" y2="${bottom}"/>`;
  for (const each of levels)
    svg += `<line class="ex-level" x1="${left}" x2="${right}" y1="${sy(each.y)}" y2="${sy(each.y)}"/>`;
  for (const each of series) {
    const style = each.dashed ? "ex-dashed" : "ex-solid";
    if (!each.dots) svg += `<path class="${style}" style="stroke:${paint(each.color)}" d="${path(each, sx, sy, x, y)}"/>`;
    else
      for (let i = 0; i < each.x.length; i++)
        svg += `<circle r="${each.dots}" cx="${sx(each.x[i]).toFixed(1)}" cy="${sy(each.y[i]).toFixed(1)}" style="fill:${paint(each.color)}"/>`;
  }
  if (cursor != null) svg += `<line class="ex-cursor" x1="${sx(cursor)}" x2="${sx(cursor)}" y1="${top}" y2="${bottom}"/>`;
  svg += "</g>";
  for (const [i, each] of marks.entries())
    svg += text(sx(each.x) + 4, top + 8 + 14 * i, each.name, 'class="ex-end" style="--c:var(--ex-theory)"');
  const labels = named.map((each) => ({ ...each, at: Math.max(top, Math.min(bottom, sy(each.value))) }));
  for (const each of spread(labels, top, bottom))
    svg += text(right + 6, each.at + 4, each.name, `class="ex-end" style="--c:${paint(each.color)}"`);
  return svg;
}

const fixed = (value) => value.toFixed(2).replace(/^-0\.00$/, "0.00").replace("-", "−");

function heat({ heat: { rows, columns, values, max, signed }, x, y }, width, height) {
  const left = 24 + LETTER * Math.max(...rows.map((each) => String(each).length));
  const top = 8, bottom = height - 40, right = width - 10;
  const cell = Math.min((right - left) / columns.length, (bottom - top) / rows.length);
  const wide = Math.min((right - left) / columns.length, 1.6 * cell);
  const from = left + (right - left - wide * columns.length) / 2;
  let svg = "";
  rows.forEach((row, i) => {
    const at = top + i * cell;
    svg += text(from - 6, at + cell / 2 + 4, row, 'text-anchor="end"');
    columns.forEach((column, j) => {
      const value = values[i * columns.length + j], share = Math.min(1, Math.abs(value) / max);
      const color = signed && value < 0 ? "var(--ex-c1)" : "var(--ex-c0)";
      const size = `width="${(wide - 2).toFixed(1)}" height="${(cell - 2).toFixed(1)}"`;
      const box = `x="${(from + j * wide).toFixed(1)}" y="${at.toFixed(1)}" ${size} rx="2"`;
      svg += `<rect class="ex-cell" ${box}/><rect ${box} style="fill:${color};opacity:${share.toFixed(3)}"/>`;
      if (wide > 34 && cell > 17) {
        const ink = share > 0.55 ? "ex-on" : "ex-off";
        svg += text(from + j * wide + wide / 2 - 1, at + cell / 2 + 3, fixed(value), `text-anchor="middle" class="ex-value ${ink}"`);
      }
    });
  });
  const under = top + rows.length * cell;
  columns.forEach((column, j) => {
    svg += text(from + j * wide + wide / 2 - 1, under + 13, column, 'text-anchor="middle"');
  });
  svg += text(from + (wide * columns.length) / 2, under + 31, x.label, 'text-anchor="middle" class="ex-name"');
  const middle = `translate(11 ${top + (rows.length * cell) / 2}) rotate(-90)`;
  return svg + text(0, 0, y.label, `text-anchor="middle" class="ex-name" transform="${middle}"`);
}

export function draw(svg, panel, width, id) {
  const height = panel.height ?? (width < 420 ? 210 : 250);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("aria-label", panel.title);
  svg.style.height = `${height}px`;
  svg.innerHTML = panel.heat ? heat(panel, width, height) : lines(panel, width, height, id);
}

// What is drawn, as rows of panel, series, x, y; of a heat map the series is the row and x the column.
export function rows(panel) {
  const { title, heat, series = [], levels = [], marks = [] } = panel;
  if (heat)
    return [...heat.values].map((value, i) => {
      const at = Math.floor(i / heat.columns.length);
      return [title, heat.rows[at], heat.columns[i % heat.columns.length], value];
    });
  return [
    ...series.flatMap((each) => Array.from(each.x, (x, i) => [title, each.name, x, each.y[i]])),
    ...levels.map((each) => [title, each.name, "", each.y]),
    ...marks.map((each) => [title, each.name, each.x, ""]),
  ];
}
