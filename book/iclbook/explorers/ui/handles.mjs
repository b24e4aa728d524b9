// @ts-check
// Points of a picture that the reader moves by pointer, finger and arrow keys.
//
// They are elements over the chart, which stay while it is drawn again. Tab goes to one point of a
// picture, Page Up and Page Down to the others. Where several points lie under the pointer, the
// nearest one lights up, shows its name, and is the one that a drag moves.

import { make, OWN_KEYS, unique } from "./dom.mjs";
import { decimal, short } from "./reading.mjs";
import { paint } from "./svg.mjs";

/** @import { Handle, Picture, Settings } from "../types.d.ts" */

const STEP = 4, FASTER = 5; // how far an arrow key moves, in units, and how much farther with Shift
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const PAGES = { PageUp: -1, PageDown: 1 };
const HELP = "Arrow keys move the point, with Shift further. " +
  "Page Up and Page Down go to the other points of the picture.";

/** Where the point stands in its picture. */
const placeOf = (/** @type {Picture} */ { place, panel }, /** @type {number} */ i) => [
  place.sx(panel.handles[i].x),
  place.sy(panel.handles[i].y),
];

/** Where the pointer is in a picture. */
function pointerIn(/** @type {Picture} */ { svg, width, unit }, event) {
  const box = svg.getBoundingClientRect();
  return [((event.clientX - box.left) / box.width) * width, (event.clientY - box.top) / unit];
}

/** Puts the element of a point where the point is, with its name and its place in words. */
function showPoint(/** @type {Picture} */ { panel, place, unit, points }, /** @type {number} */ i) {
  const { x, y, name, color, tags = [name] } = panel.handles[i], element = points[i];
  const left = place.sx(x), top = place.sy(y);
  element.style.left = `${Math.min(place.right, Math.max(place.left, left)) * unit}px`;
  element.style.top = `${Math.min(place.bottom, Math.max(place.top, top)) * unit}px`;
  // its name stands on the side where there is room
  element.classList.toggle("ex-leftward", left > (place.left + place.right) / 2);
  element.style.setProperty("--c", paint(color));
  const attributes = {
    "aria-label": name,
    "aria-valuemin": decimal(panel.x.min),
    "aria-valuemax": decimal(panel.x.max),
    "aria-valuenow": decimal(x),
    "aria-valuetext": `${panel.x.label} ${short(x)}, ${panel.y.label} ${short(y)}`,
    "data-tags": tags.join("|"),
  };
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
}

/**
 * `put` sets settings and returns what they were.
 * @param {{ root: HTMLElement, stage: HTMLElement, pictures: Picture[],
 *   put: (settings: Settings) => Settings }} explorer
 */
export function handles({ root, stage, pictures, put }) {
  /** @type {{ picture: Picture, i: number, by: number[], before: Settings | null } | null} */
  let dragged = null;
  /** @type {HTMLElement | undefined} */
  let aimed;
  const help = make("span", { hidden: true, id: `ex-help-${unique()}` }, HELP);
  root.append(help);

  const makePoint = () => {
    const role = { role: "slider", tabindex: -1, "aria-roledescription": "point" };
    return make("div", { ...OWN_KEYS, class: "ex-hand", ...role, "aria-describedby": help.id });
  };
  const moveTo = (/** @type {Picture} */ { place, panel }, i, x, y) =>
    put(panel.handles[i].to(place.invert(x), place.rise(y)));

  /** The picture of an element, and which of its points the element is. */
  function find(element) {
    const picture = pictures.find((each) => each.points.includes(element));
    return { picture, i: picture?.points.indexOf(element) };
  }
  /** The point nearest to the pointer, if the pointer is on one. */
  function under(event) {
    const { picture } = find(event.target);
    if (!picture) return {};
    const [x, y] = pointerIn(picture, event);
    const distances = picture.points.map((_, n) => {
      const [left, top] = placeOf(picture, n);
      return Math.hypot(left - x, top - y);
    });
    return { picture, i: distances.indexOf(Math.min(...distances)), x, y };
  }
  /** Shows which point a drag would move, or moves, and returns its element. */
  function aim(event) {
    const { picture, i } = dragged ?? under(event), now = picture?.points[i];
    if (aimed !== now) {
      aimed?.classList.remove("ex-aimed");
      now?.classList.add("ex-aimed");
      aimed = now;
    }
    return now;
  }
  function choose(/** @type {Picture} */ picture, /** @type {number} */ i) {
    picture.points.forEach((each, n) => {
      each.tabIndex = n === i ? 0 : -1;
    });
    picture.points[i].focus({ preventScroll: true });
  }

  function down(event) {
    const { picture, i, x, y } = under(event);
    if (!picture || event.button) return;
    event.preventDefault();
    const [left, top] = placeOf(picture, i);
    choose(picture, i);
    picture.points[i].setPointerCapture(event.pointerId);
    dragged = { picture, i, by: [left - x, top - y], before: null };
    aim(event);
  }
  function drag(event) {
    if (!dragged) return;
    const { picture, i, by } = dragged, [x, y] = pointerIn(picture, event);
    const before = moveTo(picture, i, x + by[0], y + by[1]);
    dragged.before ??= before;
  }
  function up(event) {
    if (dragged?.before && event.type === "pointercancel") put(dragged.before);
    dragged = null;
  }
  function key(event) {
    const { picture, i } = find(event.target);
    if (!picture || !(event.key in ARROWS || event.key in PAGES)) return;
    event.preventDefault();
    event.stopPropagation();
    const count = picture.points.length;
    if (event.key in PAGES) return choose(picture, (i + PAGES[event.key] + count) % count);
    const step = STEP * (event.shiftKey ? FASTER : 1), [x, y] = placeOf(picture, i);
    const [right, lower] = ARROWS[event.key];
    moveTo(picture, i, x + step * right, y + step * lower);
  }

  /** Puts the points in their places, after the pictures are drawn. */
  function after() {
    for (const picture of pictures) {
      const { panel, place, frame, points } = picture;
      const list = (place && panel.handles) || [];
      while (points.length < list.length) {
        points.push(makePoint());
        frame.append(points.at(-1));
      }
      points.splice(list.length).forEach((each) => each.remove());
      list.forEach((_, i) => showPoint(picture, i));
      if (list.length && points.every((each) => each.tabIndex < 0)) points[0].tabIndex = 0;
    }
  }
  const listeners = {
    pointerdown: down,
    pointermove: drag,
    pointerup: up,
    pointercancel: up,
    keydown: key,
  };
  for (const [name, listener] of Object.entries(listeners)) stage.addEventListener(name, listener);
  return { after, aim };
}
