/* On the screens: the way from the placement now over what migrations reach (◆) to the solver result (★). */
import { svgElement } from "../dom.js";
import { model } from "./model.js";

const LETTER_PX = 6.4;
const diamond = (x, y, size) => `M${x},${y - size}l${size},${size}l${-size},${size}l${-size},${-size}z`;

/* Normalised values of the way, for the ranges of the axes. */
export function wayValues(o) {
  const column = model.reach?.curve.normalised[o];
  return column ? [...column, ...trailValues(o)] : trailValues(o);
}

const trailValues = (o) =>
  (model.trail ?? []).flatMap(({ before, after }) => [before[o], after[o]]).filter((value) => value !== undefined);

const spotsOf = (frame, columns) =>
  columns[frame.x] && columns[frame.y]
    ? columns[frame.x].map((value, k) => [frame.X(value), frame.Y(columns[frame.y][k])])
    : [];

export function drawWay(frame) {
  frame.way.replaceChildren();
  drawTrail(frame);
  if (!model.reach) return;
  const { curve, index } = model.reach;
  const spots = spotsOf(frame, curve.normalised);
  if (!spots.length) return;
  const group = frame.way;
  const last = spots.length - 1;
  const star = model.checked?.star?.normalised;
  if (star) {
    const [x, y] = spots[last];
    const end = [frame.X(star[frame.x]), frame.Y(star[frame.y])];
    svgElement("path", { d: `M${x},${y}L${end}`, class: "way gap" }, group);
  }
  if (index < last) svgElement("path", { d: `M${spots.slice(index).join("L")}`, class: "way more" }, group);
  if (index) svgElement("path", { d: `M${spots.slice(0, index + 1).join("L")}`, class: "way" }, group);
  const [now, reached] = [spots[0], spots[index]];
  svgElement("path", { d: diamond(...now, 6), class: "st now-mark", "stroke-width": 1.5 }, group);
  label(frame, now, "now");
  if (!index) return;
  svgElement("path", { d: diamond(...reached, 6.5), class: "reach-mark" }, group);
  label(frame, reached, "reachable");
}

/* A label next to its mark, on the side with room, that keeps clear of the other one. */
function label(frame, [x, y], text) {
  const wide = text.length * LETTER_PX;
  const isRight = x + 10 + wide <= frame.right + 40;
  const down = text === "now" ? -8 : 16;
  const at = { x: isRight ? x + 8 : x - 8, y: y + down, class: `${isRight ? "" : "end "}strong halo way-label` };
  svgElement("text", at, frame.way, text);
}

/* The realised effect of plans carried out since the workload of the front, oldest first. */
function drawTrail(frame) {
  let previous = null;
  for (const { name, verdict, before, after } of model.trail ?? []) {
    if (before[frame.x] === undefined || before[frame.y] === undefined) continue;
    const from = [frame.X(before[frame.x]), frame.Y(before[frame.y])];
    const to = [frame.X(after[frame.x]), frame.Y(after[frame.y])];
    if (previous) svgElement("path", { d: `M${previous}L${from}`, class: "trail between" }, frame.way);
    svgElement("path", { d: `M${from}L${to}`, class: "trail" }, frame.way);
    const mark = svgElement("path", { d: diamond(...to, 3.4), class: "trail-mark" }, frame.way);
    svgElement("title", {}, mark, `${name}: ${verdict}`);
    previous = to;
  }
}
