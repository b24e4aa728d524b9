// Controls: each a label, an input by mouse, touch and keyboard, and a way to show a value set elsewhere.
//
// control(spec, set, say) → { element, show(value), mark(edge) }. What a control takes comes from the class's
// traits; `say` tells the reader of a number that had to be held to it. `edge` is a value past which words warn.

import { format, subscript } from "./chart.mjs";
import { clamp } from "./values.mjs";

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

export const button = (label, click, attributes = {}) =>
  make("button", { type: "button", click, ...attributes }, label);

// Without this mark JupyterLab takes the arrow keys for itself.
export const OWN_KEYS = { "data-lm-suppress-shortcuts": "true" };

function slider(spec, set, say = () => {}) {
  const { label, type, min, max, log } = spec;
  const id = `ex-${unique()}`;
  const grain = spec.step ??
    (type === "whole" ? 1 : 10 ** Math.floor(Math.log10((max - min) / 100)));
  const round = (
    value,
  ) => (type === "whole" ? Math.round(value) : Number(value.toPrecision(log ? 2 : 6)));
  // a logarithmic one goes over a whole number of places, so that the last is its greatest value
  const decades = log ? Math.log10(max / min) : 0, places = Math.round(50 * decades);
  const valueAt = (place) => (log ? min * 10 ** ((place / places) * decades) : place);
  const placeOf = (value) => (log ? (Math.log10(value / min) / decades) * places : value);
  let before = null;
  const range = make("input", {
    ...OWN_KEYS,
    id,
    type: "range",
    "aria-describedby": `${id}-edge`,
    ...(log ? { min: 0, max: places, step: 1 } : { min, max, step: grain }),
    input: () => {
      // the handle stays where it is, on its own grid, even where the value is rounded
      const value = clamp(spec, round(valueAt(range.valueAsNumber)));
      write(value);
      set(value);
    },
    // a finger that comes down here and then scrolls the page meant no change
    pointerdown: () => {
      before = shown;
    },
    pointercancel: () => {
      if (before === null || before === shown) return;
      show(before);
      set(before);
    },
  });
  const field = make("input", {
    ...OWN_KEYS,
    type: "number",
    min,
    max,
    step: log ? "any" : grain,
    "aria-label": `${label}, number`,
    change: () => {
      const given = field.valueAsNumber, value = clamp(spec, given);
      if (value === null) {
        say(
          `${label} takes a number from ${format(min)} to ${format(max)}: it stays at ${
            format(shown)
          }.`,
        );
        return show(shown);
      }
      say(
        value === given
          ? ""
          : `${label} is held to ${format(value)}: it takes ${
            type === "whole" ? "whole numbers " : ""
          }from ${format(min)} to ${format(max)}.`,
      );
      show(value);
      set(value);
    },
  });
  let shown, edge = null;
  const tick = make("span", { class: "ex-edge", hidden: true, "aria-hidden": "true" });
  const warning = make("small", { class: "ex-limit", id: `${id}-edge`, hidden: true });
  // where the edge stands on the slider: its handle is a rem wide and stays within; a number that is being typed stays
  const mark = (value) => {
    if (value === edge) return;
    edge = value;
    tick.hidden = value === null || value < min || value > max;
    const share = log ? placeOf(value) / places : (value - min) / (max - min);
    if (!tick.hidden) tick.style.left = `calc(0.5rem + (100% - 1rem) * ${share})`;
    if (shown !== undefined) warn();
  };
  const warn = () => {
    const past = edge !== null && shown > edge;
    range.setAttribute(
      "aria-valuetext",
      format(shown) + (past ? ", past the edge of stability" : ""),
    );
    warning.classList.toggle("ex-past", past);
    warning.hidden = tick.hidden && !past;
    warning.textContent = edge === null
      ? ""
      : `${past ? "past the " : ""}edge of stability, ${format(Number(edge.toPrecision(2)))}`;
  };
  const write = (value) => {
    shown = value;
    warn();
    const plain = Number(value.toPrecision(6));
    field.value = log && plain < 1e-3 ? plain.toExponential() : plain;
  };
  const show = (value) => {
    range.value = placeOf(value);
    write(value);
  };
  const name = make("label", { for: id }, label);
  const track = make("span", { class: "ex-track" }, range, tick);
  return { element: make("div", { class: "ex-control" }, name, track, field, warning), show, mark };
}

function choice({ label, options, names = {} }, set) {
  const id = `ex-${unique()}`;
  const select = make("select", {
    ...OWN_KEYS,
    id,
    change: () => set(options[select.selectedIndex]),
  }, ...options.map((each) => make("option", {}, String(names[each] ?? each))));
  return {
    element: make("div", { class: "ex-control" }, make("label", { for: id }, label), select),
    show: (value) => {
      select.selectedIndex = options.indexOf(value);
    },
    // of the options as many as there are now; one that is no more is shown as the first
    offer: (most) => {
      [...select.options].forEach((each, i) => {
        each.hidden = each.disabled = i >= most;
      });
      if (select.selectedIndex >= most) select.selectedIndex = 0;
    },
  };
}

const LAWS = {
  "λ ∝ D + 1 − d": (d, dim) => dim - d,
  "λ ∝ 1/d": (d) => 1 / (d + 1),
  "all equal": () => 1,
};
const law = (name, dim) => {
  const values = Array.from({ length: dim }, (_, d) => LAWS[name](d, dim));
  const total = values.reduce((a, b) => a + b);
  return values.map((each) => Number((each / total).toPrecision(6)));
};

// One bar an eigenvalue, dragged or moved by the arrow keys; a law and a dimension set them all. A press alone chooses
// the bar for the number field.
// By touch the grip alone is dragged: the bars are wide, and a page must scroll under a finger.
const FULL = 0.4; // the eigenvalue that fills the box, where none is larger
function spectrum(spec, set, say = () => {}) {
  const { label, min, max, least, most } = spec;
  let values = [], bars = [], full = FULL, chosen = 0;
  const own = "set by hand";
  const change = (next, kept) => {
    show(next, kept);
    set(next);
  };
  // the scale may grow with a bar that is moved, and does not shrink under the hand
  const move = (d, value) => {
    chosen = d;
    change(values.with(d, clamp({ type: "real", min, max }, Number(value.toFixed(3)))), full);
  };
  const plot = make("div", { class: "ex-bars", role: "group", "aria-label": label });
  const names = [...Object.keys(LAWS), own];
  const laws = choice(
    { label: "spectrum", options: names },
    (name) => change(name === own ? values : law(name, values.length)),
  );
  const matching = () =>
    Object.keys(LAWS).find((name) =>
      law(name, values.length).every((each, d) => Math.abs(each - values[d]) < 1e-5)
    );
  const dimension = slider(
    { label: "dimension D", type: "whole", min: least, max: most },
    (dim) => change(law(matching() ?? names[0], dim)),
  );
  const bar = (d) => {
    const fill = make("span", { class: "ex-fill", style: `background:var(--ex-c${d % 8})` }),
      number = make("span", { class: "ex-number" });
    const grip = make("span", { class: "ex-handle" });
    let before = null, scale = full, from = 0;
    const drag = (event) => {
      const up = (from - event.clientY) / (element.clientHeight - 18);
      if (up || values !== before) move(d, before[d] + up * scale);
    };
    const keys = {
      ArrowUp: 0.01,
      ArrowRight: 0.01,
      ArrowDown: -0.01,
      ArrowLeft: -0.01,
      PageUp: 0.1,
      PageDown: -0.1,
      Home: -max,
      End: max,
    };
    const element = make(
      "div",
      {
        ...OWN_KEYS,
        focus: () => tellChosen(d),
        class: "ex-bar",
        role: "slider",
        tabindex: 0,
        "aria-orientation": "vertical",
        "aria-label": `eigenvalue ${d + 1}`,
        "aria-valuemin": min,
        "aria-valuemax": max,
        "data-tags": `e${subscript(d + 1)}`,
        pointerdown: (event) => {
          if (event.pointerType === "touch" && event.target !== grip) return;
          [before, scale, from] = [values, full, event.clientY];
          element.setPointerCapture(event.pointerId);
          element.focus({ preventScroll: true });
        },
        pointermove: (event) => {
          if (before) drag(event);
        },
        pointerup: () => {
          before = null;
        },
        pointercancel: () => {
          if (before) change(before);
          before = null;
        },
        keydown: (event) => {
          if (!(event.key in keys)) return;
          event.preventDefault();
          event.stopPropagation();
          move(d, values[d] + keys[event.key]);
        },
      },
      number,
      fill,
      grip,
    );
    return { element, fill, number, grip };
  };
  // the bar that is chosen, by a press, by Tab or by a move, can be set as a number too
  const field = make("input", {
    ...OWN_KEYS,
    type: "number",
    min,
    max,
    step: 0.01,
    "aria-label": "eigenvalue, number",
    change: () => {
      const value = clamp({ type: "real", min, max }, field.valueAsNumber);
      say(
        value === field.valueAsNumber
          ? ""
          : `An eigenvalue is a number from ${format(min)} to ${format(max)}.`,
      );
      if (value !== null) move(chosen, value);
      else tellChosen();
    },
  });
  const name = make("span", { "aria-hidden": "true" });
  const tellChosen = (d = chosen) => {
    chosen = Math.min(d, values.length - 1);
    name.textContent = `chosen: λ${subscript(chosen + 1)}`;
    bars.forEach((each, i) => each.element.classList.toggle("ex-set", i === chosen));
    field.value = Number(values[chosen].toFixed(3));
  };
  const show = (next, kept = FULL) => {
    values = [...next];
    full = Math.max(kept, ...values);
    if (bars.length !== values.length) {
      bars = values.map((_, d) => bar(d));
      plot.replaceChildren(...bars.map((each) => each.element));
    }
    values.forEach((value, d) => {
      bars[d].fill.style.height = `calc((100% - 18px) * ${value / full})`;
      bars[d].number.textContent = value.toFixed(value < 0.1 ? 3 : 2).replace(/^0/, "");
      for (const each of [bars[d].number, bars[d].grip]) {
        each.style.bottom = bars[d].fill.style.height;
      }
      bars[d].element.setAttribute("aria-valuenow", value);
      bars[d].element.setAttribute("aria-valuetext", format(value));
    });
    laws.show(matching() ?? own);
    dimension.show(values.length);
    tellChosen();
  };
  const element = make(
    "div",
    { class: "ex-spectrum" },
    make(
      "div",
      { class: "ex-chosen" },
      make("span", { class: "ex-heading", "aria-hidden": "true" }, label),
      name,
      field,
    ),
    plot,
    laws.element,
    dimension.element,
  );
  return { element, show };
}

// Points that were moved in a picture, as numbers three by three: which one, its x and its y.
function points({ label }, set) {
  const said = make("output", {}),
    back = button("Undo", () => {
      show([]);
      set([]);
    }, { "aria-label": `${label}: undo` });
  function show(value, which) {
    said.textContent = value.length ? which || format(value.length / 3) : "none";
    back.disabled = !value.length;
  }
  return {
    element: make(
      "div",
      { class: "ex-control" },
      make("span", { class: "ex-heading" }, label),
      said,
      back,
    ),
    show,
  };
}

export const control = (spec, set, say) =>
  ({ choice, spectrum, points }[spec.type] ?? slider)(spec, set, say);
