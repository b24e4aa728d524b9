// What a chart answers to a pointer, a finger and the arrow keys: values at a place, on all charts of the
// explorer that share its axis; the cursor of a chart that has one is moved there; and what has a name in
// common, in curves, matrices, labels and bars, lights up together.

import { format } from "./format.mjs";
import { headerTag, tagsOf } from "./svg.mjs";
import { make } from "./dom.mjs";

const NEAR = 14, SLOP = 8, MOST = 9; // units of the picture; pixels; lines of values

const digits = new Intl.NumberFormat("en", { useGrouping: false, maximumFractionDigits: 12 });
const exact = (x) => (Number.isInteger(x) ? x.toLocaleString("en") : short(x));
// without an exponent, which an attribute of a slider does not take
export const decimal = (value) => digits.format(value);
export const short = (value) => format(Number(value.toPrecision(3)));

// y at x between the points of a series, null outside; of dots, the one that stands there.
function valueAt({ x, y, dots }, at, within) {
  if (dots) {
    const i = Array.from(x).findIndex((each) => Math.abs(each - at) <= within);
    return i < 0 ? null : y[i];
  }
  let high = 0;
  while (high < x.length && x[high] < at) high++;
  if (high === x.length) return null;
  if (x[high] === at || high === 0) return x[high] === at ? y[high] : null;
  return y[high - 1] + ((at - x[high - 1]) / (x[high] - x[high - 1])) * (y[high] - y[high - 1]);
}

// A picture without a read-out in words: the curves of a plane, the cells of a matrix.
const paths = ({ series }) =>
  series.filter(({ dots, dashed, x }) => !dots && !dashed && x.length).map(({ name, x, y }) =>
    `${name}: from ${short(x[0])}, ${short(y[0])} to ${short(x[x.length - 1])}, ${
      short(y[y.length - 1])
    }`
  );
const cells = ({ heat: { rows, columns, values }, y }) =>
  rows.map((row, i) =>
    `${headerTag(row, y)}: ${
      columns.map((column, j) => `${column} ${values[i * columns.length + j].toFixed(2)}`).join(
        ", ",
      )
    }`
  );

// `pictures` are { figure, svg, panel, place, unit, width }, kept up to date by the shell; `move(key, x)` sets a control
// or the time; `root` holds all that can light up; `aim(event)` is the point that a drag would move (handles.mjs).
export function readout({ root, pictures, move, aim }) {
  let read = null, lit = [], held = null;

  const reads = ({ place, panel }) => place && !panel.plane;
  const sharing = (one, other) => reads(other) && other.panel.x.label === one.panel.x.label;
  // the recorded place that is nearest
  const snap = ({ panel }, at) => {
    const first = panel.series.find((each) =>
      !each.dots && !each.dashed && !each.pale && each.x.length > 1
    );
    if (!first) return at;
    const f = panel.x.log ? Math.log : (value) => value;
    return first.x.reduce(
      (best, each) => (Math.abs(f(each) - f(at)) < Math.abs(f(best) - f(at)) ? each : best),
      first.x[0],
    );
  };
  const found = ({ panel, place }, at) => {
    const within = Math.abs(place.invert(place.sx(at) + 6) - at) + 1e-12;
    return (panel.series ?? []).map((series) => ({ series, value: valueAt(series, at, within) }))
      .filter(({ series, value }) => value !== null && Number.isFinite(value) && series.name)
      .sort((a, b) =>
        Boolean(a.series.dashed) - Boolean(b.series.dashed) ||
        Boolean(a.series.pale) - Boolean(b.series.pale)
      );
  };
  const words = (picture, at) =>
    `${picture.panel.x.label} ${exact(at)}: ` +
    found(picture, at).slice(0, MOST).map(({ series, value }) => `${series.name} ${short(value)}`)
      .join(", ");

  function paintRead() {
    for (const picture of pictures) {
      picture.svg.querySelector(".ex-read")?.remove();
      picture.values.hidden = true;
    }
    if (!read?.from.place) return;
    for (
      const picture of pictures.filter((each) => !each.figure.hidden && sharing(read.from, each))
    ) {
      const { place, unit, width, values } = picture,
        x = place.sx(read.at),
        all = found(picture, read.at).slice(0, MOST);
      if (!all.length || x < place.left - 1 || x > place.right + 1) continue;
      const group = document.createElementNS("http://www.w3.org/2000/svg", "g");
      group.setAttribute("class", "ex-read");
      group.innerHTML = `<line x1="${x}" x2="${x}" y1="${place.top}" y2="${place.bottom}"/>` +
        all.map(({ value }) => place.sy(value)).filter((y) => y >= place.top && y <= place.bottom)
          .map((y) => `<circle r="3" cx="${x}" cy="${y}"/>`).join("");
      picture.svg.append(group);
      values.replaceChildren(
        make("b", {}, `${picture.panel.x.label} ${exact(read.at)}`),
        ...all.map(({ series, value }) =>
          make("span", {}, `${series.name} `, make("i", {}, short(value)))
        ),
      );
      values.hidden = false;
      const left = x > width / 2;
      values.style.left = left ? "" : `${(x + 8) * unit}px`;
      values.style.right = left ? `${(width - x + 8) * unit}px` : "";
    }
  }
  function light(tags) {
    if (tags.join() === lit.join()) return;
    lit = tags;
    paintLit();
  }
  function paintLit() {
    let any = false;
    for (const each of root.querySelectorAll("[data-tags]")) {
      const on = lit.length > 0 && each.dataset.tags.split("|").some((tag) => lit.includes(tag));
      each.classList.toggle("ex-lit", on);
      any ||= on;
    }
    root.classList.toggle("ex-lighting", any);
  }

  // ---- pointer and finger
  const pictureOf = (event) => {
    const svg = event.target.closest?.(".ex-panels svg"),
      picture = pictures.find((each) => each.svg === svg);
    if (!picture || !reads(picture)) return {};
    const box = svg.getBoundingClientRect(),
      x = ((event.clientX - box.left) / box.width) * picture.width;
    return { picture, x, y: (event.clientY - box.top) / picture.unit };
  };
  const inside = ({ place }, x, y) =>
    x > place.left - 6 && x < place.right + 6 && y > 0 && y < place.bottom + 12;
  function over(event) {
    const { picture, x, y } = pictureOf(event);
    if (held) return drag(event);
    const tags = (each) => each?.dataset.tags.split("|").filter(Boolean) ?? [], aimed = aim(event);
    const named = aimed ? tags(aimed).slice(0, 1) : tags(event.target.closest?.("[data-tags]")); // a point's first tag is its own
    if (!picture || !inside(picture, x, y)) {
      light(named);
      return clear();
    }
    const at = snap(picture, picture.place.invert(x));
    read = { from: picture, at };
    const near = found(picture, at).map((
      { series, value },
    ) => [Math.abs(picture.place.sy(value) - y), series])
      .filter(([far, series]) => far < NEAR && !series.pale).sort(([a], [b]) => a - b);
    light(named.length ? named : near.length ? tagsOf(near[0][1]) : []);
    paintRead();
  }
  function clear() {
    if (!read) return;
    read = null;
    paintRead();
  }
  function down(event) {
    const { picture, x, y } = pictureOf(event);
    if (!picture || !inside(picture, x, y) || event.button) return;
    const touch = event.pointerType === "touch", { moves, cursor } = picture.panel;
    if (!moves) return touch ? over(event) : undefined;
    held = { picture, moves, from: event.clientX, going: !touch, before: cursor };
    picture.svg.setPointerCapture(event.pointerId);
    if (!touch) drag(event);
  }
  function drag(event) {
    if (!held.going && Math.abs(event.clientX - held.from) < SLOP) return;
    held.going = true;
    const { picture, moves } = held, box = picture.svg.getBoundingClientRect();
    move(moves, picture.place.invert(((event.clientX - box.left) / box.width) * picture.width));
  }
  function up(event) {
    if (!held) return;
    const done = held;
    if (event.type === "pointercancel") move(done.moves, done.before);
    else if (!done.going) { // a tap
      done.going = true;
      drag(event);
    }
    held = null;
  }

  // ---- arrow keys, on the chart that has the focus
  const KEYS = {
    ArrowRight: 5,
    ArrowUp: 5,
    ArrowLeft: -5,
    ArrowDown: -5,
    PageUp: 50,
    PageDown: -50,
    Home: -1e5,
    End: 1e5,
  };
  function key(event) {
    const picture = pictures.find((each) => each.svg === event.target);
    if (!picture || !reads(picture) || !(event.key in KEYS)) return;
    event.preventDefault();
    event.stopPropagation();
    const { place, panel } = picture, from = panel.moves ? panel.cursor : read?.at ?? panel.x.min;
    const by = KEYS[event.key], at = place.invert(place.sx(from) + by);
    if (panel.moves) move(panel.moves, at, Math.sign(by));
    else {
      const { x } = panel.series.find((each) => !each.dots && !each.dashed && each.x.length > 1) ??
        { x: [] };
      const next = snap(picture, at), row = Array.from(x).indexOf(next);
      read = {
        from: picture,
        at: next === from && x.length
          ? x[Math.min(x.length - 1, Math.max(0, row + Math.sign(by)))]
          : next,
      };
      after();
    }
  }
  function focus(event) {
    const picture = pictures.find((each) => each.svg === event.target);
    if (!picture || !reads(picture) || !picture.svg.matches(":focus-visible")) return;
    read = { from: picture, at: snap(picture, picture.panel.cursor ?? picture.panel.x.min) };
    after();
  }

  // ---- what is said of every picture, after it is drawn
  function after() {
    const focused = pictures.find((each) => each.svg === document.activeElement);
    if (read && focused === read.from && focused.panel.moves) {
      read.at = snap(focused, focused.panel.cursor);
    }
    for (const picture of pictures) {
      const { svg, panel, place } = picture;
      if (reads(picture)) {
        const at = read && sharing(read.from, picture)
          ? read.at
          : snap(picture, panel.cursor ?? panel.x.min);
        for (
          const [name, value] of Object.entries({
            role: "slider",
            tabindex: 0,
            "aria-label": panel.title,
            "aria-valuemin": decimal(panel.x.min),
            "aria-valuemax": decimal(panel.x.max),
            "aria-valuenow": decimal(at),
            "aria-valuetext": words(picture, at),
          })
        ) {
          svg.setAttribute(name, value);
        }
      } else {
        const said = place ? paths(panel) : cells(panel);
        for (
          const name of [
            "tabindex",
            "aria-valuemin",
            "aria-valuemax",
            "aria-valuenow",
            "aria-valuetext",
          ]
        ) svg.removeAttribute(name);
        svg.setAttribute("role", "img");
        svg.setAttribute("aria-label", `${panel.title}. ${said.join("; ")}`);
      }
      svg.classList.toggle("ex-moves", Boolean(place && panel.moves));
    }
    paintRead();
    if (lit.length) paintLit();
  }
  const listeners = {
    pointermove: over,
    pointerdown: down,
    pointerup: up,
    pointercancel: up,
    keydown: key,
    focusin: focus,
    pointerleave: (event) => {
      if (!held) {
        clear();
        light([]);
        aim(event);
      }
    },
    focusout: clear,
  };
  for (const [name, listener] of Object.entries(listeners)) root.addEventListener(name, listener);
  return { after };
}
