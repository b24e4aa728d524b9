// @ts-check
// The names beside the curves of a chart, moved apart where they would cover one another.

import { format } from "./format.mjs";
import { paint, tagged, tagsOf, text } from "./svg.mjs";

/** @import { Panel, Place, Series } from "../types.d.ts" */

const LINE = 13; // the height of a label
const MOVED = 5; // a label that is moved further than this has a line to its curve

/** The name of a curve, and the last point where it is in the picture. */
function end(/** @type {Series} */ series, /** @type {Panel} */ { x, y }) {
  let last = series.y.length - 1;
  while (last > 0 && !(series.y[last] <= y.max && series.x[last] <= x.max)) last--;
  return {
    name: /** @type {string} */ (series.label ?? series.name),
    x: series.x[last],
    value: series.y[last],
    color: series.color,
    tags: tagsOf(series),
    radius: series.x.length === 1 ? series.dots : 0,
  };
}

/**
 * Moves labels apart as little as can be: neighbours that would cover each other are stacked around
 * the mean of their places.
 * @template {{ at: number }} Label
 * @param {Label[]} list
 */
function spread(list, top, bottom) {
  const gap = Math.min(LINE, (bottom - top) / list.length);
  /** @type {{ members: Label[], sum: number }[]} */
  const stacks = [];
  const middle = ({ members, sum }) => {
    const half = (gap * (members.length - 1)) / 2;
    return Math.max(top + half, Math.min(bottom - half, sum / members.length));
  };
  const reach = ({ members }) => (gap * members.length) / 2;
  const overlap = (above, below) => middle(above) + reach(above) > middle(below) - reach(below);
  for (const each of list.sort((a, b) => Math.round(a.at) - Math.round(b.at))) {
    let stack = { members: [each], sum: each.at };
    while (stacks.length && overlap(stacks.at(-1), stack)) {
      const { members, sum } = stacks.pop();
      stack = { members: [...members, ...stack.members], sum: sum + stack.sum };
    }
    stacks.push(stack);
  }
  for (const stack of stacks) {
    const from = middle(stack) - (gap * (stack.members.length - 1)) / 2;
    stack.members.forEach((each, i) => each.at = from + gap * i);
  }
  return list;
}

/** Where a curve leaves the picture at its top: a mark, and how high it goes. */
function peakMark(
  /** @type {Series} */ { x, y, color },
  /** @type {Panel} */ panel,
  /** @type {Place} */ { sx, top },
) {
  const { min, max } = panel.x;
  let peak = -1;
  for (let i = 0; i < y.length; i++) {
    const isOutside = y[i] > panel.y.max && x[i] >= min && x[i] <= max;
    if (isOutside && (peak < 0 || y[i] > y[peak])) peak = i;
  }
  if (peak < 0) return "";
  const at = sx(x[peak]), isAtEnd = at > sx(max) - 60;
  const arrow = `M${(at - 5).toFixed(1)},${top - 1}h10l-5,-8z`;
  const style = `text-anchor="${isAtEnd ? "end" : "start"}" style="--c:${paint(color)}"`;
  const height = format(Number(y[peak].toPrecision(3)));
  return `<path class="ex-cut" style="fill:${paint(color)}" d="${arrow}"/>` +
    text(at + (isAtEnd ? -8 : 8), top - 2, height, `class="ex-end" ${style}`);
}

/**
 * The labels of a panel: how many letters the longest beside the chart has, and how to draw them.
 * @param {Panel} panel
 */
export function labels(panel) {
  const { x, series = [], levels = [], marks = [] } = panel;
  const ends = series.filter((each) => each.label !== false && each.x.length)
    .map((each) => end(each, panel))
    .filter(({ name, value }) => name && Number.isFinite(value));
  // A single dot is named where it stands, and a pinned run that was shorter where it ends.
  const isPinned = ({ name }) => series.some((each) => each.pale && each.label === name);
  const inside = ends.filter((each) =>
    each.x < x.min + 0.9 * (x.max - x.min) && (each.radius || isPinned(each))
  );
  const beside = [
    ...levels.filter(({ label, name }) => label !== false && name)
      .map(({ name, y }) => ({ name, value: y, color: /** @type {const} */ ("theory"), tags: [] })),
    ...ends.filter((each) => !inside.includes(each)),
  ];

  function draw(/** @type {Place} */ place) {
    const { right, top, bottom, sx, sy } = place;
    const curves = panel.plane
      ? []
      : series.filter((each) => !each.dots && !each.dashed && !each.pale);
    const atMark = (mark, i) =>
      text(
        sx(mark.x) + 4,
        top + 8 + 14 * i,
        mark.name,
        'class="ex-end" style="--c:var(--ex-theory)"',
      );
    const besideEnd = ({ name, color, tags, at, from }) => {
      const style = `style="--c:${paint(color)}"`, isMoved = Math.abs(at - from) > MOVED;
      const way = `M${right + 1},${from.toFixed(1)}L${right + 6},${at.toFixed(1)}`;
      const leader = isMoved ? `<path class="ex-leader" ${style} d="${way}"/>` : "";
      const attributes = `class="ex-end" ${tagged(tags)} ${style}`;
      return leader + text(right + (isMoved ? 8 : 6), at + 4, name, attributes);
    };
    const atEnd = (each) => {
      const attributes = `class="ex-end" ${tagged(each.tags)} style="--c:${paint(each.color)}"`;
      const left = sx(each.x) + 4 + (each.radius || 0);
      return text(left, Math.max(top, sy(each.value)) + 4, each.name, attributes);
    };
    const placed = beside.map((each) => {
      const at = Math.max(top, Math.min(bottom, sy(each.value)));
      return { ...each, at, from: at };
    });
    return [
      ...marks.map(atMark),
      ...curves.map((each) => peakMark(each, panel, place)),
      ...spread(placed, top, bottom).map(besideEnd),
      ...inside.map(atEnd),
    ].join("");
  }
  return { longest: Math.max(0, ...beside.map(({ name }) => name.length)), draw };
}
