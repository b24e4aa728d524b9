// The whole state of an explorer in a link's hash, and back: #rank_one?v=1&heads=5&…&check=1a2b3c4d
//
// The check makes a hash that was cut on its way known as such, wherever it was cut. `show=init,heads` leaves
// only these controls on the page, `show=all` unfolds an explorer that is small at first. A link in a chapter's
// words is written by hand, without version and check, and names what it changes of the explorer's own settings:
// #rank_one?init=0.01

const VERSION = 1; // of what the settings mean: where a link is of another, the reader is told

const check = (text) => {
  let hash = 0x811c9dc5; // FNV-1a
  for (const each of text) hash = Math.imul(hash ^ each.codePointAt(0), 0x01000193) >>> 0;
  return hash.toString(16).padStart(8, "0");
};

export function encode(name, controls, state, shown = null) {
  const settings = controls.map(({ key }) => `${key}=${[state[key]].flat().join(",")}`);
  const body = `${name}?${
    [`v=${VERSION}`, ...settings, ...(shown ? [`show=${shown.join(",")}`] : [])].join("&")
  }`;
  return `#${body}&check=${check(body)}`;
}

// A value held to what its control takes; `null` if it is nothing of the kind.
export function hold({ type, min, max, least, most, options }, value) {
  if (type === "choice") return options.includes(value) ? value : null;
  if (type === "spectrum") {
    const held = Array.isArray(value)
      ? value.map((each) => hold({ type: "real", min, max }, each))
      : [];
    return held.length < least || held.length > most || held.includes(null) ? null : held;
  }
  if (type === "points") {
    return Array.isArray(value) && value.length % 3 === 0 && value.length <= 3 * most &&
        value.every(Number.isFinite)
      ? value
      : null;
  }
  if (typeof value !== "number" || !Number.isFinite(value)) return null;
  return Math.min(max, Math.max(min, type === "whole" ? Math.round(value) : value));
}

const same = (a, b) => String(a) === String(b);
const number = (text) => (/^-?[\d.]+(e[-+]?\d+)?$/.test(text) ? Number(text) : NaN);

// An anchor's name may be written with escapes; what is no such name stays as it is.
function plain(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

// { state, shown, note } or { wrong: why }, or {} where the hash is none of this explorer's business.
export function decode(hash, name, controls) {
  const text = hash.replace(/^#/, "");
  if (!text) return {};
  const [owner] = text.split("?");
  if (owner !== name) {
    const known = document.getElementById(text) || document.getElementById(plain(text)) ||
      document.querySelector(`[data-explorer="${CSS.escape(owner)}"]`);
    return known ? {} : { wrong: "The address names nothing on this page" };
  }
  const copied = text.startsWith(`${owner}?v=`);
  const [, whole, sign] = text.match(/^(.*)&check=([0-9a-f]{8})$/) ?? [];
  if (copied && (!whole || check(whole) !== sign)) return { wrong: "The link is not whole" };
  const given = new Map(
    (whole ?? text).slice(owner.length + 1).split("&").filter(Boolean).map((each) =>
      each.split("=")
    ),
  );
  const older = copied && Number(given.get("v")) !== VERSION;
  const names = ["v", "show", ...controls.map(({ key }) => key)],
    odd = [...given.keys()].find((key) => !names.includes(key));
  if (odd !== undefined && !older) {
    return { wrong: `The link names a setting that this explorer has not, ${plain(odd)}` };
  }
  const state = {};
  for (const control of controls) {
    const raw = given.get(control.key);
    const value = raw === undefined
      ? control.value
      : control.type === "choice"
      ? control.options.find((each) => same(each, raw))
      : control.type === "points"
      ? raw.split(",").filter(Boolean).map(number)
      : control.type === "spectrum"
      ? raw.split(",").map(number)
      : number(raw);
    state[control.key] = hold(control, value);
    if (state[control.key] === null || !same(state[control.key], value)) {
      return { wrong: `The link's ${control.label} is not one that can be set` };
    }
  }
  const all = given.get("show") === "all",
    shown = all ? null : given.get("show")?.split(",") ?? null;
  if (shown?.some((key) => !names.slice(2).includes(key))) {
    return { wrong: "The link would show a control that is not there" };
  }
  return {
    state,
    shown,
    unfolded: all,
    note: older
      ? "The link was made by another version of this explorer: what both know is set."
      : "",
  };
}
