// Controls: each a label, an input by mouse, touch and keyboard, and a way to show a value set elsewhere.
//
// control(spec, set) → { element, show(value) }. What a control takes comes from the class's traits.

import { format } from "./chart.mjs";
import { hold } from "./link.mjs";

// A number that no other explorer of the page has: each comes with these modules of its own.
export const unique = () => (globalThis.explorersMade = (globalThis.explorersMade ?? 0) + 1);

export function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value !== false) element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children);
  return element;
}

// Without this mark JupyterLab takes the arrow keys for itself.
const OWN_KEYS = { "data-lm-suppress-shortcuts": "true" };

function slider(spec, set) {
  const { label, type, min, max, log } = spec;
  const id = `ex-${unique()}`;
  const grain = spec.step ?? (type === "whole" ? 1 : 10 ** Math.floor(Math.log10((max - min) / 100)));
  const bounds = log ? [Math.log10(min), Math.log10(max), 0.02] : [min, max, grain];
  const round = (value) => (type === "whole" ? Math.round(value) : Number(value.toPrecision(log ? 2 : 6)));
  const range = make("input", {
    ...OWN_KEYS, id, type: "range", min: bounds[0], max: bounds[1], step: bounds[2],
    input: () => {
      // the handle stays where it is, on its own grid, even where the value is rounded
      const value = hold(spec, round(log ? 10 ** range.valueAsNumber : range.valueAsNumber));
      write(value);
      set(value);
    },
  });
  const field = make("input", {
    ...OWN_KEYS, type: "number", min, max, step: log ? "any" : grain, "aria-label": `${label}, number`,
    change: () => {
      const value = hold(spec, field.valueAsNumber);
      if (value === null) show(shown);
      else {
        show(value);
        set(value);
      }
    },
  });
  let shown;
  const write = (value) => {
    shown = value;
    range.setAttribute("aria-valuetext", format(value));
    const plain = Number(value.toPrecision(6));
    field.value = log && plain < 1e-3 ? plain.toExponential() : plain;
  };
  const show = (value) => {
    range.value = log ? Math.log10(value) : value;
    write(value);
  };
  const name = make("label", { for: id }, label);
  return { element: make("div", { class: "ex-control" }, name, range, field), show };
}

function choice({ label, options, names = {} }, set) {
  const id = `ex-${unique()}`;
  const select = make("select", { ...OWN_KEYS, id, change: () => set(options[select.selectedIndex]) },
    ...options.map((each) => make("option", {}, String(names[each] ?? each))));
  return {
    element: make("div", { class: "ex-control" }, make("label", { for: id }, label), select),
    show: (value) => { select.selectedIndex = options.indexOf(value); },
  };
}

const LAWS = { "λ ∝ D + 1 − d": (d, dim) => dim - d, "λ ∝ 1/d": (d) => 1 / (d + 1), "all equal": () => 1 };
const law = (name, dim) => {
  const values = Array.from({ length: dim }, (_, d) => LAWS[name](d, dim));
  const total = values.reduce((a, b) => a + b);
  return values.map((each) => Number((each / total).toPrecision(6)));
};

// One bar an eigenvalue, dragged or moved by the arrow keys; a law and a dimension set them all.
function spectrum(spec, set) {
  const { label, min, max, least, most } = spec;
  let values = [], bars = [];
  const own = "set by hand";
  const change = (next) => { show(next); set(next); };
  const move = (d, value) => change(values.with(d, hold({ type: "real", min, max }, Number(value.toFixed(3)))));
  const plot = make("div", { class: "ex-bars", role: "group", "aria-label": label });
  const names = [...Object.keys(LAWS), own];
  const laws = choice({ label: "spectrum", options: names }, (name) => change(name === own ? values : law(name, values.length)));
  const matching = () => Object.keys(LAWS).find((name) => law(name, values.length).every((each, d) => Math.abs(each - values[d]) < 1e-5));
  const dimension = slider({ label: "dimension D", type: "whole", min: least, max: most },
    (dim) => change(law(matching() ?? names[0], dim)));
  const bar = (d) => {
    const fill = make("span", { class: "ex-fill", style: `background:var(--ex-c${d % 8})` }), number = make("span", { class: "ex-number" });
    const drag = (event) => {
      const box = element.getBoundingClientRect();
      move(d, ((box.bottom - event.clientY) / (box.height - 18)) * max);
    };
    const keys = { ArrowUp: 0.01, ArrowRight: 0.01, ArrowDown: -0.01, ArrowLeft: -0.01, PageUp: 0.1, PageDown: -0.1, Home: -max, End: max };
    const element = make("div", {
      ...OWN_KEYS, class: "ex-bar", role: "slider", tabindex: 0, "aria-orientation": "vertical",
      "aria-label": `eigenvalue ${d + 1}`, "aria-valuemin": min, "aria-valuemax": max,
      pointerdown: (event) => { element.setPointerCapture(event.pointerId); element.focus(); drag(event); },
      pointermove: (event) => { if (element.hasPointerCapture(event.pointerId)) drag(event); },
      keydown: (event) => {
        if (!(event.key in keys)) return;
        event.preventDefault();
        event.stopPropagation();
        move(d, values[d] + keys[event.key]);
      },
    }, number, fill);
    return { element, fill, number };
  };
  const show = (next) => {
    values = [...next];
    if (bars.length !== values.length) {
      bars = values.map((_, d) => bar(d));
      plot.replaceChildren(...bars.map((each) => each.element));
    }
    values.forEach((value, d) => {
      bars[d].fill.style.height = `calc((100% - 18px) * ${value / max})`;
      bars[d].number.textContent = value.toFixed(value < 0.1 ? 3 : 2).replace(/^0/, "");
      bars[d].number.style.bottom = `calc((100% - 18px) * ${value / max})`;
      bars[d].element.setAttribute("aria-valuenow", value);
      bars[d].element.setAttribute("aria-valuetext", format(value));
    });
    laws.show(matching() ?? own);
    dimension.show(values.length);
  };
  const element = make("div", { class: "ex-spectrum" },
    make("div", { class: "ex-heading", "aria-hidden": "true" }, label), plot, laws.element, dimension.element);
  return { element, show };
}

export const control = (spec, set) => ({ choice, spectrum }[spec.type] ?? slider)(spec, set);
