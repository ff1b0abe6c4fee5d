/* The three objectives, the three screens and the names of both. */
import { counted, grouped, significant, watts } from "../format.js";

export const OBJECTIVES = ["P", "D", "C"];
export const NAMES = { P: "power", D: "diversity", C: "crossing traffic" };
export const UNITS = { P: "W", D: "points", C: "containers" };
/* The field of a preview that holds the raw value. */
export const RAW_KEYS = { P: "watts", D: "diversity", C: "crossing" };
export const HIGHER = { P: false, D: true, C: false };
export const SCREENS = [
  { name: "P-D", x: "P", y: "D" },
  { name: "P-C", x: "P", y: "C" },
  { name: "D-C", x: "D", y: "C" },
];
export const MEANINGS = {
  now: "now: the placement at the time of the workload",
  SlotRR: "SlotRR: a round-robin baseline that fills all slots of a server before the next server",
  NodeRR: "NodeRR: a round-robin baseline that places each container on the next server with a free slot",
};
/* Add an objective of the registry that fronts are not searched by. */
export function addObjective(name, { label, unit }) {
  NAMES[name] = label;
  UNITS[name] = unit;
}

export const isObjective = (name) => Object.hasOwn(NAMES, name);

/* Whether a plot ("P-D") shows two objectives that exist. */
export const hasObjectives = (screen) => screen.split("-").every(isObjective);

/* Whether a request was refused for a plot or a bound that names an unknown objective. */
export const isRefusedObjective = ({ problem }) =>
  (problem.errors ?? []).some(({ pointer, code }) => code === "unknown" && /^\/(bounds|picks)\/[^/]+$/.test(pointer));

/* The name on an axis: with its letter, if it has one. */
export const axisName = (o) => (o.length === 1 ? `${o} ${NAMES[o]}` : NAMES[o]);

/* The three plots of three objectives. A plot has one name, whichever way round it is drawn. */
export function plotsOf([a, b, c]) {
  const order = Object.keys(NAMES);
  return [
    [a, b],
    [a, c],
    [b, c],
  ].map(([x, y]) => ({ name: [x, y].sort((o, other) => order.indexOf(o) - order.indexOf(other)).join("-"), x, y }));
}

export const MIN_PICKS = 3; // on each screen

export const arrow = (o) => (HIGHER[o] ? "↑" : "↓");

/* The unit for values up to `largest`, and how many raw ones it has. */
export function inUnit(objective, largest) {
  return objective === "P" && largest >= 1000 ? { unit: "kW", factor: 1000 } : { unit: UNITS[objective], factor: 1 };
}

/* A measured value with its unit. */
export function formatRaw(objective, value) {
  if (objective === "P") return watts(value);
  if (objective === "D") return `${grouped(value, value < 100 && value % 1 ? 1 : 0)} points`;
  if (objective === "C") return counted(Math.round(value), "container");
  return objective === "M" ? counted(Math.round(value), "migration") : `${significant(value)} ${UNITS[objective]}`;
}
export const weightsText = (weights) => OBJECTIVES.map((o) => `${o} ${weights[o].toFixed(2)}`).join("  ");
export const RULES = { spread: "inverse spread", reference: "reference point", direct: "sliders", pairs: "pairwise" };
