/* Above the placements of a screen: picks, their range, rejected placements and the solver result. */
import { svgElement } from "../dom.js";
import { mean } from "../format.js";
import { drawBounds } from "./bounds.js";
import { frames, starValue } from "./frame.js";
import { model } from "./model.js";
import { drawWay } from "./way.js";

const STAR = "m0-9 2.5 6 6.400.500-4.900 4.200 1.500 6.300L0 4.600l-5.500 3.400 1.500-6.300-4.900-4.200 6.400-.5z";
const RANGE_MARGIN = 9;

export function drawOverlay(frame) {
  const { points, draft } = model;
  const { picks, rejected } = draft.state;
  const position = (point) => {
    const i = points.at.get(point);
    return [frame.px[i], frame.py[i]];
  };
  const positions = picks.map((pick) => position(pick.point));
  frame.host.classList.toggle("dim", picks.length > 0);
  frame.box.replaceChildren();
  frame.picks.replaceChildren();
  if (picks.length > 1) drawRange(frame, positions);
  for (const point of rejected) drawRejected(frame, position(point));
  const [x, y] = [frame.x, frame.y].map(starValue);
  drawBounds(frame, frames.indexOf(frame));
  drawWay(frame);
  if (x !== undefined && y !== undefined) drawResult(frame, [frame.X(x), frame.Y(y)], positions);
  const { broken = [], bounded } = model.checked ?? {};
  if (broken.length && points.has(bounded)) drawBounded(frame, position(bounded));
  drawPicks(frame, picks, positions);
}

function drawRange(frame, positions) {
  const [xs, ys] = [0, 1].map((axis) => positions.map((position) => position[axis]));
  const [x, y] = [Math.min(...xs), Math.min(...ys)];
  const size = {
    width: Math.max(...xs) - x + 2 * RANGE_MARGIN,
    height: Math.max(...ys) - y + 2 * RANGE_MARGIN,
  };
  svgElement("rect", { x: x - RANGE_MARGIN, y: y - RANGE_MARGIN, ...size, rx: 3, class: "box" }, frame.box);
}

function drawRejected(frame, [x, y]) {
  svgElement("circle", { cx: x, cy: y, r: 4, class: "blank" }, frame.picks);
  svgElement("path", { d: `M${x - 3.5},${y - 3.5}l7,7m0,-7l-7,7`, class: "sbad", "stroke-width": 1.6 }, frame.picks);
}

/* The solver result, with a line from the centre of the picks. */
function drawResult(frame, [x, y], positions) {
  if (positions.length) {
    const [x1, y1] = [0, 1].map((axis) => mean(positions.map((position) => position[axis])));
    svgElement("line", { x1, y1, x2: x, y2: y, class: "st thin" }, frame.picks);
  }
  svgElement("path", { d: STAR, transform: `translate(${x} ${y})`, class: "star" }, frame.picks);
}

/* The best placement of the front within the bounds. */
function drawBounded(frame, [x, y]) {
  svgElement("path", { d: STAR, transform: `translate(${x} ${y})`, class: "star bounded" }, frame.picks);
}

/* Unreachable picks with a ring: only if the result is outside the picks, and if they are a minority. */
function unreachablePicks(picks) {
  const { position, unreachable } = model.checked ?? {};
  return new Set(position === "outside" && 2 * unreachable.length <= picks.length ? unreachable : []);
}

function drawPicks(frame, picks, positions) {
  const unreachable = unreachablePicks(picks);
  for (const [k, { point, screens }] of picks.entries()) {
    const [x, y] = positions[k];
    const isHere = screens.includes(frame.name);
    const cls = isHere ? "pick" : "pick linked";
    svgElement("circle", { cx: x, cy: y, r: 6.5, class: cls, "data-point": point }, frame.picks);
    svgElement("text", { x, y: y + 3.5, class: `mid pn${isHere ? "" : " linked"}` }, frame.picks, k + 1);
    if (unreachable.has(point)) svgElement("circle", { cx: x, cy: y, r: 10, class: "unreached" }, frame.picks);
  }
}
