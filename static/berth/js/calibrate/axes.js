/* Placements as lines over all measures (parallel coordinates); a range on an axis dims what lies outside, on the
   screens and in the table too. Ranges are in the address. */
import { chosen, keepAddress, model, on, tell, valueOf } from "./model.js";
import { point } from "./screens.js";
import { NAMES, OBJECTIVES, announce, arrow, byId, css, drawn, element, grouped, many, short } from "./words.js";

const COLUMNS = [...OBJECTIVES, "nodes_on", "jobs_protected", "jobs_exposed", "jobs_split"];
const TITLES = { nodes_on: "servers on", jobs_protected: "protected jobs", jobs_exposed: "exposed jobs", jobs_split: "split jobs" };
const BRIEF = { P: "P ↓", D: "D ↑", C: "C ↓", nodes_on: "on", jobs_protected: "prot.", jobs_exposed: "exp.", jobs_split: "split" };
const TOP = 34, FOOT = 20;
const WIDE = 105, SIDES = [22, 56]; // px an axis' full name takes; margins without and with room for it
const REACH = 18;
const picture = { host: null, cloud: null, svg: null, drag: null };

const title = (column) => (picture.isNarrow ? BRIEF[column] : NAMES[column] ? `${column} ${NAMES[column]} ${arrow(column)}` : TITLES[column]);

export function startAxes() {
  picture.host = document.querySelector(".axes-plot");
  picture.cloud = element("canvas", "", "cloud");
  picture.svg = drawn("svg", { "aria-hidden": "true" });
  picture.host.replaceChildren(picture.cloud, picture.svg);
  picture.svg.addEventListener("pointerdown", pressed);
  picture.svg.addEventListener("pointermove", moved);
  picture.svg.addEventListener("pointerup", released);
  picture.svg.addEventListener("pointerleave", () => { if (!picture.drag) point(null); });
  new ResizeObserver(() => { if (picture.host.clientWidth) lay(); }).observe(picture.host);
  for (const topic of ["draft", "points", "chosen", "checked"]) on(topic, () => lay());
  on("hover", () => traces());
  document.addEventListener("berth:theme", () => lay());
  fromAddress();
}

/* ?ranges=P:0.2:0.4,nodes_on:100:200 */
function fromAddress() {
  for (const part of (new URLSearchParams(location.search).get("ranges") ?? "").split(",")) {
    const [column, low, high] = part.split(":");
    if (COLUMNS.includes(column) && Number.isFinite(Number(low)) && Number.isFinite(Number(high))) model.ranges[column] = [Number(low), Number(high)];
  }
}

function changed() {
  keepAddress({ ranges: Object.entries(model.ranges).map(([column, [low, high]]) => `${column}:${short4(low)}:${short4(high)}`).join(",") });
  tell("chosen");
  if (Object.keys(model.ranges).length) announce(`${many(chosen().size, "placement")} in the ranges`);
}

const short4 = (value) => Number(value.toFixed(4));

function extents() {
  const { points } = model;
  return Object.fromEntries(COLUMNS.map((column) => {
    let [low, high] = [Infinity, -Infinity];
    for (const i of points.every) { const value = valueOf(column, i); if (value < low) low = value; if (value > high) high = value; }
    return [column, high > low ? [low, high] : [low - 1, high + 1]];
  }));
}

function lay() {
  const { host, cloud, svg } = picture;
  if (!model.points || model.mode !== "axes" || !host.clientWidth) return;
  const [width, height] = [host.clientWidth, host.clientHeight];
  picture.spans = extents();
  picture.width = width;
  picture.bottom = height - FOOT;
  picture.isNarrow = width < WIDE * COLUMNS.length;
  picture.side = SIDES[picture.isNarrow ? 0 : 1];
  picture.X = (k) => picture.side + (k * (width - 2 * picture.side)) / (COLUMNS.length - 1);
  picture.Y = (column, value) => { const [low, high] = picture.spans[column]; return picture.bottom - ((value - low) / (high - low)) * (picture.bottom - TOP); };
  const ratio = devicePixelRatio || 1;
  cloud.width = Math.round(width * ratio);
  cloud.height = Math.round(height * ratio);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  lines(ratio);
  svg.replaceChildren();
  COLUMNS.forEach((column, k) => axis(column, k));
  picture.traces = drawn("g", {}, svg);
  traces();
  inputs();
}

function path(pen, i, ratio) {
  COLUMNS.forEach((column, k) => {
    const [x, y] = [picture.X(k) * ratio, picture.Y(column, valueOf(column, i)) * ratio];
    if (k) pen.lineTo(x, y); else pen.moveTo(x, y);
  });
}

function lines(ratio) {
  const pen = picture.cloud.getContext("2d");
  pen.clearRect(0, 0, picture.cloud.width, picture.cloud.height);
  const inside = chosen();
  const many_ = model.points.shown.length;
  pen.lineWidth = ratio;
  for (const isIn of [false, true]) {
    pen.strokeStyle = isIn && inside ? css("accent") : css("text-3");
    pen.globalAlpha = isIn || !inside ? Math.max(0.08, Math.min(0.5, 40 / many_)) : 0.05;
    for (const i of model.points.shown) {
      if (Boolean(inside?.has(model.points.index[i])) !== (inside ? isIn : false) || (!inside && isIn)) continue;
      pen.beginPath();
      path(pen, i, ratio);
      pen.stroke();
    }
  }
  pen.globalAlpha = 1;
}

function axis(column, k) {
  const { svg, bottom } = picture;
  const x = picture.X(k);
  drawn("line", { x1: x, x2: x, y1: TOP, y2: bottom, class: "axis" }, svg);
  drawn("text", { x, y: 12, class: "mid strong" }, svg, title(column));
  const [low, high] = picture.spans[column];
  const said = (value) => (NAMES[column] ? short(Number(value.toFixed(3))) : grouped(value));
  drawn("text", { x, y: TOP - 7, class: "mid dim" }, svg, said(high));
  drawn("text", { x, y: bottom + 14, class: "mid dim" }, svg, said(low));
  const range = model.ranges[column];
  if (range) {
    const [top, end] = [picture.Y(column, range[1]), picture.Y(column, range[0])].map((y) => Math.min(bottom, Math.max(TOP, y)));
    drawn("rect", { x: x - 7, y: top, width: 14, height: Math.max(2, end - top), class: "axis-range" }, svg);
  }
  drawn("rect", { x: x - REACH, y: TOP - 4, width: 2 * REACH, height: bottom - TOP + 8, class: "axis-hit", "data-column": column }, svg);
}

function traces() {
  if (!picture.traces || model.mode !== "axes" || !model.points) return;
  const { points, draft, hover } = model;
  const d = (value) => COLUMNS.map((column, k) => `${k ? "L" : "M"}${picture.X(k).toFixed(1)},${picture.Y(column, value(column)).toFixed(1)}`).join("");
  const of = (name) => (column) => valueOf(column, points.at.get(name));
  picture.traces.replaceChildren();
  for (const pick of draft.state.picks) drawn("path", { d: d(of(pick.point)), class: "trace" }, picture.traces);
  if (hover !== null && points.has(hover)) drawn("path", { d: d(of(hover)), class: "trace hover" }, picture.traces);
}

/* ---- ranges by pointer ---- */

function place(event) {
  const box = picture.svg.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

function valueAt(column, y) {
  const [low, high] = picture.spans[column];
  return low + ((picture.bottom - Math.min(picture.bottom, Math.max(TOP, y))) / (picture.bottom - TOP)) * (high - low);
}

function pressed(event) {
  const column = event.target.dataset?.column;
  if (!column || event.button) return;
  picture.drag = { column, from: place(event)[1], isMoved: false };
  picture.svg.setPointerCapture(event.pointerId);
  event.preventDefault();
}

function moved(event) {
  const [x, y] = place(event);
  const { drag } = picture;
  if (!drag) { nearest(x, y); return; }
  if (!drag.isMoved && Math.abs(y - drag.from) < 4) return;
  drag.isMoved = true;
  const ends = [valueAt(drag.column, drag.from), valueAt(drag.column, y)].sort((a, b) => a - b);
  model.ranges[drag.column] = ends;
  lay();
}

/* A drag sets the range, a click on the axis takes it away. */
function released() {
  const { drag } = picture;
  picture.drag = null;
  if (!drag) return;
  if (!drag.isMoved) delete model.ranges[drag.column];
  changed();
}

/* The line nearest to the pointer on the nearest axis. */
function nearest(x, y) {
  if (!model.points) return;
  const k = Math.round(((x - picture.side) / (picture.width - 2 * picture.side)) * (COLUMNS.length - 1));
  if (k < 0 || k >= COLUMNS.length || Math.abs(picture.X(k) - x) > REACH) { point(null); return; }
  let [best, least] = [null, 10];
  for (const i of model.points.shown) {
    const far = Math.abs(picture.Y(COLUMNS[k], valueOf(COLUMNS[k], i)) - y);
    if (far < least) { least = far; best = model.points.index[i]; }
  }
  point(best);
}

/* ---- ranges by keyboard ---- */

function inputs() {
  const host = byId("cal-ranges");
  if (host.contains(document.activeElement)) return;
  host.replaceChildren(...COLUMNS.map((column) => {
    const box = element("fieldset");
    box.append(element("legend", NAMES[column] ?? TITLES[column]));
    const range = model.ranges[column];
    ["from", "to"].forEach((word, side) => {
      const input = element("input", "", "input", { inputmode: "decimal", "aria-label": `${NAMES[column] ?? TITLES[column]} ${word}`, placeholder: word });
      if (range) input.value = short4(range[side]);
      input.addEventListener("change", () => typed(column, box));
      box.append(input);
    });
    return box;
  }));
}

function typed(column, box) {
  const [low, high] = [...box.querySelectorAll("input")].map((input, side) => {
    const value = Number(input.value.trim().replace(",", "."));
    const isGood = input.value.trim() !== "" && Number.isFinite(value);
    return isGood ? value : picture.spans[column][side];
  });
  if ([...box.querySelectorAll("input")].some((input) => input.value.trim() !== "")) model.ranges[column] = [Math.min(low, high), Math.max(low, high)];
  else delete model.ranges[column];
  changed();
}

export function clearRanges() {
  model.ranges = {};
  changed();
}
