// @ts-check
// How the pictures answer a pointer, a finger and the arrow keys. All charts with the same axis show
// their values at a place. The cursor of a chart that has one is moved. Curves, cells, labels and bars
// with a tag in common light up together.

import { make } from "./dom.mjs";
import {
  decimal,
  exact,
  firstValuesAt,
  inWords,
  isReadable,
  nearestPlace,
  sharesAxis,
  short,
  valuesAt,
  wordsAt,
} from "./reading.mjs";
import { tagsOf } from "./svg.mjs";

/** @import { Picture, Series } from "../types.d.ts" */

const NEAR = 14; // a curve lights up this near, in units of the picture
const SLOP = 8; // a finger that moves fewer pixels taps
const KEYS = {
  ...{ ArrowRight: 5, ArrowUp: 5, ArrowLeft: -5, ArrowDown: -5 }, // units of the picture
  ...{ PageUp: 50, PageDown: -50, Home: -1e5, End: 1e5 },
};
const SLIDER = ["tabindex", "aria-valuemin", "aria-valuemax", "aria-valuenow", "aria-valuetext"];

/** Lights up all that has a tag in common with what is pointed at. */
function createLighting(/** @type {HTMLElement} */ root) {
  /** @type {string[]} */
  let lit = [];
  function repaint() {
    let isAny = false;
    for (const element of root.querySelectorAll("[data-tags]")) {
      const tags = element.getAttribute("data-tags").split("|");
      const isLit = lit.length > 0 && tags.some((tag) => lit.includes(tag));
      element.classList.toggle("ex-lit", isLit);
      isAny ||= isLit;
    }
    root.classList.toggle("ex-lighting", isAny);
  }
  function light(/** @type {string[]} */ tags) {
    if (tags.join() === lit.join()) return;
    lit = tags;
    repaint();
  }
  return { light, repaint: () => lit.length && repaint() };
}

/** Draws the line at a place, a dot on each curve, and the values in a box beside it. */
function showValues(/** @type {Picture} */ picture, /** @type {number} */ at) {
  const { place, panel, svg, unit, width, values } = picture, { left, right, top, bottom } = place;
  const x = place.sx(at), all = firstValuesAt(picture, at);
  if (!all.length || x < left - 1 || x > right + 1) return;
  const dots = all.map(({ value }) => place.sy(value)).filter((y) => y >= top && y <= bottom);
  const group = document.createElementNS("http://www.w3.org/2000/svg", "g");
  group.setAttribute("class", "ex-read");
  group.innerHTML = `<line x1="${x}" x2="${x}" y1="${top}" y2="${bottom}"/>` +
    dots.map((y) => `<circle r="3" cx="${x}" cy="${y}"/>`).join("");
  svg.append(group);
  values.replaceChildren(
    make("b", {}, `${panel.x.label} ${exact(at)}`),
    ...all.map(({ series, value }) =>
      make("span", {}, `${series.name} `, make("i", {}, short(value)))
    ),
  );
  values.hidden = false;
  const isLeft = x > width / 2; // on the side where there is room
  values.style.left = isLeft ? "" : `${(x + 8) * unit}px`;
  values.style.right = isLeft ? `${(width - x + 8) * unit}px` : "";
}

/** Tells assistive technology what a picture is: a slider that is read out, or an image. */
function describe(/** @type {Picture} */ picture, /** @type {number | null} */ at) {
  const { svg, panel } = picture;
  const slider = () => ({
    role: "slider",
    tabindex: 0,
    "aria-label": panel.title,
    "aria-valuemin": decimal(panel.x.min),
    "aria-valuemax": decimal(panel.x.max),
    "aria-valuenow": decimal(at),
    "aria-valuetext": wordsAt(picture, at),
  });
  if (at === null) { for (const name of SLIDER) svg.removeAttribute(name); }
  const attributes = at === null ? { role: "img", "aria-label": inWords(panel) } : slider();
  for (const [name, value] of Object.entries(attributes)) svg.setAttribute(name, String(value));
}

const tagsOn = (element) => element?.getAttribute("data-tags").split("|").filter(Boolean) ?? [];
const isInside = (/** @type {Picture} */ { place }, x, y) =>
  x > place.left - 6 && x < place.right + 6 && y > 0 && y < place.bottom + 12;

/**
 * `move(key, x, by)` sets what a cursor stands for; `aim(event)` returns the element of the point that
 * a drag would move (handles.mjs). The pictures are kept up to date by drawing.mjs.
 * @param {{ root: HTMLElement, pictures: Picture[],
 *   move: (key: string, x: number, by?: number) => void, aim: (event: Event) => Element }} explorer
 */
export function readout({ root, pictures, move, aim }) {
  /** @type {{ from: Picture, at: number } | null} The place that is read out. */
  let read = null;
  const { light, repaint } = createLighting(root);

  function showRead() {
    for (const { svg, values } of pictures) {
      svg.querySelector(".ex-read")?.remove();
      values.hidden = true;
    }
    if (!read?.from.place) return;
    for (const each of pictures) {
      if (!each.figure.hidden && sharesAxis(read.from, each)) showValues(each, read.at);
    }
  }
  function clear() {
    if (!read) return;
    read = null;
    showRead();
  }
  /** Reads out where the pointer is, and lights up what it is on. */
  function point(event, /** @type {Picture | undefined} */ picture, x, y) {
    const aimed = aim(event);
    // the first tag of a point is its own name
    const on = aimed ? tagsOn(aimed).slice(0, 1) : tagsOn(event.target.closest?.("[data-tags]"));
    if (!picture || !isInside(picture, x, y)) {
      light(on);
      return clear();
    }
    const at = nearestPlace(picture, picture.place.invert(x));
    read = { from: picture, at };
    const near = valuesAt(picture, at)
      .map(({ series, value }) => ({ series, far: Math.abs(picture.place.sy(value) - y) }))
      .filter(({ series, far }) => far < NEAR && !series.pale)
      .sort((a, b) => a.far - b.far);
    light(on.length ? on : near.length ? tagsOf(near[0].series) : []);
    showRead();
  }

  const pictureOf = (/** @type {Event} */ { target }) => {
    const picture = pictures.find(({ svg }) => svg === target);
    return picture && isReadable(picture) ? picture : null;
  };
  function key(event) {
    const picture = pictureOf(event);
    if (!picture || !(event.key in KEYS)) return;
    event.preventDefault();
    event.stopPropagation();
    const { place, panel } = picture, by = KEYS[event.key];
    const from = panel.moves ? panel.cursor : read?.at ?? panel.x.min;
    const at = place.invert(place.sx(from) + by);
    if (panel.moves) return move(panel.moves, at, Math.sign(by));
    read = { from: picture, at: nextPlace(picture, from, at, Math.sign(by)) };
    after();
  }
  function focus(event) {
    const picture = pictureOf(event);
    if (!picture?.svg.matches(":focus-visible")) return;
    read = { from: picture, at: startOf(picture) };
    after();
  }
  const startOf = (/** @type {Picture} */ picture) =>
    nearestPlace(picture, picture.panel.cursor ?? picture.panel.x.min);

  /** Brings words and values up to date, after the pictures are drawn. */
  function after() {
    const focused = pictures.find(({ svg }) => svg === document.activeElement);
    if (read && focused === read.from && focused.panel.moves) {
      read.at = nearestPlace(focused, focused.panel.cursor);
    }
    for (const picture of pictures) {
      const at = read && sharesAxis(read.from, picture) ? read.at : null;
      describe(picture, isReadable(picture) ? at ?? startOf(picture) : null);
      const isMovable = Boolean(picture.place && picture.panel.moves);
      picture.svg.classList.toggle("ex-moves", isMovable);
    }
    showRead();
    repaint();
  }
  const cursor = createCursorDrag({ pictures, move, point });
  const leave = (event) => {
    if (cursor.isDragged()) return;
    clear();
    light([]);
    aim(event);
  };
  const others = { keydown: key, focusin: focus, pointerleave: leave, focusout: clear };
  const listeners = { ...cursor.listeners, ...others };
  for (const [name, listener] of Object.entries(listeners)) {
    root.addEventListener(name, listener);
  }
  return { after };
}

/** The next place that is recorded, if the arrow key stayed on the last one. */
function nextPlace(/** @type {Picture} */ picture, from, at, by) {
  const isCurve = (/** @type {Series} */ { dots, dashed, x }) => !dots && !dashed && x.length > 1;
  const x = Array.from(picture.panel.series.find(isCurve)?.x ?? []);
  const next = nearestPlace(picture, at);
  if (next !== from || !x.length) return next;
  return x[Math.min(x.length - 1, Math.max(0, x.indexOf(next) + by))];
}

/** Drags the cursor of a chart: a pointer at once, a finger once it has moved, or where it taps. */
function createCursorDrag({ pictures, move, point }) {
  /** @type {{ picture: Picture, moves: string, from: number, isGoing: boolean, before: number }} */
  let dragged = null;

  /** The picture under the pointer, and where in it the pointer is. */
  function find(event) {
    const svg = event.target.closest?.(".ex-panels svg");
    const picture = pictures.find((each) => each.svg === svg);
    if (!picture || !isReadable(picture)) return {};
    const box = svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * picture.width;
    return { picture, x, y: (event.clientY - box.top) / picture.unit };
  }
  function over(event) {
    if (dragged) return drag(event);
    const { picture, x, y } = find(event);
    point(event, picture, x, y);
  }
  function down(event) {
    const { picture, x, y } = find(event);
    if (!picture || !isInside(picture, x, y) || event.button) return;
    const isTouch = event.pointerType === "touch", { moves, cursor } = picture.panel;
    if (!moves) return isTouch ? over(event) : undefined;
    dragged = { picture, moves, from: event.clientX, isGoing: !isTouch, before: cursor };
    picture.svg.setPointerCapture(event.pointerId);
    if (!isTouch) drag(event);
  }
  function drag(event) {
    if (!dragged.isGoing && Math.abs(event.clientX - dragged.from) < SLOP) return;
    dragged.isGoing = true;
    const { picture, moves } = dragged, box = picture.svg.getBoundingClientRect();
    move(moves, picture.place.invert(((event.clientX - box.left) / box.width) * picture.width));
  }
  function up(event) {
    if (!dragged) return;
    const { moves, before, isGoing } = dragged;
    if (event.type === "pointercancel") move(moves, before);
    else if (!isGoing) {
      dragged.isGoing = true;
      drag(event);
    }
    dragged = null;
  }
  const listeners = { pointermove: over, pointerdown: down, pointerup: up, pointercancel: up };
  return { listeners, isDragged: () => dragged !== null };
}
