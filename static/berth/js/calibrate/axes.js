/* Parallel coordinates: a line per placement. A range on an axis dims the others everywhere; the address stores it. */

import { byId, css, element, svgElement } from "../dom.js";
import { counted, grouped, tickLabel } from "../format.js";
import { announce } from "./announce.js";
import { columnValue, model, publish, selection, subscribe, updateAddress } from "./model.js";
import { arrow, NAMES, OBJECTIVES } from "./objectives.js";
import { point } from "./screens.js";

const COLUMNS = [...OBJECTIVES, "nodes_on", "jobs_protected", "jobs_exposed", "jobs_split"];
const TITLES = {
  nodes_on: "servers on",
  jobs_protected: "protected jobs",
  jobs_exposed: "exposed jobs",
  jobs_split: "split jobs",
};
const BRIEF = {
  P: "P ↓",
  D: "D ↑",
  C: "C ↓",
  nodes_on: "on",
  jobs_protected: "prot.",
  jobs_exposed: "exp.",
  jobs_split: "split",
};
const TOP = 34,
  FOOT = 20;
const WIDE = 105,
  SIDES = [22, 56]; // px of an axis with its full name; margins without and with full names
const REACH_PX = 18;
const MAX_DISTANCE = 10; // px from the pointer to a line
const view = { host: null, cloud: null, svg: null, drag: null };

const title = (column) =>
  view.isNarrow ? BRIEF[column] : NAMES[column] ? `${column} ${NAMES[column]} ${arrow(column)}` : TITLES[column];

export function startAxes() {
  view.host = document.querySelector(".axes-plot");
  view.cloud = element("canvas", "", "cloud");
  view.svg = svgElement("svg", { "aria-hidden": "true" });
  view.host.replaceChildren(view.cloud, view.svg);
  view.svg.addEventListener("pointerdown", onPress);
  view.svg.addEventListener("pointermove", onMove);
  view.svg.addEventListener("pointerup", onRelease);
  view.svg.addEventListener("pointercancel", onCancel);
  view.svg.addEventListener("pointerleave", () => {
    if (!view.drag) point(null);
  });
  new ResizeObserver(() => {
    if (view.host.clientWidth) layOut();
  }).observe(view.host);
  for (const topic of ["draft", "points", "chosen", "checked"]) subscribe(topic, () => layOut());
  subscribe("hover", () => drawTraces());
  document.addEventListener("berth:theme", () => layOut());
  fromAddress();
}

/* ?ranges=P:0.2:0.4,nodes_on:100:200 */
function fromAddress() {
  for (const part of (new URLSearchParams(location.search).get("ranges") ?? "").split(",")) {
    const [column, low, high] = part.split(":");
    if (COLUMNS.includes(column) && Number.isFinite(Number(low)) && Number.isFinite(Number(high)))
      model.ranges[column] = [Number(low), Number(high)];
  }
  if (Object.keys(model.ranges).length && model.points) publish("chosen");
}

function onRangesChanged() {
  updateAddress({
    ranges: Object.entries(model.ranges)
      .map(([column, [low, high]]) => `${column}:${rounded(low)}:${rounded(high)}`)
      .join(","),
  });
  publish("chosen");
  if (Object.keys(model.ranges).length) announce(`${counted(selection().size, "placement")} in the ranges`);
}

const rounded = (value) => Number(value.toFixed(4));

function extents() {
  const { points } = model;
  return Object.fromEntries(
    COLUMNS.map((column) => {
      let [low, high] = [Infinity, -Infinity];
      for (const i of points.every) {
        const value = columnValue(column, i);
        if (value < low) low = value;
        if (value > high) high = value;
      }
      return [column, high > low ? [low, high] : [low - 1, high + 1]];
    }),
  );
}

function layOut() {
  const { host, cloud, svg } = view;
  if (!model.points || model.mode !== "axes" || !host.clientWidth) return;
  const [width, height] = [host.clientWidth, host.clientHeight];
  view.spans = extents();
  view.width = width;
  view.bottom = height - FOOT;
  view.isNarrow = width < WIDE * COLUMNS.length;
  view.side = SIDES[view.isNarrow ? 0 : 1];
  view.X = (k) => view.side + (k * (width - 2 * view.side)) / (COLUMNS.length - 1);
  view.Y = (column, value) => {
    const [low, high] = view.spans[column];
    return view.bottom - ((value - low) / (high - low)) * (view.bottom - TOP);
  };
  const ratio = devicePixelRatio || 1;
  cloud.width = Math.round(width * ratio);
  cloud.height = Math.round(height * ratio);
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  paintLines(ratio);
  svg.replaceChildren();
  COLUMNS.forEach(drawAxis);
  view.traces = svgElement("g", {}, svg);
  drawTraces();
  showInputs();
}

function path(pen, i, ratio) {
  COLUMNS.forEach((column, k) => {
    const [x, y] = [view.X(k) * ratio, view.Y(column, columnValue(column, i)) * ratio];
    if (k) pen.lineTo(x, y);
    else pen.moveTo(x, y);
  });
}

function paintLines(ratio) {
  const pen = view.cloud.getContext("2d");
  pen.clearRect(0, 0, view.cloud.width, view.cloud.height);
  const inside = selection();
  const count = model.points.shown.length;
  pen.lineWidth = ratio;
  for (const isIn of [false, true]) {
    pen.strokeStyle = isIn && inside ? css("accent") : css("text-3");
    pen.globalAlpha = isIn || !inside ? Math.max(0.08, Math.min(0.5, 40 / count)) : 0.05;
    for (const i of model.points.shown) {
      if (Boolean(inside?.has(model.points.index[i])) !== (inside ? isIn : false) || (!inside && isIn)) continue;
      pen.beginPath();
      path(pen, i, ratio);
      pen.stroke();
    }
  }
  pen.globalAlpha = 1;
}

function drawAxis(column, k) {
  const { svg, bottom } = view;
  const x = view.X(k);
  svgElement("line", { x1: x, x2: x, y1: TOP, y2: bottom, class: "axis" }, svg);
  svgElement("text", { x, y: 12, class: "mid strong" }, svg, title(column));
  const [low, high] = view.spans[column];
  const label = (value) => (NAMES[column] ? tickLabel(Number(value.toFixed(3))) : grouped(value));
  svgElement("text", { x, y: TOP - 7, class: "mid dim" }, svg, label(high));
  svgElement("text", { x, y: bottom + 14, class: "mid dim" }, svg, label(low));
  const range = model.ranges[column];
  if (range) {
    const [top, end] = [view.Y(column, range[1]), view.Y(column, range[0])].map((y) =>
      Math.min(bottom, Math.max(TOP, y)),
    );
    svgElement("rect", { x: x - 7, y: top, width: 14, height: Math.max(2, end - top), class: "axis-range" }, svg);
  }
  svgElement(
    "rect",
    {
      x: x - REACH_PX,
      y: TOP - 4,
      width: 2 * REACH_PX,
      height: bottom - TOP + 8,
      class: "axis-hit",
      "data-column": column,
    },
    svg,
  );
}

function drawTraces() {
  if (!view.traces || model.mode !== "axes" || !model.points) return;
  const { points, draft, hover } = model;
  const d = (value) =>
    COLUMNS.map(
      (column, k) => `${k ? "L" : "M"}${view.X(k).toFixed(1)},${view.Y(column, value(column)).toFixed(1)}`,
    ).join("");
  const of = (name) => (column) => columnValue(column, points.at.get(name));
  view.traces.replaceChildren();
  for (const pick of draft.state.picks) svgElement("path", { d: d(of(pick.point)), class: "trace" }, view.traces);
  if (hover !== null && points.has(hover)) svgElement("path", { d: d(of(hover)), class: "trace hover" }, view.traces);
}

/* ---- ranges by pointer ---- */

function pointerPosition(event) {
  const box = view.svg.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

function valueAt(column, y) {
  const [low, high] = view.spans[column];
  return low + ((view.bottom - Math.min(view.bottom, Math.max(TOP, y))) / (view.bottom - TOP)) * (high - low);
}

function onPress(event) {
  const column = event.target.dataset?.column;
  if (!column || event.button) return;
  view.drag = { column, from: pointerPosition(event)[1], isMoved: false, before: model.ranges[column] };
  view.svg.setPointerCapture(event.pointerId);
  event.preventDefault();
}

function onMove(event) {
  const [x, y] = pointerPosition(event);
  const { drag } = view;
  if (!drag) {
    highlightNearest(x, y);
    return;
  }
  if (!drag.isMoved && Math.abs(y - drag.from) < 4) return;
  drag.isMoved = true;
  const ends = [valueAt(drag.column, drag.from), valueAt(drag.column, y)].sort((a, b) => a - b);
  model.ranges[drag.column] = ends;
  layOut();
}

/* A drag sets the range, a click on the axis removes it. */
function onRelease() {
  const { drag } = view;
  view.drag = null;
  if (!drag) return;
  if (!drag.isMoved) delete model.ranges[drag.column];
  onRangesChanged();
}

/* Leave the range as it was before the drag. */
function onCancel() {
  const { drag } = view;
  view.drag = null;
  if (!drag) return;
  if (drag.before) model.ranges[drag.column] = drag.before;
  else delete model.ranges[drag.column];
  layOut();
}

/* Highlight the line nearest to the pointer on the nearest axis. */
function highlightNearest(x, y) {
  if (!model.points) return;
  const k = Math.round(((x - view.side) / (view.width - 2 * view.side)) * (COLUMNS.length - 1));
  if (k < 0 || k >= COLUMNS.length || Math.abs(view.X(k) - x) > REACH_PX) {
    point(null);
    return;
  }
  let [nearest, minDistance] = [null, MAX_DISTANCE];
  for (const i of model.points.shown) {
    const distance = Math.abs(view.Y(COLUMNS[k], columnValue(COLUMNS[k], i)) - y);
    if (distance < minDistance) {
      minDistance = distance;
      nearest = model.points.index[i];
    }
  }
  point(nearest);
}

/* ---- ranges by keyboard ---- */

function showInputs() {
  const host = byId("cal-ranges");
  if (host.contains(document.activeElement)) return;
  host.replaceChildren(
    ...COLUMNS.map((column) => {
      const box = element("fieldset");
      box.append(element("legend", NAMES[column] ?? TITLES[column]));
      const range = model.ranges[column];
      ["from", "to"].forEach((word, side) => {
        const input = element("input", "", "input", {
          inputmode: "decimal",
          "aria-label": `${NAMES[column] ?? TITLES[column]} ${word}`,
          placeholder: word,
        });
        if (range) input.value = rounded(range[side]);
        input.addEventListener("change", () => onInput(column, box));
        box.append(input);
      });
      return box;
    }),
  );
}

function onInput(column, box) {
  const [low, high] = [...box.querySelectorAll("input")].map((input, side) => {
    const value = Number(input.value.trim().replace(",", "."));
    const isGood = input.value.trim() !== "" && Number.isFinite(value);
    return isGood ? value : view.spans[column][side];
  });
  if ([...box.querySelectorAll("input")].some((input) => input.value.trim() !== ""))
    model.ranges[column] = [Math.min(low, high), Math.max(low, high)];
  else delete model.ranges[column];
  onRangesChanged();
}

export function clearRanges() {
  model.ranges = {};
  onRangesChanged();
}
