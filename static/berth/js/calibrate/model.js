/* State shared by the parts of the Calibrate page, and the topics by which they notify each other. */
import { byId } from "../dom.js";
import { OBJECTIVES } from "./objectives.js";

const subscribers = new Map();

export const model = {
  page: null, // the element with the user's rights and the addresses
  front: null, // as GET /fronts/{id}/ returns it
  version: 0,
  points: null,
  draft: null,
  hover: null, // placement under the pointer or the keyboard cursor
  lasso: null, // placements inside the lasso, or null
  ranges: {}, // [low, high] by column
  between: null, // placements between two picks, or null
  derived: null, // as POST /preference-sets/derive/ returns it
  checked: null, // as POST /preference-sets/check/ returns it
  preview: null, // as GET /previews/{id}/ returns it
  reach: null, // { curve, index }: what migrations reach, and the position of the slider
  trail: [], // finished plans since the workload: { name, verdict, before, after }
  mode: "pick",
  screen: "P-D", // the last one used
  axes: [...OBJECTIVES], // objectives of the plots
  zoom: {}, // [low, high] by objective
};

export function subscribe(topic, listener) {
  subscribers.set(topic, [...(subscribers.get(topic) ?? []), listener]);
}

export function publish(topic, detail) {
  for (const listener of subscribers.get(topic) ?? []) listener(detail);
}

export const mayChange = () => "mayChange" in model.page.dataset;

/* The body of the derive, check and save requests. */
export function setRequest() {
  const { rule, rejected } = model.draft.state;
  return {
    front: model.front.id,
    version: model.version,
    rule: rule === "pairs" ? "direct" : rule,
    picks: model.draft.byScreen,
    rejected,
    wanted: model.draft.ruleInput,
    bounds: model.draft.state.bounds,
  };
}

/* Placements in the lasso (or between two picks) and in all ranges; null if there is neither. */
export function selection() {
  const { points } = model;
  const ranges = Object.entries(model.ranges);
  const area = model.between ?? model.lasso;
  if (!area && !ranges.length) return null;
  const isInRange = (i) =>
    ranges.every(([column, [low, high]]) => {
      const value = columnValue(column, i);
      return value >= low && value <= high;
    });
  const inside = points.shown.filter((i) => (!area || area.has(points.index[i])) && isInRange(i));
  return new Set(inside.map((i) => points.index[i]));
}

/* Value of a placement: a normalised objective, or a fact such as servers on. */
export const columnValue = (column, i) => (model.points.normalised[column] ?? model.points[column])[i];

/* Raw value per normalised value of an objective; 0 if it is always 0. */
export const scaleOf = (o) => model.front.scales[o] ?? model.points.scales[o] ?? 0;

/* Whether the table is shown instead of the plots. */
export const isTable = () => !byId("cal-twin").hidden;

/* Set or delete parameters of the address. */
export function updateAddress(values) {
  const url = new URL(location.href);
  for (const [name, value] of Object.entries(values)) {
    if (value === null || value === "") url.searchParams.delete(name);
    else url.searchParams.set(name, value);
  }
  history.replaceState(null, "", url);
}

/* Show a banner above the content of the page. */
export function showBanner(id, title, text) {
  const box = byId(id);
  box.querySelector("b").textContent = title;
  box.querySelector("p").textContent = text;
  box.hidden = false;
}
