/* Bounds on objectives (ε-constraint): a number under the title and a draggable edge on the plots set the same bound. */
import { byId, element, svgElement } from "../dom.js";
import { grouped } from "../format.js";
import { loadUsed } from "./front_versions.js";
import { guarded } from "./fronts.js";
import { model, publish, scaleOf, subscribe } from "./model.js";
import { axisName, formatRaw, HIGHER, inUnit, NAMES } from "./objectives.js";

const KEPT = 0.8; // of the range of the front, by a new bound
const EDGE_PX = 8; // from the edge within which the pointer drags it
const MIN_DRAG = 3; // px
const chips = new Map(); // by objective
let drag = null; // { frame, objective, value, from, isMoved }

export function startBounds() {
  byId("cal-bound-add").addEventListener("change", ({ target }) => add(target.value));
  for (const topic of ["draft", "points", "axes"]) subscribe(topic, show);
}

/* Bounds by objective, normalised, including the one that is dragged. */
export const bounds = () => ({ ...model.draft.state.bounds, ...(drag ? { [drag.objective]: drag.value } : {}) });

const isBroken = (o, value, bound) => (HIGHER[o] ? value < bound - 1e-9 : value > bound + 1e-9);

/* Whether a placement, by position, breaks a bound. */
export const isOutside = (i, given = bounds()) =>
  Object.entries(given).some(([o, bound]) => isBroken(o, model.points.normalised[o]?.[i], bound));

/* The bounds that normalised values break. */
export const brokenBy = (values) =>
  Object.entries(bounds())
    .filter(([o, bound]) => isBroken(o, values[o], bound))
    .map(([o]) => o);

export const boundText = (o, bound) => `${axisName(o)} ${HIGHER[o] ? "≥" : "≤"} ${formatRaw(o, bound * scaleOf(o))}`;

function set(o, value, action) {
  const { [o]: _, ...others } = model.draft.state.bounds;
  model.draft.commit(action, { bounds: value === null ? others : { ...others, [o]: value } });
}

function add(o) {
  const [low, high] = model.points.extent[o];
  const kept = KEPT * (high - low);
  set(o, HIGHER[o] ? high - kept : low + kept, `bound ${NAMES[o]}`);
  byId("cal-bounds").querySelector(`[data-bound="${o}"] input`)?.focus();
}

/* ---- numbers ---- */

function show() {
  if (!model.points) return;
  const given = bounds();
  if (Object.keys(given).some((o) => !model.points.normalised[o])) {
    guarded(async () => {
      const isRefused = await loadUsed(model.points);
      publish("axes");
      if (isRefused) publish("draft");
    });
    return;
  }
  const free = model.axes.filter((o) => !(o in given) && scaleOf(o) > 0);
  const select = byId("cal-bound-add");
  select.replaceChildren(new Option("+ Bound", ""), ...free.map((o) => new Option(axisName(o), o)));
  select.disabled = !free.length;
  const host = byId("cal-bounds");
  for (const o of chips.keys()) if (!(o in given)) chips.delete(o);
  for (const [o, bound] of Object.entries(given)) showChip(o, bound);
  for (const child of [...host.children]) if (!(child.dataset.bound in given)) child.remove();
  const outside = model.points.shown.filter((i) => isOutside(i, given)).length;
  byId("cal-outside").hidden = !Object.keys(given).length;
  byId("cal-outside-text").textContent =
    `outside your bounds: ${grouped(outside)} of ${grouped(model.points.shown.length)}`;
}

/* The unit in which a bound is entered, and its value per normalised value. */
function unitOf(o) {
  const { unit, factor } = inUnit(o, model.points.extent[o][1] * scaleOf(o));
  return { unit, perNormalised: scaleOf(o) / factor };
}

/* Show a bound; its field is kept while it has the focus. */
function showChip(o, bound) {
  if (!chips.has(o)) {
    chips.set(o, chip(o));
    byId("cal-bounds").append(chips.get(o));
  }
  if (drag || !chips.get(o).querySelector("input").matches(":focus")) showNumber(o, bound);
}

function showNumber(o, bound) {
  const input = chips.get(o).querySelector("input");
  input.value = Number((bound * unitOf(o).perNormalised).toPrecision(4));
}

function chip(o) {
  const { unit, perNormalised } = unitOf(o);
  const side = HIGHER[o] ? "at least" : "at most";
  const box = element("span", "", "bound", { "data-bound": o });
  const attributes = { type: "number", step: "any", "aria-label": `Keep ${NAMES[o]} ${side}, ${unit}` };
  const input = element("input", "", "", attributes);
  input.addEventListener("change", () => {
    const value = input.valueAsNumber;
    if (Number.isFinite(value)) set(o, value / perNormalised, `bound ${NAMES[o]} ${side} ${input.value} ${unit}`);
  });
  const remove = element("button", "×", "", { type: "button", "aria-label": `Remove the bound on ${NAMES[o]}` });
  remove.addEventListener("click", () => {
    set(o, null, `remove the bound on ${NAMES[o]}`);
    byId("cal-bound-add").focus();
  });
  box.append(element("span", `${axisName(o)} ${side}`), input, element("span", unit, "t3"), remove);
  return box;
}

/* ---- edges on the plots ---- */

export function drawBounds(frame, k) {
  const group = frame.bounds;
  group.replaceChildren();
  const given = bounds();
  if (![frame.x, frame.y].some((o) => o in given)) return;
  const attributes = { id: `hatch-${k}`, patternUnits: "userSpaceOnUse", width: 6, height: 6 };
  const pattern = svgElement("pattern", { ...attributes, patternTransform: "rotate(45)" }, group);
  svgElement("path", { d: "M0,0V6", class: "hatch" }, pattern);
  for (const isX of [true, false]) {
    const o = isX ? frame.x : frame.y;
    if (o in given) drawEdge(frame, o, isX, given[o], `url(#hatch-${k})`);
  }
}

function drawEdge(frame, o, isX, bound, fill) {
  const { left, right, top, bottom, bounds: group } = frame;
  const [first, last] = isX ? [left, right] : [top, bottom];
  const at = Math.min(last, Math.max(first, isX ? frame.X(bound) : frame.Y(bound)));
  const isBefore = isX === Boolean(HIGHER[o]); // the region outside lies left of the edge, or above it
  const [from, to] = isBefore ? [first, at] : [at, last];
  const area = isX
    ? { x: from, y: top, width: to - from, height: bottom - top }
    : { x: left, y: from, width: right - left, height: to - from };
  svgElement("rect", { ...area, fill, class: "outside" }, group);
  svgElement("path", { d: isX ? `M${at},${top}V${bottom}` : `M${left},${at}H${right}`, class: "edge" }, group);
  const [x, y] = isX ? [at, top + 12] : [right - 12, at];
  svgElement(
    "rect",
    { x: x - (isX ? 3 : 8), y: y - (isX ? 8 : 3), width: isX ? 6 : 16, height: isX ? 16 : 6, rx: 3, class: "grip" },
    group,
  );
  const hit = isX
    ? { x: at - EDGE_PX, y: top, width: 2 * EDGE_PX, height: bottom - top }
    : { x: left, y: at - EDGE_PX, width: right - left, height: 2 * EDGE_PX };
  svgElement("rect", { ...hit, class: `edge-hit ${isX ? "ew" : "ns"}`, "data-edge": o }, group);
}

export const isDragging = () => drag !== null;

/* Begin to drag the edge under the pointer. Returns whether there is one. */
export function beginDrag(frame, event) {
  const objective = event.target.dataset?.edge;
  if (!objective || event.button) return false;
  const from = [event.clientX, event.clientY];
  drag = { frame, objective, value: model.draft.state.bounds[objective], from, isMoved: false };
  frame.svg.setPointerCapture(event.pointerId);
  event.preventDefault();
  return true;
}

export function moveDrag(event) {
  const { frame, objective, from } = drag;
  drag.isMoved ||= Math.hypot(event.clientX - from[0], event.clientY - from[1]) >= MIN_DRAG;
  if (!drag.isMoved) return;
  const box = frame.svg.getBoundingClientRect();
  const { x, y } = frame.ranges;
  const [share, { low, high }] =
    objective === frame.x
      ? [(event.clientX - box.left - frame.left) / (frame.right - frame.left), x]
      : [(frame.bottom - (event.clientY - box.top)) / (frame.bottom - frame.top), y];
  drag.value = low + Math.min(1, Math.max(0, share)) * (high - low);
  show();
  publish("chosen");
}

/* Set the bound where the edge was released. Returns whether an edge was moved: else it is a click. */
export function endDrag() {
  if (!drag) return false;
  const { objective, value, isMoved } = drag;
  drag = null;
  if (isMoved) set(objective, value, `bound ${NAMES[objective]}`);
  return isMoved;
}

/* Leave the bound where it was before the drag. */
export function cancelDrag() {
  if (!drag) return;
  const { objective } = drag;
  drag = null;
  show();
  if (objective in bounds()) showNumber(objective, bounds()[objective]);
  publish("chosen");
}
