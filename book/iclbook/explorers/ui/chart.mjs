// One small chart, in SVG: lines on labelled axes with theory dashed, or a heat map of a matrix.
//
// A panel is plain data, so that the same numbers are drawn, read out, exported and tested:
//   { title, x: { label, min, max, log, whole }, y: { label, min, max, log }, cursor, moves,
//     series: [{ name, x, y, color, dashed, label, dots, bars, ring, tags }], levels: [{ y, name, label }], marks: [{ x, name }] }
//   { title, heat: { rows, columns, values, max, signed }, x: { label }, y: { label } }
// A `plane` has curves that are no functions of x: it is not read out. `handles` are points that are moved (handles.mjs).
// color: 0 … 7 of the palette, or "theory", "quiet", "ink"; the style sheet knows what they look like.
// `dots` is a radius, `bars` a width on the x axis, from 0 upwards or down.
// `moves` is the control that the cursor is moved for; without it the cursor of a run's time is "at".
// What has a tag in common lights up together: a curve its names, a cell those of its row and column.

const FONT = 12, LETTER = 7.8; // of the widest sans serif a system may have: what is beside a chart is cut off

const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 6 }); // to make one takes longer than to use it
export const format = (value) => {
  if (value === 0) return "0";
  if (value < 0) return `−${format(-value)}`;
  if (value >= 1e6 || value < 1e-3) {
    const [digits, power] = value.toExponential(1).split("e");
    const factor = Number(digits) === 1 ? "" : `${Number(digits)}·`;
    return `${factor}10${superscript(Number(power))}`;
  }
  return plain.format(Number(value.toPrecision(4)));
};
export const count = (n, noun) => `${format(n)} ${noun}${n === 1 ? "" : "s"}`;
const raised = {
  "-": "⁻",
  0: "⁰",
  1: "¹",
  2: "²",
  3: "³",
  4: "⁴",
  5: "⁵",
  6: "⁶",
  7: "⁷",
  8: "⁸",
  9: "⁹",
};
export const superscript = (n) => [...String(n)].map((each) => raised[each]).join("");
export const subscript = (n) => [...String(n)].map((each) => "₀₁₂₃₄₅₆₇₈₉"[each]).join("");

const escape = (text) => String(text).replace(/[&<>"]/g, (each) => `&#${each.charCodeAt(0)};`);
const paint = (color) =>
  `var(--ex-${typeof color === "number" ? `c${color % 8}` : color ?? "ink"})`;

export function ticks({ min, max, log, whole }, wanted) {
  if (whole && max - min <= 10) {
    return Array.from(
      { length: Math.floor(max) - Math.ceil(min) + 1 },
      (_, i) => Math.ceil(min) + i,
    );
  }
  let list = [];
  for (let n = wanted; list.length < 3 && n < wanted + 6; n++) {
    list = evenTicks({ min, max, log }, n);
  }
  return list;
}
function evenTicks({ min, max, log }, count) {
  if (log) {
    const low = Math.ceil(Math.log10(min) - 1e-9), high = Math.floor(Math.log10(max) + 1e-9);
    const every = Math.max(1, Math.ceil((high - low) / count)), list = [];
    for (let power = low; power <= high; power += every) list.push(10 ** power);
    return list;
  }
  const rough = (max - min) / count, unit = 10 ** Math.floor(Math.log10(rough));
  const step = unit * ([1, 2, 5, 10].find((each) => each * unit >= rough * 0.999) ?? 10);
  const list = [];
  for (let n = Math.ceil(min / step - 1e-9); n * step <= max + 1e-9 * step; n++) {
    list.push(Number((n * step).toPrecision(12)));
  }
  return list;
}

function scale({ min, max, log }, from, to) {
  const f = log ? Math.log10 : (value) => value;
  const low = f(min), slope = (to - from) / (f(max) - low);
  return (value) => from + (f(value) - low) * slope;
}

// What stands at a place, held to the axis.
function inverse({ min, max, log }, from, to) {
  const f = log ? Math.log10 : (value) => value;
  return (at) => {
    const value = f(min) + ((at - from) / (to - from)) * (f(max) - f(min));
    return Math.min(max, Math.max(min, log ? 10 ** value : value));
  };
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
    while (
      stacks.length && place(stacks.at(-1)) + reach(stacks.at(-1)) > place(stack) - reach(stack)
    ) {
      const { members, sum } = stacks.pop();
      stack = { members: [...members, ...stack.members], sum: sum + stack.sum };
    }
    stack.at = place(stack);
    stacks.push(stack);
  }
  for (const { members, at } of stacks) {
    members.forEach((each, i) => {
      each.at = at + gap * (i - (members.length - 1) / 2);
    });
  }
  return labels;
}

// A series that lies on others, to a pixel: they share the line, each in its turn.
function striped(series, sx, sy) {
  const groups = [];
  for (
    const each of series.filter((one) =>
      !one.dots && !one.bars && !one.dashed && !one.pale && one.x.length > 1
    )
  ) {
    const near = (other) =>
      other.x.length === each.x.length &&
      Array.from({ length: 25 }, (_, i) => Math.floor((i * (each.x.length - 1)) / 24))
        .every((i) =>
          Math.abs(sx(each.x[i]) - sx(other.x[i])) < 1 &&
          Math.abs(sy(each.y[i]) - sy(other.y[i])) < 1
        );
    const group = groups.find(([first]) => near(first));
    if (group) group.push(each);
    else groups.push([each]);
  }
  return new Map(
    groups.filter((group) => group.length > 1).flatMap((group) =>
      group.map((
        each,
        i,
      ) => [each, `;stroke-dasharray:7 ${7 * (group.length - 1)};stroke-dashoffset:${-7 * i}`])
    ),
  );
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

export const tagsOf = (
  { name, label, tags },
) => (tags ?? [name, label].filter((each) => typeof each === "string" && each));
const tagged = (tags) => `data-tags="${escape(tags.join("|"))}"`;
const text = (x, y, words, extra = "") =>
  `<text x="${x.toFixed(1)}" y="${y.toFixed(1)}" ${extra}>${escape(words)}</text>`;

function lines(panel, width, height, id) {
  const { x, y, series = [], levels = [], marks = [], cursor } = panel;
  const top = 14, bottom = height - 38, sy = scale(y, bottom, top);
  const ends = series.filter((each) => each.label !== false && each.x.length).map((each) => {
    let last = each.y.length - 1;
    while (last > 0 && !(each.y[last] <= y.max && each.x[last] <= x.max)) last--;
    return {
      name: each.label ?? each.name,
      x: each.x[last],
      value: each.y[last],
      color: each.color,
      tags: tagsOf(each),
      dot: each.x.length === 1 ? each.dots : 0,
    };
  }).filter((each) => each.name && Number.isFinite(each.value));
  // a single dot is named where it stands, and a pinned run that was shorter where it ends
  const short = ends.filter((each) =>
    each.x < x.min + 0.9 * (x.max - x.min) &&
    (each.dot || series.some((one) => one.pale && one.label === each.name))
  );
  const named = [
    ...levels.filter((each) => each.label !== false && each.name).map((each) => ({
      name: each.name,
      value: each.y,
      color: "theory",
      tags: [],
    })),
    ...ends.filter((each) => !short.includes(each)),
  ];
  const longest = Math.max(0, ...named.map((each) => each.name.length));
  const yTicks = ticks(y, Math.max(2, Math.floor(height / 52)));
  const left = 26 + LETTER * Math.max(...yTicks.map((each) => format(each).length));
  const half = (LETTER / 2) * Math.max(...ticks(x, 2).map((each) => format(each).length));
  const right = width - Math.max(half, longest ? Math.min(0.4 * width, 10 + LETTER * longest) : 14);
  const sx = scale(x, left, right);
  let upright = `<clipPath id="${id}"><rect x="${left}" y="${top - 4}" width="${
    right - left
  }" height="${bottom - top + 6}"/></clipPath>`;
  for (const each of yTicks) {
    const at = sy(each);
    upright += `<line class="ex-grid" x1="${left}" x2="${right}" y1="${at}" y2="${at}"/>`;
    upright += text(left - 6, at + 4, format(each), 'text-anchor="end"');
  }
  upright += text(
    0,
    0,
    y.label,
    `text-anchor="middle" class="ex-name" transform="translate(11 ${
      (top + bottom) / 2
    }) rotate(-90)"`,
  );
  let level = `<line class="ex-axis" x1="${left}" x2="${right}" y1="${bottom}" y2="${bottom}"/>`;
  for (const each of ticks(x, Math.max(2, Math.floor((right - left) / 76)))) {
    const at = sx(each);
    level += `<line class="ex-tick" x1="${at}" x2="${at}" y1="${bottom}" y2="${bottom + 4}"/>`;
    level += text(at, bottom + 17, format(each), 'text-anchor="middle"');
  }
  level += text((left + right) / 2, height - 4, x.label, 'text-anchor="middle" class="ex-name"');
  let svg = `<g clip-path="url(#${id})">`;
  for (const each of marks) {
    svg += `<line class="ex-mark" x1="${sx(each.x)}" x2="${
      sx(each.x)
    }" y1="${top}" y2="${bottom}"/>`;
  }
  for (const each of levels) {
    svg += `<line class="ex-level" x1="${left}" x2="${right}" y1="${sy(each.y)}" y2="${
      sy(each.y)
    }"/>`;
  }
  const stripes = striped(series, sx, sy);
  for (const each of series) {
    const style = `${each.dashed ? "ex-dashed" : "ex-solid"}${each.pale ? " ex-pale" : ""}`,
      tags = tagged(tagsOf(each));
    if (each.bars) svg += bars(each, tags, sx, sy);
    else if (!each.dots) {
      svg += `<path class="${style}" ${tags} style="stroke:${paint(each.color)}${
        stripes.get(each) ?? ""
      }" d="${path(each, sx, sy, x, y)}"/>`;
    } else {
      for (let i = 0; i < each.x.length; i++) {
        const inside = each.ring
          ? `fill:none;stroke:${paint(each.color)};stroke-width:2`
          : `fill:${paint(each.color)}`;
        svg += `<circle ${tags} class="ex-dot${each.pale ? " ex-pale" : ""}" r="${each.dots}" cx="${
          sx(each.x[i]).toFixed(1)
        }" cy="${sy(each.y[i]).toFixed(1)}" style="${inside}"/>`;
      }
    }
  }
  svg += "</g>";
  let line = "", names = "";
  if (cursor != null) {
    const at = sx(cursor).toFixed(1);
    line = `<line class="ex-cursor" x1="${at}" x2="${at}" y1="${top}" y2="${bottom}"/>`;
    if (panel.moves) line += `<circle class="ex-grip" r="5" cx="${at}" cy="${bottom}"/>`;
  }
  for (const [i, each] of marks.entries()) {
    names += text(
      sx(each.x) + 4,
      top + 8 + 14 * i,
      each.name,
      'class="ex-end" style="--c:var(--ex-theory)"',
    );
  }
  if (!panel.plane) {
    names += series.filter((each) => !each.dots && !each.dashed && !each.pale).map((each) =>
      cut(each, x, y, sx, top)
    ).join("");
  }
  const labels = named.map((each) => ({
    ...each,
    at: Math.max(top, Math.min(bottom, sy(each.value))),
  })).map((each) => ({ ...each, from: each.at }));
  for (const each of spread(labels, top, bottom)) {
    const style = `style="--c:${paint(each.color)}"`;
    if (Math.abs(each.at - each.from) > 5) {
      names += `<path class="ex-leader" ${style} d="M${right + 1},${each.from.toFixed(1)}L${
        right + 6
      },${each.at.toFixed(1)}"/>`;
    }
    names += text(
      right + (Math.abs(each.at - each.from) > 5 ? 8 : 6),
      each.at + 4,
      each.name,
      `class="ex-end" ${tagged(each.tags)} ${style}`,
    );
  }
  for (const each of short) {
    names += text(
      sx(each.x) + 4 + (each.dot || 0),
      Math.max(top, sy(each.value)) + 4,
      each.name,
      `class="ex-end" ${tagged(each.tags)} style="--c:${paint(each.color)}"`,
    );
  }
  return {
    parts: [upright, level, svg, line, names],
    place: {
      left,
      right,
      top,
      bottom,
      sx,
      sy,
      invert: inverse(x, left, right),
      rise: inverse(y, bottom, top),
    },
  };
}

function bars({ x, y, bars: wide, color, pale }, tags, sx, sy) {
  return Array.from(x, (at, i) => {
    const [left, right] = [sx(at - wide / 2), sx(at + wide / 2)],
      [top, bottom] = [sy(Math.max(0, y[i])), sy(Math.min(0, y[i]))];
    return `<rect ${tags} class="ex-dot${pale ? " ex-pale" : ""}" x="${left.toFixed(1)}" y="${
      top.toFixed(1)
    }" width="${(right - left).toFixed(1)}" height="${(bottom - top).toFixed(1)}" style="fill:${
      paint(color)
    }"/>`;
  }).join("");
}

// Where a curve leaves the picture at its top: a mark, and how high it goes.
function cut({ x, y, color }, { min, max }, { max: most }, sx, top) {
  let peak = -1;
  for (let i = 0; i < y.length; i++) {
    if (y[i] > most && x[i] >= min && x[i] <= max && (peak < 0 || y[i] > y[peak])) peak = i;
  }
  if (peak < 0) return "";
  const at = sx(x[peak]), end = at > sx(max) - 60;
  return `<path class="ex-cut" style="fill:${paint(color)}" d="M${(at - 5).toFixed(1)},${
    top - 1
  }h10l-5,-8z"/>` +
    text(
      at + (end ? -8 : 8),
      top - 2,
      format(Number(y[peak].toPrecision(3))),
      `class="ex-end" text-anchor="${end ? "end" : "start"}" style="--c:${paint(color)}"`,
    );
}

// A narrow cell has no room for the zero before the point, nor for two places after more.
function fixed(value, narrow) {
  const said = value.toFixed(narrow && Math.abs(value) >= 0.995 ? 1 : 2).replace(/^-0\.00$/, "0.00")
    .replace("-", "−");
  return narrow ? said.replace(/^(−?)0\./, "$1.") : said;
}

export const headerTag = (
  name,
  axis,
) => (Number.isFinite(Number(name)) ? `${axis.label} ${name}` : String(name));

function heat({ heat: { rows, columns, values, max, signed }, x, y }, width, height) {
  const left = 24 + LETTER * Math.max(...rows.map((each) => String(each).length));
  const top = 8, bottom = height - 58, right = width - 10;
  const cell = Math.min((right - left) / columns.length, (bottom - top) / rows.length);
  const word = 8 + LETTER * Math.max(...columns.map((each) => String(each).length)); // names of columns stand beside one another
  const wide = Math.min((right - left) / columns.length, Math.max(1.6 * cell, word, 36));
  const from = left + (right - left - wide * columns.length) / 2,
    middle = from + (wide * columns.length) / 2;
  const hue = (value) =>
    `fill:var(--ex-c${signed && value < 0 ? 1 : 0});opacity:${
      Math.min(1, Math.abs(value) / max).toFixed(3)
    }`;
  let svg = "", names = "";
  rows.forEach((row, i) => {
    const at = top + i * cell, rowTag = headerTag(row, y);
    names += text(from - 6, at + cell / 2 + 4, row, `text-anchor="end" ${tagged([rowTag])}`);
    columns.forEach((column, j) => {
      const value = values[i * columns.length + j];
      const size = `width="${(wide - 2).toFixed(1)}" height="${(cell - 2).toFixed(1)}"`;
      const box = `x="${(from + j * wide).toFixed(1)}" y="${at.toFixed(1)}" ${size} rx="2"`;
      svg += `<g class="ex-square" ${
        tagged([rowTag, headerTag(column, x)])
      }><rect class="ex-cell" ${box}/><rect ${box} style="${hue(value)}"/>`;
      if (wide > 28 && cell > 15) {
        const ink = Math.abs(value) > 0.75 * max ? "ex-on" : "ex-off";
        svg += text(
          from + j * wide + wide / 2 - 1,
          at + cell / 2 + 3,
          fixed(value, wide < 36),
          `text-anchor="middle" class="ex-value ${ink}"`,
        );
      }
      svg += "</g>";
    });
  });
  const under = top + rows.length * cell;
  columns.forEach((column, j) => {
    names += text(
      from + j * wide + wide / 2 - 1,
      under + 13,
      column,
      `text-anchor="middle" ${tagged([headerTag(column, x)])}`,
    );
  });
  names += text(middle, under + 31, x.label, 'text-anchor="middle" class="ex-name"');
  // the colours, and what the fullest stands for
  const shades = signed ? [-1, -0.6, -0.2, 0.2, 0.6, 1] : [0.05, 0.25, 0.5, 0.75, 1],
    most = format(Number(max.toPrecision(2)));
  const begin = middle - 8 * shades.length;
  shades.forEach((share, i) => {
    const box = `x="${(begin + 16 * i).toFixed(1)}" y="${under + 38}" width="15" height="9"`;
    names += `<rect class="ex-cell" ${box}/><rect ${box} style="${hue(share * max)}"/>`;
  });
  names += text(begin - 5, under + 47, signed ? `−${most}` : "0", 'text-anchor="end"');
  names += text(begin + 16 * shades.length + 4, under + 47, most);
  const turn = `translate(${from - left + 11} ${top + (rows.length * cell) / 2}) rotate(-90)`;
  names += text(0, 0, y.label, `text-anchor="middle" class="ex-name" transform="${turn}"`);
  return { parts: [svg, names], place: null };
}

// Draws the panel `width` units wide, of which one is `unit` pixels: text grows with the reader's own size.
// Says where in the picture (in units) a chart's lines are; nothing of a heat map. Of the parts only those that
// have changed are set: to lay their words out is most of what a redraw costs.
const drawn = new WeakMap();
export function draw(svg, panel, width, id, unit = 1) {
  const height = (panel.height ?? (width < 420 ? 220 : 254)) + (panel.heat ? 14 : 0);
  const { parts, place } = panel.heat
    ? heat(panel, width, height)
    : lines(panel, width, height, id);
  const box = `0 0 ${width} ${height}`, had = drawn.get(svg) ?? [];
  if (svg.getAttribute("viewBox") !== box) svg.setAttribute("viewBox", box);
  svg.style.height = `${height * unit}px`;
  if (had.length !== parts.length) svg.innerHTML = "<g></g>".repeat(parts.length);
  parts.forEach((each, i) => {
    if (each !== had[i] || had.length !== parts.length) svg.children[i].innerHTML = each;
  });
  drawn.set(svg, parts);
  return place;
}

// What is drawn, as rows of panel, series, x, y; of a heat map the series is the row and x the column.
export function rows(panel) {
  const { title, heat, series = [], levels = [], marks = [] } = panel;
  if (heat) {
    return [...heat.values].map((value, i) => {
      const at = Math.floor(i / heat.columns.length);
      return [title, heat.rows[at], heat.columns[i % heat.columns.length], value];
    });
  }
  return [
    ...series.flatMap((each) => Array.from(each.x, (x, i) => [title, each.name, x, each.y[i]])),
    ...levels.map((each) => [title, each.name, "", each.y]),
    ...marks.map((each) => [title, each.name, each.x, ""]),
  ].filter(([, , , y]) => y === "" || Number.isFinite(y));
}
