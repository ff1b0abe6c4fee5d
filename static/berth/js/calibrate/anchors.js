/* The marks of a screen: the direction of improvement, the current placement and the baselines. */
import { svgElement } from "../dom.js";
import { model } from "./model.js";
import { HIGHER, MEANINGS } from "./objectives.js";

const LETTER_PX = 6.4;
const LINE_PX = 13;

export const anchors = () => model.front?.anchors ?? [];

/* Normalised value of an anchor, or undefined. */
export const anchorValue = ({ name, normalised }, o) => normalised[o] ?? model.points.anchors[o]?.[name];

/* Without the placement at the time of the workload where the placement now is drawn. */
const shownAnchors = ({ x, y }) =>
  anchors().filter(
    (anchor) =>
      !(model.reach?.curve.normalised[x] && model.reach.curve.normalised[y] && anchor.name === "now") &&
      [x, y].every((o) => anchorValue(anchor, o) !== undefined),
  );

/* Draw an arrow to the better corner and the anchors; anchors outside the range are drawn at the edge. */
export function drawAnchors(frame) {
  const { svg, left, right, top, bottom } = frame;
  const [sx, sy] = [HIGHER[frame.x] ? 1 : -1, HIGHER[frame.y] ? -1 : 1];
  const [gx, gy] = [sx > 0 ? right - 10 : left + 10, sy > 0 ? bottom - 10 : top + 10];
  svgElement(
    "path",
    { d: `M${gx - sx * 10},${gy - sy * 10}L${gx},${gy}m${-sx * 6},0h${sx * 6}v${-sy * 6}`, class: "lead" },
    svg,
  );
  svgElement(
    "text",
    { x: gx - sx * 14, y: gy - sy * 10 + (sy > 0 ? 0 : 8), class: `${sx > 0 ? "end " : ""}dim halo` },
    svg,
    "better",
  );
  frame.taken = [
    { left: Math.min(gx, gx - sx * 50), right: Math.max(gx, gx - sx * 50), top: gy - 14, bottom: gy + 14 },
  ];
  const placed = shownAnchors(frame).map((anchor) => placeAnchor(frame, anchor));
  frame.taken.push(...placed.map(({ x, y }) => ({ left: x - 6, right: x + 6, top: y - 6, bottom: y + 6 })));
  for (const anchor of placed) drawAnchor(frame, anchor);
}

/* Position of an anchor, with arrows in its name if it is outside the range. */
function placeAnchor(frame, anchor) {
  const { left, right, top, bottom } = frame;
  const [trueX, trueY] = [frame.X(anchorValue(anchor, frame.x)), frame.Y(anchorValue(anchor, frame.y))];
  const [x, y] = [Math.min(right, Math.max(left, trueX)), Math.min(bottom, Math.max(top, trueY))];
  const away = `${trueX > right + 1 ? "→" : trueX < left - 1 ? "←" : ""}${trueY < top - 1 ? "↑" : trueY > bottom + 1 ? "↓" : ""}`;
  return { name: anchor.name, x, y, text: `${anchor.name}${away ? ` ${away}` : ""}` };
}

function drawAnchor(frame, { name, x, y, text }) {
  const { svg } = frame;
  const isNow = name === "now";
  if (isNow)
    svgElement("path", { d: `M${x},${y - 6}l6,6l-6,6l-6,-6z`, class: "st now-mark", "stroke-width": 1.5 }, svg);
  else
    svgElement(
      "path",
      { d: `M${x - 4},${y - 4}h8v8h-8z`, class: "sn base-mark", fill: "none", "stroke-width": 1.4 },
      svg,
    );
  const spot = labelSpot(frame, x, y, text.length * LETTER_PX);
  const label = svgElement(
    "text",
    { x: spot.left, y: spot.bottom - 2, class: `${isNow ? "strong" : "dim"} halo anchor` },
    svg,
    text,
  );
  if (MEANINGS[name]) svgElement("title", {}, label, MEANINGS[name]);
}

const overlap = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

/* A free place for a label next to its mark, on the right if possible, that covers no other label or mark. */
function labelSpot(frame, x, y, wide) {
  const rows = [0, -1, 1, -2, 2, -3, 3];
  const spots = rows.flatMap((row) =>
    [x + 9, x - 9 - wide].map((left) => ({
      left,
      right: left + wide,
      top: y + row * LINE_PX - 7,
      bottom: y + row * LINE_PX + 6,
    })),
  );
  const inside = spots.filter(
    (spot) => spot.left >= 0 && spot.right <= frame.width && spot.top >= frame.top - 8 && spot.bottom <= frame.bottom,
  );
  const free = inside.find((spot) => !frame.taken.some((other) => overlap(spot, other))) ?? inside[0] ?? spots[0];
  frame.taken.push(free);
  return free;
}
