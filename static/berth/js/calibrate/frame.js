/* Drawing the three screens: axes and placements, with marks and picks above them.

   The placements are on a canvas, so that 2,000 of them are redrawn on three screens in a few milliseconds; everything
   else is SVG. */

import { css, svgElement } from "../dom.js";
import { significant, tickLabel, ticks } from "../format.js";
import { anchors, anchorValue, drawAnchors } from "./anchors.js";
import { bounds, isOutside } from "./bounds.js";
import { drawDots } from "./dots.js";
import { model, scaleOf, selection } from "./model.js";
import { arrow, axisName, inUnit } from "./objectives.js";
import { drawOverlay } from "./overlay.js";
import { wayValues } from "./way.js";

const MARGIN = { top: 26, right: 46, bottom: 48, left: 34 };
const MAX_REACH = 1; // an anchor farther from the front than its span is drawn at the edge
const DOT_PX = 2.4; // radius
const MARK_PX = 10; // of marks beyond the edge of a plot
export const frames = [];

/* ---- scales ---- */

/* Normalised value of the solver result, or undefined. */
export function starValue(objective) {
  const { normalised, objectives } = model.checked?.star ?? {};
  return normalised?.[objective] ?? objectives?.[objective];
}

/* Range of an axis: the front, and anchors, solver result and reachable placements near it. */
export function range(objective, isWhole = false) {
  if (model.zoom[objective] && !isWhole) {
    const [from, to] = model.zoom[objective];
    return { low: from, high: to, marks: ticks(from, to) };
  }
  let [low, high] = model.points.extent[objective];
  const span = Math.max(high - low, 0.02);
  const others = [...anchors().map((anchor) => anchorValue(anchor, objective)), starValue(objective)];
  for (const value of [...others, ...wayValues(objective)]) {
    if (value === undefined || value === null) continue;
    if (value < low && low - value <= MAX_REACH * span) low = value;
    if (value > high && value - high <= MAX_REACH * span) high = value;
  }
  if (high - low < 1e-9) {
    low -= 0.02;
    high += 0.02;
  }
  const marks = ticks(low, high);
  const step = marks.length > 1 ? marks[1] - marks[0] : high - low;
  low = Math.floor(low / step + 1e-9) * step;
  high = Math.ceil(high / step - 1e-9) * step;
  return { low, high, marks: ticks(low, high, Math.round((high - low) / step)) };
}

export function layOut(frame) {
  const { host, cloud, svg } = frame;
  if (!model.points) return;
  frame.width = host.clientWidth;
  frame.X = null; // no positions while the screen is hidden
  if (!frame.width) return;
  frame.height = host.clientHeight;
  const [x, y] = [range(frame.x), range(frame.y)];
  frame.left = MARGIN.left;
  frame.right = frame.width - MARGIN.right;
  frame.top = MARGIN.top;
  frame.bottom = frame.height - MARGIN.bottom;
  frame.X = (value) => frame.left + ((value - x.low) / (x.high - x.low)) * (frame.right - frame.left);
  frame.Y = (value) => frame.bottom - ((value - y.low) / (y.high - y.low)) * (frame.bottom - frame.top);
  frame.ranges = { x, y };
  const { normalised, size } = model.points;
  frame.px = Float32Array.from({ length: size }, (_, i) => frame.X(normalised[frame.x][i]));
  frame.py = Float32Array.from({ length: size }, (_, i) => frame.Y(normalised[frame.y][i]));
  for (const canvas of [frame.base, cloud]) {
    canvas.width = Math.round(frame.width * (devicePixelRatio || 1));
    canvas.height = Math.round(frame.height * (devicePixelRatio || 1));
  }
  svg.setAttribute("viewBox", `0 0 ${frame.width} ${frame.height}`);
  svg.setAttribute("height", frame.height);
  svg.replaceChildren();
  const clip = clipTo(frame);
  frame.box = svgElement("g", clip, svg);
  frame.bounds = svgElement("g", {}, svg);
  drawAxes(frame);
  drawAnchors(frame);
  frame.way = svgElement("g", clip, svg);
  frame.picks = svgElement("g", clip, svg);
  frame.ring = svgElement("circle", { r: 6, class: "ring", visibility: "hidden" }, svg);
  frame.lasso = svgElement("path", { class: "lasso", visibility: "hidden" }, svg);
  paint(frame);
}

/* What is zoomed out of view is not drawn; marks at the edge of the plot are whole. */
function clipTo({ svg, left, right, top, bottom }) {
  const id = `clip-${frames.findIndex((frame) => frame.svg === svg)}`;
  const shape = svgElement("clipPath", { id }, svg);
  const area = { x: left - MARK_PX, y: top - MARK_PX, width: right - left + 2 * MARK_PX };
  svgElement("rect", { ...area, height: bottom - top + 2 * MARK_PX }, shape);
  return Object.keys(model.zoom).length ? { "clip-path": `url(#${id})` } : {};
}

/* Whether a placement, by position, lies on the part of a plot that is shown. */
export const isInView = ({ px, py, left, right, top, bottom }, i) =>
  px[i] >= left - 1 && px[i] <= right + 1 && py[i] >= top - 1 && py[i] <= bottom + 1;

/* Raw values of the ticks, all in one unit. */
function rawLabels(objective, marksAt) {
  const scale = scaleOf(objective);
  const last = marksAt.at(-1) * scale;
  const { unit, factor } = inUnit(objective, last);
  return { unit, of: (value) => significant((value * scale) / factor) };
}

function drawAxes(frame) {
  const { svg, left, right, bottom, X, Y } = frame;
  const label = (x, y, text, cls) => svgElement("text", { x, y, class: cls }, svg, text);
  const { x, y } = frame.ranges;
  const [rawX, rawY] = [rawLabels(frame.x, x.marks), rawLabels(frame.y, y.marks)];
  x.marks.forEach((value, k) => {
    label(X(value), bottom + 15, tickLabel(value), "mid");
    const isLast = k === x.marks.length - 1;
    if ((x.marks.length - 1 - k) % 2 === 0)
      label(
        isLast ? X(value) + 8 : X(value),
        bottom + 28,
        isLast ? `${rawX.of(value)} ${rawX.unit}` : rawX.of(value),
        isLast ? "end dim" : "mid dim",
      );
  });
  y.marks.forEach((value, k) => {
    label(left - 6, Y(value) + 4, tickLabel(value), "end");
    if ((y.marks.length - 1 - k) % 2 === 0) label(right + 5, Y(value) + 4, rawY.of(value), "dim");
  });
  label(0, 11, `${axisName(frame.y)} ${arrow(frame.y)}`, "strong");
  label(frame.width, 11, rawY.unit, "end dim");
  label((left + right) / 2, bottom + 44, `${axisName(frame.x)} ${arrow(frame.x)}`, "mid strong");
}

/* ---- placements ---- */

export function paintAll() {
  for (const frame of frames) paint(frame);
}

function paint(frame) {
  if (!frame.X) return;
  paintGrid(frame);
  paintDots(frame);
  drawOverlay(frame);
}

/* After a pick only the overlay changes; the style sheet dims the placements. */
export function redrawOverlays() {
  for (const frame of frames) if (frame.X) drawOverlay(frame);
}

function paintGrid(frame) {
  const { base, left, right, top, bottom, X, Y } = frame;
  const ratio = devicePixelRatio || 1;
  const pen = base.getContext("2d");
  pen.clearRect(0, 0, base.width, base.height);
  const line = (x0, y0, x1, y1) => {
    pen.moveTo(Math.round(x0 * ratio) + 0.5, Math.round(y0 * ratio) + 0.5);
    pen.lineTo(Math.round(x1 * ratio) + 0.5, Math.round(y1 * ratio) + 0.5);
  };
  pen.lineWidth = 1;
  pen.strokeStyle = css("chart-grid");
  pen.beginPath();
  for (const value of frame.ranges.x.marks) line(X(value), top, X(value), bottom);
  for (const value of frame.ranges.y.marks) line(left, Y(value), right, Y(value));
  pen.stroke();
  pen.strokeStyle = css("rule-strong");
  pen.beginPath();
  line(left, bottom, right, bottom);
  line(left, top, left, bottom);
  pen.stroke();
}

function paintDots(frame) {
  const { points } = model;
  const inside = selection();
  const ratio = devicePixelRatio || 1;
  const [behind, front] = [[], []];
  const given = bounds();
  const isBounded = Object.keys(given).length > 0;
  const isFront = (i) => (inside ? inside.has(points.index[i]) : isBounded && !isOutside(i, given));
  for (const i of points.shown)
    if (isInView(frame, i)) (isFront(i) ? front : behind).push(frame.px[i] * ratio, frame.py[i] * ratio);
  drawDots(
    frame.cloud,
    DOT_PX * ratio,
    { spots: behind, opacity: inside || isBounded ? 0.16 : 0.62, colour: css("text-3") },
    inside
      ? { spots: front, opacity: 0.8, colour: css("accent") }
      : { spots: front, opacity: 0.62, colour: css("text-3") },
  );
}
