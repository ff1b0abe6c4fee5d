/* Zoom of the plots, by objective: plots that share an objective zoom together. It is kept over new results and versions,
   and is part of the address. Mouse: drag a rectangle in the mode Zoom, or turn the wheel with Ctrl. Keyboard: + and −,
   Shift with arrows, 0. Touch: two fingers. */
import { debounce } from "../dom.js";
import { announce } from "./announce.js";
import { range } from "./frame.js";
import { model, publish, subscribe, updateAddress } from "./model.js";
import { NAMES } from "./objectives.js";

const STEP = 1.5;
const MIN_SPAN = 0.02; // of the whole range
const PAN_SHARE = 0.2; // of the range shown, by one key
const MIN_DRAG = 8; // px
const WHEEL_PX = 300; // of the wheel for a factor of e
const storeLater = debounce(store, 200);

export function startZoom() {
  for (const part of (new URLSearchParams(location.search).get("zoom") ?? "").split(",")) {
    const [o, low, high] = part.split(":");
    if (o in NAMES && Number(low) < Number(high)) model.zoom[o] = [Number(low), Number(high)];
  }
  const actions = { in: () => zoomAll(1 / STEP), out: () => zoomAll(STEP), picks: zoomToPicks, whole: resetZoom };
  for (const button of document.querySelectorAll("[data-zoom]"))
    button.addEventListener("click", actions[button.dataset.zoom]);
  for (const topic of ["points", "draft", "axes"]) subscribe(topic, showButtons);
}

function store() {
  const parts = Object.entries(model.zoom).map(([o, ends]) => [o, ...ends.map((end) => Number(end.toFixed(4)))]);
  updateAddress({ zoom: parts.map((part) => part.join(":")).join() });
}

function showButtons() {
  const isZoomed = model.axes.some((o) => model.zoom[o]);
  for (const button of document.querySelectorAll("[data-zoom=whole], [data-zoom=out]")) button.disabled = !isZoomed;
  document.querySelector("[data-zoom=picks]").disabled = !model.draft.state.picks.length;
}

function onChanged() {
  publish("zoom");
  showButtons();
  storeLater();
  announce(model.axes.some((o) => model.zoom[o]) ? "Zoomed" : "The whole front is shown");
}

/* Show part of an objective; the whole range needs no zoom. */
function setRange(o, low, high) {
  const whole = range(o, true);
  const span = whole.high - whole.low;
  const size = Math.min(span, Math.max(high - low, MIN_SPAN * span));
  const start = Math.min(whole.high - size, Math.max(whole.low, (low + high - size) / 2));
  if (size > 0.999 * span) delete model.zoom[o];
  else model.zoom[o] = [start, start + size];
}

const valueAt = (o, from, to, px) => {
  const { low, high } = range(o);
  return low + ((px - from) / (to - from)) * (high - low);
};
const valuesAt = (frame, x, y) => [
  valueAt(frame.x, frame.left, frame.right, x),
  valueAt(frame.y, frame.bottom, frame.top, y),
];

/* Zoom an objective around one of its values. */
function zoomAround(o, factor, value) {
  const { low, high } = range(o);
  setRange(o, value - (value - low) * factor, value + (high - value) * factor);
}

export function zoomAt(frame, factor, x, y) {
  const at = valuesAt(frame, x, y);
  [frame.x, frame.y].forEach((o, k) => {
    zoomAround(o, factor, at[k]);
  });
  onChanged();
}

function zoomAll(factor) {
  for (const o of model.axes) {
    const { low, high } = range(o);
    zoomAround(o, factor, (low + high) / 2);
  }
  onChanged();
}

export function resetZoom() {
  model.zoom = {};
  onChanged();
}

/* Show the picks, with a margin. */
function zoomToPicks() {
  for (const o of model.axes) {
    const values = model.draft.state.picks.map(({ point }) => model.points.normalised[o][model.points.at.get(point)]);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const margin = Math.max(0.15 * (high - low), 1e-3);
    setRange(o, low - margin, high + margin);
  }
  onChanged();
}

/* Move what is shown by a share of the range. */
function pan(frame, dx, dy) {
  for (const [o, share] of [
    [frame.x, dx],
    [frame.y, dy],
  ]) {
    const { low, high } = range(o);
    if (share && model.zoom[o]) setRange(o, low + share * (high - low), high + share * (high - low));
  }
  onChanged();
}

/* ---- keyboard and wheel ---- */

const PANS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] };

/* Handle a key on a plot. Returns whether it was one of the zoom. */
export function zoomByKey(frame, event) {
  const ring = model.points.at.get(model.hover);
  const at =
    ring === undefined
      ? [(frame.left + frame.right) / 2, (frame.top + frame.bottom) / 2]
      : [frame.px[ring], frame.py[ring]];
  if (event.key === "+" || event.key === "=") zoomAt(frame, 1 / STEP, ...at);
  else if (event.key === "-" || event.key === "−") zoomAt(frame, STEP, ...at);
  else if (event.key === "0") resetZoom();
  else if (event.shiftKey && PANS[event.key]) pan(frame, ...PANS[event.key].map((step) => step * PAN_SHARE));
  else return false;
  event.preventDefault();
  return true;
}

const positionOf = (frame, { clientX, clientY }) => {
  const box = frame.svg.getBoundingClientRect();
  return [clientX - box.left, clientY - box.top];
};

export function zoomByWheel(frame, event) {
  if (!event.ctrlKey && !event.metaKey) return;
  event.preventDefault();
  if (model.points && frame.X) zoomAt(frame, Math.exp(event.deltaY / WHEEL_PX), ...positionOf(frame, event));
}

/* ---- drag and pinch ---- */

const touches = new Map(); // position of each finger by pointer
let gesture = null; // a pinch { frame, distance, at, spans } or a rectangle { frame, from }

export const isZooming = () => gesture !== null;

/* Distance and centre of the first two fingers. */
function pinchOf() {
  const [[x0, y0], [x1, y1]] = touches.values();
  return { distance: Math.max(1, Math.hypot(x1 - x0, y1 - y0)), centre: [(x0 + x1) / 2, (y0 + y1) / 2] };
}

/* Begin a pinch with the second finger, or a rectangle in the mode Zoom. Returns whether one has begun. */
export function beginZoom(frame, event) {
  if (event.pointerType === "touch") touches.set(event.pointerId, positionOf(frame, event));
  if (touches.size === 2) {
    const { distance, centre } = pinchOf();
    const spans = [frame.x, frame.y].map((o) => range(o).high - range(o).low);
    frame.lasso.setAttribute("visibility", "hidden");
    gesture = { frame, distance, at: valuesAt(frame, ...centre), spans };
  } else if (model.mode === "zoom" && !event.button) gesture = { frame, from: positionOf(frame, event) };
  else return false;
  frame.svg.setPointerCapture(event.pointerId);
  event.preventDefault();
  return true;
}

export function moveZoom(event) {
  const { frame, from } = gesture;
  if (touches.has(event.pointerId)) touches.set(event.pointerId, positionOf(frame, event));
  if (from) {
    const [x, y] = positionOf(frame, event);
    frame.lasso.setAttribute("d", `M${from}H${x}V${y}H${from[0]}Z`);
    frame.lasso.setAttribute("visibility", "visible");
  } else if (touches.size === 2) movePinch();
}

/* The values that were between the fingers stay there; the range shown shrinks as the fingers part. */
function movePinch() {
  const { frame, distance, at, spans } = gesture;
  const pinch = pinchOf();
  const shares = [
    (pinch.centre[0] - frame.left) / (frame.right - frame.left),
    (frame.bottom - pinch.centre[1]) / (frame.bottom - frame.top),
  ];
  [frame.x, frame.y].forEach((o, k) => {
    const span = (spans[k] * distance) / pinch.distance;
    const low = at[k] - shares[k] * span;
    setRange(o, low, low + span);
  });
  onChanged();
}

/* End a gesture. Returns whether there was one. */
export function endZoom(event) {
  touches.delete(event.pointerId);
  if (!gesture) return false;
  const { frame, from } = gesture;
  if (!from) {
    if (!touches.size) gesture = null;
    return true;
  }
  gesture = null;
  frame.lasso.setAttribute("visibility", "hidden");
  const to = positionOf(frame, event);
  if (event.type !== "pointerup" || [0, 1].some((k) => Math.abs(to[k] - from[k]) < MIN_DRAG)) return true;
  const ends = [valuesAt(frame, ...from), valuesAt(frame, ...to)];
  [frame.x, frame.y].forEach((o, k) => {
    setRange(o, Math.min(ends[0][k], ends[1][k]), Math.max(ends[0][k], ends[1][k]));
  });
  onChanged();
  return true;
}
