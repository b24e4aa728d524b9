// @ts-check
// The settings of an explorer in a link, and back: #rank_one?v=1&heads=5&…&check=1a2b3c4d
//
// The checksum shows when a link was cut short on its way. `show=init,heads` leaves only these
// controls on the page; `show=all` shows all of an explorer that shows few at first. The links in the
// text of a chapter are written by hand. They have no version and no checksum, and name only what
// they change: #rank_one?init=0.01

import { button, make } from "./dom.mjs";
import { clamp, same } from "./values.mjs";

/** @import { Control, Link, Settings } from "../types.d.ts" */

// The version of what the settings mean. A link of another version still opens, with a notice.
const VERSION = 1;

function checksum(text) {
  let hash = 0x811c9dc5; // FNV-1a
  for (const letter of text) hash = Math.imul(hash ^ letter.codePointAt(0), 0x01000193) >>> 0;
  return hash.toString(16).padStart(8, "0");
}

/**
 * The part of a link from # on.
 * @param {string} name @param {Control[]} controls @param {Settings} settings
 * @param {string[] | null} shown what `show` says
 */
export function encode(name, controls, settings, shown = null) {
  const pairs = controls.map(({ key }) => `${key}=${[settings[key]].flat().join(",")}`);
  const show = shown ? [`show=${shown.join(",")}`] : [];
  const body = `${name}?${[`v=${VERSION}`, ...pairs, ...show].join("&")}`;
  return `#${body}&check=${checksum(body)}`;
}

const number = (text) => (/^-?[\d.]+(e[-+]?\d+)?$/.test(text) ? Number(text) : NaN);

/** The value that a link's text gives for a control, before it is checked. */
function parse(/** @type {Control} */ { type, options }, text) {
  if (type === "choice") return options.find((option) => same(option, text));
  if (type === "points") return text.split(",").filter(Boolean).map(number);
  return type === "spectrum" ? text.split(",").map(number) : number(text);
}

/** A link may write the name of an anchor with escapes. Text that is no such name stays as it is. */
function unescaped(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Whether what is not this explorer's link is another explorer's, or an anchor of the page. */
function leadsElsewhere(text, owner) {
  return document.getElementById(text) || document.getElementById(unescaped(text)) ||
    document.querySelector(`[data-explorer="${CSS.escape(owner)}"]`);
}

const older = "The link was made by another version of this explorer: what both know is set.";

/**
 * What a link asks of this explorer. A value that the control would not take as it is is refused.
 * @param {string} hash @param {string} name @param {Control[]} controls
 * @returns {Link}
 */
export function decode(hash, name, controls) {
  const text = hash.replace(/^#/, "");
  const [owner] = text.split("?");
  if (!text) return {};
  if (owner !== name) {
    return leadsElsewhere(text, owner) ? {} : { wrong: "The address names nothing on this page" };
  }
  const copied = text.startsWith(`${owner}?v=`);
  const [, body, sum] = text.match(/^(.*)&check=([0-9a-f]{8})$/) ?? [];
  if (copied && (!body || checksum(body) !== sum)) return { wrong: "The link is not whole" };
  const pairs = (body ?? text).slice(owner.length + 1).split("&").filter(Boolean);
  const given = new Map(pairs.map((pair) => /** @type {[string, string]} */ (pair.split("="))));
  const otherVersion = copied && Number(given.get("v")) !== VERSION;
  const keys = controls.map(({ key }) => key);
  const unknown = [...given.keys()].find((key) => !["v", "show", ...keys].includes(key));
  if (unknown !== undefined && !otherVersion) {
    return { wrong: `The link names a setting that this explorer has not, ${unescaped(unknown)}` };
  }
  const state = {};
  for (const control of controls) {
    const raw = given.get(control.key);
    const value = raw === undefined ? control.value : parse(control, raw);
    state[control.key] = clamp(control, value);
    if (state[control.key] === null || !same(state[control.key], value)) {
      return { wrong: `The link's ${control.label} is not one that can be set` };
    }
  }
  const all = given.get("show") === "all";
  const shown = all ? null : given.get("show")?.split(",") ?? null;
  if (shown?.some((key) => !keys.includes(key))) {
    return { wrong: "The link would show a control that is not there" };
  }
  return { state, shown, all, note: otherVersion ? older : "" };
}

/**
 * Calls `open` with what the page's address asks of an explorer: now, whenever the address changes,
 * and when the link that is already in the address is followed again. Returns how to stop.
 * @param {string} name @param {Control[]} controls
 * @param {(link: Link) => void} open
 */
export function followLinks(name, controls, open) {
  const follow = () => open(decode(location.hash, name, controls));
  const followAgain = (event) => {
    const link = event.target.closest?.("a[href^='#']");
    if (link && link.getAttribute("href") === location.hash) follow();
  };
  follow();
  addEventListener("hashchange", follow);
  document.addEventListener("click", followAgain);
  return () => {
    removeEventListener("hashchange", follow);
    document.removeEventListener("click", followAgain);
  };
}

/**
 * The buttons that copy a link, and the line that says so. `link(keys)` is the whole link; with keys,
 * one for a class, that shows only these controls.
 * @param {Control[]} controls @param {(keys?: string[]) => string} link
 */
export function linkButtons(controls, link) {
  const status = make("p", { class: "ex-copied", role: "status" });
  async function copy(keys) {
    const text = link(keys);
    history.replaceState(history.state, "", text); // so that a reload shows the same again
    try {
      await navigator.clipboard.writeText(text);
      status.textContent = "The link is copied.";
    } catch {
      status.textContent = `The link: ${text}`;
    }
  }
  const boxes = controls.map(({ key, label }) => ({
    key,
    label,
    box: /** @type {HTMLInputElement} */ (
      make("input", { type: "checkbox", "aria-label": `show ${label}` })
    ),
  }));
  function copyChosen() {
    const chosen = boxes.filter(({ box }) => box.checked).map(({ key }) => key);
    if (chosen.length) copy(chosen);
    else status.textContent = "Choose the controls that the link shows.";
  }
  const choice = make(
    "div",
    { role: "group", "aria-label": "controls that the link shows" },
    ...boxes.map(({ label, box }) => make("label", {}, box, label)),
    button("Copy this link", copyChosen),
  );
  const fewer = make("details", { class: "ex-lesson" });
  fewer.append(make("summary", {}, "Link with fewer controls"), choice);
  return { elements: [button("Copy link", () => copy()), fewer], status };
}
