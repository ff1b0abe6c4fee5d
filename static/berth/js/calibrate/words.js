/* Names, numbers and small elements of the Calibrate page. */
const NS = "http://www.w3.org/2000/svg";
export const OBJECTIVES = ["P", "D", "C"];
export const NAMES = { P: "power", D: "diversity", C: "crossing traffic" };
export const UNITS = { P: "W", D: "points", C: "containers" };
export const HIGHER = { P: false, D: true, C: false };
export const SCREENS = [{ name: "P-D", x: "P", y: "D" }, { name: "P-C", x: "P", y: "C" }, { name: "D-C", x: "D", y: "C" }];
export const MEANINGS = {
  now: "now: where the containers stand at the moment the front was made of",
  SlotRR: "SlotRR, a baseline: container after container to the next free slot, a server's slots in a row",
  NodeRR: "NodeRR, a baseline: container after container to the next server with a free slot",
};
export const FEWEST = 3; // picks on each screen

export const byId = (id) => document.getElementById(id);
export const arrow = (o) => (HIGHER[o] ? "↑" : "↓");
export const many = (count, one, more = `${one}s`) => `${grouped(count)} ${count === 1 ? one : more}`;
const COUNTS = ["No", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten", "Eleven", "Twelve"];
export const spelled = (count) => COUNTS[count] ?? grouped(count);

export function grouped(value, digits = 0) {
  return value.toLocaleString("en-GB", { minimumFractionDigits: digits, maximumFractionDigits: digits }).replace("-", "−");
}

/* A number with so many significant digits, no exponent, no zeros at the end of a fraction. */
export function significant(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return "∞";
  if (!value) return "0";
  const places = Math.min(6, Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(value)))));
  return value.toLocaleString("en-GB", { maximumFractionDigits: places }).replace("-", "−");
}

export function signed(value, digits = 0) {
  const text = grouped(Math.abs(value), digits);
  return Number(text.replaceAll(",", "")) === 0 ? text : `${value > 0 ? "+" : "−"}${text}`;
}

export const percent = (share, digits = 1) => (share === null || share === undefined ? "–" : `${grouped(100 * share, digits)} %`);

export function watts(value, digits = 1) {
  return Math.abs(value) >= 1000 ? `${grouped(value / 1000, digits)} kW` : `${grouped(value, 0)} W`;
}

/* A raw value with its unit, as cards and tables say it. */
export function raw(objective, value) {
  if (objective === "P") return watts(value);
  if (objective === "D") return `${grouped(value, value < 100 && value % 1 ? 1 : 0)} points`;
  return many(Math.round(value), "container");
}

export function duration(seconds) {
  if (seconds < 1) return `${Math.round(1000 * seconds)} ms`;
  if (seconds < 120) return `${significant(seconds, seconds < 10 ? 2 : 3)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min${seconds % 60 >= 1 ? ` ${Math.round(seconds % 60)} s` : ""}`;
  const minutes = Math.round((seconds % 3600) / 60);
  return `${grouped(Math.floor(seconds / 3600))} h${minutes ? ` ${minutes} min` : ""}`;
}

/* Cluster seconds as day and clock, as the other pages write them. */
export function clusterTime(seconds) {
  const [day, rest] = [Math.floor(seconds / 86400), Math.floor(seconds % 86400)];
  const two = (value) => String(value).padStart(2, "0");
  return `day ${day + 1}, ${two(Math.floor(rest / 3600))}:${two(Math.floor((rest % 3600) / 60))}`;
}

/* ---- elements ---- */

export function element(tag, text = "", cls = "", attributes = {}) {
  const made = document.createElement(tag);
  if (text !== "") made.textContent = text;
  if (cls) made.className = cls;
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

export function drawn(tag, attributes = {}, parent = null, text = null) {
  const made = document.createElementNS(NS, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== null) made.textContent = text;
  parent?.append(made);
  return made;
}

export function icon(name, cls = "ic") {
  const svg = drawn("svg", { class: cls, "aria-hidden": "true" });
  drawn("use", { href: `#i-${name}` }, svg);
  return svg;
}

export const css = (token) => getComputedStyle(document.documentElement).getPropertyValue(`--${token}`).trim();

/* Ticks at 1, 2, 2.5 or 5 times a power of ten, about so many. */
export function ticks(low, high, about = 4) {
  const rough = (high - low) / about;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((value) => value >= rough * 0.999);
  const found = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-6; k += 1) found.push(Number((k * step).toPrecision(12)));
  return found;
}

/* As short as an axis wants it: .25, 1, 0.5 becomes .5 */
export const short = (value) => String(Number(value.toFixed(4))).replace(/^(-?)0\./, "$1.").replace("-", "−");

export function debounce(work, ms) {
  let timer = 0;
  const later = (...given) => { clearTimeout(timer); timer = setTimeout(() => work(...given), ms); };
  later.stop = () => clearTimeout(timer);
  return later;
}

/* Polite announcements, at most one every two seconds: the last one said wins. */
const EVERY_MS = 2000;
let spoken = 0;
let pending = 0;
export function announce(text) {
  clearTimeout(pending);
  const wait = Math.max(0, spoken + EVERY_MS - Date.now());
  pending = setTimeout(() => { spoken = Date.now(); byId("cal-said").textContent = text; }, wait);
}
