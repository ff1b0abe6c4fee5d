/* A lasso drawn with the pointer: the placements inside it stand out, the others are dimmed. */
import { model, tell } from "./model.js";
import { announce, many } from "./words.js";

let path = null; // { frame, spots } while one is drawn

export const isDrawing = () => path !== null;

function spotOf(frame, event) {
  const box = frame.svg.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

export function beginLasso(frame, event) {
  path = { frame, spots: [spotOf(frame, event)] };
  frame.svg.setPointerCapture(event.pointerId);
  event.preventDefault();
}

export function extendLasso(event) {
  path.spots.push(spotOf(path.frame, event));
  path.frame.lasso.setAttribute("d", `M${path.spots.map(([x, y]) => `${x.toFixed(1)},${y.toFixed(1)}`).join("L")}Z`);
  path.frame.lasso.setAttribute("visibility", "visible");
}

/* Let go of what is being drawn, and of what a lasso or "between these two" hold; whether there was anything. */
export function letGo() {
  const was = Boolean(path ?? model.lasso ?? model.between);
  path?.frame.lasso.setAttribute("visibility", "hidden");
  path = null;
  model.lasso = null;
  model.between = null;
  if (was) tell("chosen");
  return was;
}

/* Whether it held an area, not a mere click. */
export function endLasso() {
  if (!path) return false;
  const { frame, spots } = path;
  frame.lasso.setAttribute("visibility", "hidden");
  path = null;
  if (spots.length < 4) return false;
  const inside = new Set();
  for (const i of model.points.shown) if (within(frame.px[i], frame.py[i], spots)) inside.add(model.points.index[i]);
  model.lasso = inside.size ? inside : null;
  model.between = null;
  model.screen = frame.name;
  announce(inside.size ? `${many(inside.size, "placement")} inside the lasso` : "No placement inside the lasso");
  tell("chosen");
  return true;
}

/* Even-odd rule. */
function within(x, y, spots) {
  let isIn = false;
  for (let k = 0, last = spots.length - 1; k < spots.length; last = k, k += 1) {
    const [[x0, y0], [x1, y1]] = [spots[k], spots[last]];
    if (y0 > y !== y1 > y && x < ((x1 - x0) * (y - y0)) / (y1 - y0) + x0) isIn = !isIn;
  }
  return isIn;
}
