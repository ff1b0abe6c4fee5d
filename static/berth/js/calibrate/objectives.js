/* The three objectives, the three screens and the names of both. */
import { counted, grouped, watts } from "../format.js";

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
  return counted(Math.round(value), "container");
}
export const RULES = { spread: "inverse spread", reference: "reference point", direct: "sliders", pairs: "pairwise" };
