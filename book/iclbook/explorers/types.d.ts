// What the modules hand to each other. Only the type checker reads this file.

/** The settings of an explorer by their keys, as in { heads: 5, eigenvalues: [0.4, 0.3], at: 1 }. */
export type Settings = Record<string, any>;

/** A list of numbers: an array or a typed one. */
export type Numbers = number[] | Float64Array;

/** One control, as the Python class describes it (base.py). */
export interface Control {
  key: string;
  label: string;
  type: "whole" | "real" | "choice" | "spectrum" | "points";
  value: any;
  /** The least and greatest value. For points they bound each of a point's three numbers. */
  min?: any;
  max?: any;
  log?: boolean;
  step?: number;
  /** The values of a choice, and the words that the page shows for them. */
  options?: any[];
  names?: Record<string, string>;
  /** A spectrum has `least` to `most` eigenvalues; there are at most `most` points. */
  least?: number;
  most?: number;
  /** The control says what to look at: nothing is computed again when it moves. */
  view?: boolean;
}

/** Settings worth a look, and what to look at. */
export interface Preset {
  name: string;
  look: string;
  settings: Settings;
}

/** A question: which of its answers is right, how to get there, and why it is so. */
export interface Guess {
  question: string;
  answers: string[];
  right: number;
  move: string;
  why: string;
  settings: Settings;
}

/** What a link asks of an explorer (links.mjs). It asks nothing if it is not the explorer's own. */
export interface Link {
  state?: Settings;
  /** The only controls to show; null to show what is shown. */
  shown?: string[] | null;
  /** Whether all controls and pictures are to be shown. */
  all?: boolean;
  /** What to tell the reader. */
  note?: string;
  /** Why the link cannot be followed. */
  wrong?: string;
}

/** A control on the page (controls.mjs). */
export interface Input {
  element: HTMLElement;
  show(value: any, words?: string): void;
  /** Shows the value past which the page warns; null if there is none. */
  mark?(edge: number | null): void;
  /** Offers only the first so many options of a choice. */
  offer?(most: number): void;
}

/** Where the settings live: a widget's model, or explorers.js's stand-in for one. */
export interface Model {
  get(key: string): any;
  set(key: string, value: any): void;
  save_changes(): void;
  on(event: string, handler: (...given: any[]) => void): void;
  off(event: string, handler: (...given: any[]) => void): void;
  /** Only a model with a kernel has this. */
  send?(message: object): void;
}

/** The population loss in the eigenbasis (theory.mjs). */
export interface Problem {
  eigenvalues: Float64Array;
  trace: number;
  a: Float64Array;
  b: Float64Array;
  stiff: Float64Array;
}

/** A model of linear attention. */
export interface LinearModel {
  kind: string;
  dim: number;
  heads: number;
  rank?: number;
  init?: number;
  seed?: number;
}

/** Its weights, head after head: v, and u if key and query are merged, otherwise k and q (engine.mjs). */
export interface Weights extends LinearModel {
  v: Float64Array;
  u?: Float64Array;
  k?: Float64Array;
  q?: Float64Array;
}

/** What descends on moments (moments.mjs); `form` and `move` are for weights that W is made of. */
export interface MomentWeights {
  dim: number;
  heads: number;
  w: Float64Array;
  v: Float64Array;
  form?(): void;
  move?(slope: Float64Array, rate: number): void;
}

/** 0 to 7 of the palette, or a name that the style sheet knows. */
export type Colour = number | "theory" | "quiet" | "ink";

export interface Axis {
  label: string;
  min?: number;
  max?: number;
  log?: boolean;
  /** Only whole numbers get a tick. */
  whole?: boolean;
}

/** A curve, dots or bars. */
export interface Series {
  name: string;
  x: Numbers;
  y: Numbers;
  color?: Colour;
  /** What stands beside its end instead of its name; false for nothing. */
  label?: string | boolean;
  dashed?: boolean;
  /** Dots of this radius instead of a curve. */
  dots?: number;
  ring?: boolean;
  /** Bars of this width on the x axis, from 0 up or down. */
  bars?: number;
  /** What has a tag in common lights up together; without tags, the name and the label are the tags. */
  tags?: string[];
  /** A pinned curve, drawn pale. */
  pale?: boolean;
}

/** A point of a chart that can be dragged; `to` gives the settings that put it at a place. */
export interface Handle {
  name: string;
  x: number;
  y: number;
  color?: Colour;
  tags?: string[];
  to(x: number, y: number): Settings;
}

export interface Heat {
  rows: (string | number)[];
  columns: (string | number)[];
  /** The entries, row after row. */
  values: Numbers;
  max: number;
  signed?: boolean;
}

/** One chart or heat map as plain data, so that the same numbers are drawn, read out, exported and tested. */
export interface Panel {
  title: string;
  x: Axis;
  y: Axis;
  series?: Series[];
  /** Dashed horizontal and vertical lines of theory, with their names. */
  levels?: { y: number; name: string; label?: boolean }[];
  marks?: { x: number; name: string }[];
  handles?: Handle[];
  heat?: Heat;
  /** Where the vertical line of the time, or of the setting `moves`, stands. */
  cursor?: number | null;
  moves?: string;
  /** Curves in a plane, which are no functions of x and are not read out. */
  plane?: boolean;
  wide?: boolean;
  height?: number;
}

/** Where in a picture the lines of a chart are, in the picture's units; null for a heat map. */
export interface Place {
  left: number;
  right: number;
  top: number;
  bottom: number;
  sx(x: number): number;
  sy(y: number): number;
  /** The x and y that stand at a place of the picture. */
  invert(at: number): number;
  rise(at: number): number;
}

/** A panel on the page. */
export interface Picture {
  figure: HTMLElement;
  caption: HTMLElement;
  frame: HTMLElement;
  svg: SVGSVGElement;
  /** The box with the values that are read out. */
  values: HTMLElement;
  /** The elements of the handles. */
  points: HTMLElement[];
  panel?: Panel;
  place?: Place | null;
  /** The pixels of a unit, and the picture's width in units. */
  unit?: number;
  width?: number;
}

/** What `compute` returns: whatever `show` needs, and these. */
export interface Result {
  /** The recorded steps or times; with them there is a time bar. */
  step?: Numbers;
  unit?: string;
  /** Settings past which the page warns, as in { lr: 2.9 }. */
  edge?: Record<string, number> | null;
  [other: string]: any;
}

/** What a live run reports: whether it has ended, and what its clock says. */
export interface LiveResult extends Result {
  done: boolean;
  clock?: string;
}

/** What `show` returns. */
export interface Drawing {
  panels: Panel[];
  summary: string;
  /** A warning, said before the summary. */
  note?: string;
  /** How the run went, for the table of pinned curves. */
  ends?: { name: string; value: number | string }[];
  /** How many of a choice's options there are now. */
  offers?: Record<string, number>;
  /** Words for a control of points. */
  which?: Record<string, string>;
}

/** A run on finite data: curves to draw over panels, and a sentence that says what ran. */
export interface Finite {
  overlay?: (Series & { panel: number })[];
  note?: string;
}

/** A run that goes on while it is looked at. */
export interface Job {
  stop(): void;
  pause(still: boolean): void;
  step(): void;
}

/** What an explorer's module gives to `explorer`. */
export interface Definition {
  /** The name of the module and of the Python class's `name`. */
  name: string;
  compute?(state: Settings, data: any): Result;
  /** Instead of `compute`: a run that reports results as it goes on. */
  live?(state: Settings, report: (result: LiveResult | null) => void): Job;
  /** `row` is where the time bar stands, null without one. */
  show(result: any, state: Settings, row: number | null): Drawing;
  /** A run on finite data that the reader can ask for. A worker finds it by this name in the module. */
  finite?(state: Settings): Finite;
  /** Of the points that were moved by hand, those that are there at these settings. */
  fits?(state: Settings): Settings;
  /** The bounds of a moved point's three numbers: which point, x and y. */
  points?: { min: number[]; max: number[] };
  /** The multiply-adds of a run, about. Long runs are computed in a worker. */
  effort?(state: Settings): number;
  /** What `compute` needs besides the settings, from the model. */
  data?(model: Model): any;
}
