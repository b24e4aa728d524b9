// Points of a picture that are moved in it: by pointer, finger and arrow keys.
//
// A panel's `handles` are { x, y, name, color, to }; `to(x, y)` are the settings that put the point there. They are
// elements over the chart, which stay while it is drawn anew. Tab finds one of a picture's, Page Up and Down the others.
// Where several lie under a pointer it is the nearest that lights up, says its name, and is the one that a drag moves.

import { make, OWN_KEYS, unique } from "./dom.mjs";
import { decimal, short } from "./readout.mjs";

const STEP = 4, FAR = 5; // units of the picture an arrow key, and how many times as far with Shift
const ARROWS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const PAGES = { PageUp: -1, PageDown: 1 };

// `put(settings)` sets them and says what they were.
export function handles({ root, stage, pictures, put }) {
  let held = null, aimed;
  const help = make(
    "span",
    { hidden: true, id: `ex-help-${unique()}` },
    "Arrow keys move the point, with Shift further. Page Up and Page Down go to the other points of the picture.",
  );
  root.append(help);

  const handle = () =>
    make("div", {
      ...OWN_KEYS,
      class: "ex-hand",
      role: "slider",
      tabindex: -1,
      "aria-roledescription": "point",
      "aria-describedby": help.id,
    });
  const at = ({ place, panel }, i) => [place.sx(panel.handles[i].x), place.sy(panel.handles[i].y)];
  const go = ({ place, panel }, i, x, y) =>
    put(panel.handles[i].to(place.invert(x), place.rise(y)));
  const of = (element) => {
    const picture = pictures.find((each) => each.hands.includes(element));
    return { picture, i: picture?.hands.indexOf(element) };
  };
  function point(event, { svg, width, unit }) {
    const box = svg.getBoundingClientRect();
    return [((event.clientX - box.left) / box.width) * width, (event.clientY - box.top) / unit];
  }
  // Of the points under a pointer the nearest, none where there is none.
  function under(event) {
    const { picture } = of(event.target);
    if (!picture) return {};
    const [x, y] = point(event, picture),
      far = picture.hands.map((_, n) => Math.hypot(at(picture, n)[0] - x, at(picture, n)[1] - y));
    return { picture, i: far.indexOf(Math.min(...far)), x, y };
  }
  // It lies above the others and shows its name; while one is held, that one. Its element is returned.
  function aim(event) {
    const { picture, i } = held ?? under(event), now = picture?.hands[i];
    if (aimed !== now) {
      aimed?.classList.remove("ex-aimed");
      now?.classList.add("ex-aimed");
      aimed = now;
    }
    return now;
  }
  function choose(picture, i) {
    picture.hands.forEach((each, n) => {
      each.tabIndex = n === i ? 0 : -1;
    });
    picture.hands[i].focus({ preventScroll: true });
  }

  function down(event) {
    const { picture, i, x, y } = under(event);
    if (!picture || event.button) return;
    event.preventDefault();
    const [fromX, fromY] = at(picture, i);
    choose(picture, i);
    picture.hands[i].setPointerCapture(event.pointerId);
    held = { picture, i, by: [fromX - x, fromY - y], before: null };
    aim(event);
  }
  function drag(event) {
    if (!held) return;
    const { picture, i, by } = held, [x, y] = point(event, picture);
    const before = go(picture, i, x + by[0], y + by[1]);
    held.before ??= before;
  }
  function up(event) {
    if (held?.before && event.type === "pointercancel") put(held.before);
    held = null;
  }
  function key(event) {
    const { picture, i } = of(event.target);
    if (!picture || !(event.key in ARROWS || event.key in PAGES)) return;
    event.preventDefault();
    event.stopPropagation();
    if (event.key in PAGES) {
      return choose(picture, (i + PAGES[event.key] + picture.hands.length) % picture.hands.length);
    }
    const far = STEP * (event.shiftKey ? FAR : 1), [x, y] = at(picture, i);
    go(picture, i, x + far * ARROWS[event.key][0], y + far * ARROWS[event.key][1]);
  }

  // where the points stand, after the pictures are drawn
  function after() {
    for (const picture of pictures) {
      const { panel, place, unit, frame } = picture, list = (place && panel.handles) || [];
      while (picture.hands.length < list.length) {
        frame.append(picture.hands[picture.hands.push(handle()) - 1]);
      }
      picture.hands.splice(list.length).forEach((each) => each.remove());
      list.forEach(({ x, y, name, color, tags = [name] }, i) => {
        const each = picture.hands[i], [left, top] = at(picture, i);
        each.style.left = `${Math.min(place.right, Math.max(place.left, left)) * unit}px`;
        each.style.top = `${Math.min(place.bottom, Math.max(place.top, top)) * unit}px`;
        each.classList.toggle("ex-leftward", left > (place.left + place.right) / 2); // where its name has room
        each.style.setProperty(
          "--c",
          `var(--ex-${typeof color === "number" ? `c${color % 8}` : color ?? "ink"})`,
        );
        const said = {
          "aria-label": name,
          "aria-valuemin": decimal(panel.x.min),
          "aria-valuemax": decimal(panel.x.max),
          "aria-valuenow": decimal(x),
          "aria-valuetext": `${panel.x.label} ${short(x)}, ${panel.y.label} ${short(y)}`,
          "data-tags": tags.join("|"),
        };
        for (const [attribute, value] of Object.entries(said)) each.setAttribute(attribute, value);
      });
      if (list.length && picture.hands.every((each) => each.tabIndex < 0)) {
        picture.hands[0].tabIndex = 0;
      }
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
