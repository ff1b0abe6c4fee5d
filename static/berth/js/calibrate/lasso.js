/* The lasso: placements inside are highlighted, the others dimmed. */

import { counted } from "../format.js";
import { announce } from "./announce.js";
import { isInView } from "./frame.js";
import { model, publish } from "./model.js";

const MIN_VERTICES = 4;
let path = null; // { frame, vertices } while a lasso is drawn

export const isDrawing = () => path !== null;

function positionOf(frame, event) {
  const box = frame.svg.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

export function beginLasso(frame, event) {
  path = { frame, vertices: [positionOf(frame, event)] };
  frame.svg.setPointerCapture(event.pointerId);
  event.preventDefault();
}

export function extendLasso(event) {
  path.vertices.push(positionOf(path.frame, event));
  path.frame.lasso.setAttribute("d", `M${path.vertices.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join("L")}Z`);
  path.frame.lasso.setAttribute("visibility", "visible");
}

/* Remove the lasso and the placements between two picks. Returns whether there were any. */
export function clearArea() {
  const hadArea = Boolean(path ?? model.lasso ?? model.between);
  path?.frame.lasso.setAttribute("visibility", "hidden");
  path = null;
  model.lasso = null;
  model.between = null;
  if (hadArea) publish("chosen");
  return hadArea;
}

/* Forget a lasso that is being drawn; an earlier selection stays. */
export function cancelLasso() {
  path?.frame.lasso.setAttribute("visibility", "hidden");
  path = null;
}

/* Finish the lasso. Returns false for a click without an area. */
export function endLasso() {
  if (!path) return false;
  const { frame, vertices } = path;
  cancelLasso();
  if (vertices.length < MIN_VERTICES) return false;
  const inside = new Set();
  for (const i of model.points.shown)
    if (isInView(frame, i) && isInside(frame.px[i], frame.py[i], vertices)) inside.add(model.points.index[i]);
  model.lasso = inside.size ? inside : null;
  model.between = null;
  model.screen = frame.name;
  announce(inside.size ? `${counted(inside.size, "placement")} inside the lasso` : "No placement inside the lasso");
  publish("chosen");
  return true;
}

/* Whether a point is inside a polygon, by the even-odd rule. */
export function isInside(x, y, vertices) {
  let isIn = false;
  for (let k = 0, last = vertices.length - 1; k < vertices.length; last = k, k += 1) {
    const [[x0, y0], [x1, y1]] = [vertices[k], vertices[last]];
    if (y0 > y !== y1 > y && x < ((x1 - x0) * (y - y0)) / (y1 - y0) + x0) isIn = !isIn;
  }
  return isIn;
}
