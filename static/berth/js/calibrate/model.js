/* What the parts of the page share, and how they hear of each other. */
import { byId } from "./words.js";

const listeners = new Map();

export const model = {
  page: null, // the element that says what this person may do and where things are
  front: null, // as GET /fronts/{id}/ gives it
  version: 0,
  points: null,
  draft: null,
  hover: null, // placement under the pointer or the keyboard's cursor
  lasso: null, // placements inside, or null
  ranges: {}, // [low, high] by column, of placements not to be dimmed
  between: null, // placements between two picks, or null
  derived: null, // as POST /preference-sets/derive/ gives it
  checked: null, // as POST /preference-sets/check/ gives it
  preview: null, // as GET /previews/{id}/ gives it
  mode: "pick",
  screen: "P-D", // the one last worked on
};

export function on(topic, work) { listeners.set(topic, [...(listeners.get(topic) ?? []), work]); }

export function tell(topic, detail) { for (const work of listeners.get(topic) ?? []) work(detail); }

export const mayChange = () => "mayChange" in model.page.dataset;

/* The body that derive and check take. */
export function picking() {
  const { rule, rejected } = model.draft.state;
  return { front: model.front.id, version: model.version, rule: rule === "pairs" ? "direct" : rule, picks: model.draft.byScreen, rejected, wanted: model.draft.wanted };
}

/* Placements inside the lasso and all ranges, or null where nothing is chosen. */
export function chosen() {
  const { points } = model;
  const ranges = Object.entries(model.ranges);
  const only = model.between ?? model.lasso;
  if (!only && !ranges.length) return null;
  const found = new Set();
  for (const i of points.shown) {
    const point = points.index[i];
    if (only && !only.has(point)) continue;
    if (ranges.every(([column, [low, high]]) => { const value = valueOf(column, i); return value >= low && value <= high; })) found.add(point);
  }
  return found;
}

/* Value of a column, P, D, C normalised, or a fact such as servers on. */
export const valueOf = (column, i) => (model.points.normalised[column] ?? model.points[column])[i];

export function keepAddress(values) {
  const url = new URL(location.href);
  for (const [name, value] of Object.entries(values)) {
    if (value === null || value === "") url.searchParams.delete(name); else url.searchParams.set(name, value);
  }
  history.replaceState(null, "", url);
}

/* Say something above the page's content. */
export function banner(id, title, text) {
  const box = byId(id);
  box.querySelector("b").textContent = title;
  box.querySelector("p").textContent = text;
  box.hidden = false;
}
