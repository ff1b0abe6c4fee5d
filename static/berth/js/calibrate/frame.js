/* What one of the three screens looks like: axes, the cloud of placements, picks, their range, anchors and the star.

   The cloud is a canvas, so that 2,000 placements on three screens are redrawn in a few milliseconds; axes, picks and
   marks are SVG above it. */
import { drawDots } from "./cloud.js";
import { chosen, model } from "./model.js";
import { HIGHER, MEANINGS, NAMES, UNITS, arrow, css, drawn, short, significant, ticks } from "./words.js";

const MARGIN = { top: 26, right: 46, bottom: 48, left: 34 };
const FAR = 1; // anchors farther off than this many times the front's span are drawn at the edge
const DOT = 2.4;
const STAR = "m0-9 2.5 6 6.400.500-4.900 4.200 1.500 6.300L0 4.600l-5.500 3.400 1.500-6.300-4.900-4.200 6.400-.5z";
export const frames = [];

/* ---- scales ---- */

const anchors = () => model.front?.anchors ?? [];
const star = () => model.checked?.star?.normalised ?? null;

/* From where to where an axis runs: the front, and what is not far off it. */
export function range(objective) {
  let [low, high] = model.points.extent[objective];
  const span = Math.max(high - low, 0.02);
  for (const value of [...anchors().map((anchor) => anchor.normalised[objective]), star()?.[objective]]) {
    if (value === undefined || value === null) continue;
    if (value < low && low - value <= FAR * span) low = value;
    if (value > high && value - high <= FAR * span) high = value;
  }
  if (high - low < 1e-9) { low -= 0.02; high += 0.02; }
  const marks = ticks(low, high);
  const step = marks.length > 1 ? marks[1] - marks[0] : high - low;
  low = Math.floor(low / step + 1e-9) * step;
  high = Math.ceil(high / step - 1e-9) * step;
  return { low, high, marks: ticks(low, high, Math.round((high - low) / step)) };
}

export function lay(frame) {
  const { host, cloud, svg } = frame;
  if (!model.points) return;
  frame.width = host.clientWidth;
  frame.X = null; // nothing stands anywhere while it is hidden
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
  frame.box = drawn("g", {}, svg);
  axes(frame);
  marks(frame);
  frame.picks = drawn("g", {}, svg);
  frame.ring = drawn("circle", { r: 6, class: "ring", visibility: "hidden" }, svg);
  frame.lasso = drawn("path", { class: "lasso", visibility: "hidden" }, svg);
  paint(frame);
}

/* Raw numbers at every other tick, in one unit; its name stands with the last. */
function rawLabels(objective, marksAt) {
  const scale = model.front.scales[objective] ?? 0;
  const last = marksAt.at(-1) * scale;
  const inKilo = objective === "P" && last >= 1000;
  const unit = objective === "P" ? (inKilo ? "kW" : "W") : UNITS[objective];
  const factor = inKilo ? 1000 : 1;
  return { unit, of: (value) => significant((value * scale) / factor) };
}

function axes(frame) {
  const { svg, left, right, top, bottom, X, Y } = frame;
  const words = (x, y, text, cls) => drawn("text", { x, y, class: cls }, svg, text);
  const { x, y } = frame.ranges;
  const [rawX, rawY] = [rawLabels(frame.x, x.marks), rawLabels(frame.y, y.marks)];
  x.marks.forEach((value, k) => {
    words(X(value), bottom + 15, short(value), "mid");
    const isLast = k === x.marks.length - 1;
    if ((x.marks.length - 1 - k) % 2 === 0) words(isLast ? X(value) + 8 : X(value), bottom + 28, isLast ? `${rawX.of(value)} ${rawX.unit}` : rawX.of(value), isLast ? "end dim" : "mid dim");
  });
  y.marks.forEach((value, k) => {
    words(left - 6, Y(value) + 4, short(value), "end");
    if ((y.marks.length - 1 - k) % 2 === 0) words(right + 5, Y(value) + 4, rawY.of(value), "dim");
  });
  words(0, 11, `${frame.y} ${NAMES[frame.y]} ${arrow(frame.y)}`, "strong");
  words(frame.width, 11, rawY.unit, "end dim");
  words((left + right) / 2, bottom + 44, `${frame.x} ${NAMES[frame.x]} ${arrow(frame.x)}`, "mid strong");
}

/* Where nothing else stands: an arrow to the better corner, the anchors, and what lies off the picture at its edge. */
function marks(frame) {
  const { svg, left, right, top, bottom } = frame;
  const [sx, sy] = [HIGHER[frame.x] ? 1 : -1, HIGHER[frame.y] ? -1 : 1];
  const [gx, gy] = [sx > 0 ? right - 10 : left + 10, sy > 0 ? bottom - 10 : top + 10];
  drawn("path", { d: `M${gx - sx * 10},${gy - sy * 10}L${gx},${gy}m${-sx * 6},0h${sx * 6}v${-sy * 6}`, class: "lead" }, svg);
  drawn("text", { x: gx - sx * 14, y: gy - sy * 10 + (sy > 0 ? 0 : 8), class: `${sx > 0 ? "end " : ""}dim halo` }, svg, "better");
  frame.taken = [{ left: Math.min(gx, gx - sx * 50), right: Math.max(gx, gx - sx * 50), top: gy - 14, bottom: gy + 14 }];
  const placed = anchors().map((anchor) => place(frame, anchor));
  frame.taken.push(...placed.map(({ x, y }) => ({ left: x - 6, right: x + 6, top: y - 6, bottom: y + 6 })));
  for (const one of placed) mark(frame, one);
}

/* Where an anchor is drawn, and which way it truly lies if that is off the picture. */
function place(frame, anchor) {
  const { left, right, top, bottom } = frame;
  const [trueX, trueY] = [frame.X(anchor.normalised[frame.x]), frame.Y(anchor.normalised[frame.y])];
  const [x, y] = [Math.min(right, Math.max(left, trueX)), Math.min(bottom, Math.max(top, trueY))];
  const away = `${trueX > right + 1 ? "→" : trueX < left - 1 ? "←" : ""}${trueY < top - 1 ? "↑" : trueY > bottom + 1 ? "↓" : ""}`;
  return { name: anchor.name, x, y, text: `${anchor.name}${away ? ` ${away}` : ""}` };
}

function mark(frame, { name, x, y, text }) {
  const { svg } = frame;
  const isNow = name === "now";
  if (isNow) drawn("path", { d: `M${x},${y - 6}l6,6l-6,6l-6,-6z`, class: "st now-mark", "stroke-width": 1.5 }, svg);
  else drawn("path", { d: `M${x - 4},${y - 4}h8v8h-8z`, class: "sn base-mark", fill: "none", "stroke-width": 1.4 }, svg);
  const spot = room(frame, x, y, text.length * LETTER);
  const label = drawn("text", { x: spot.left, y: spot.bottom - 2, class: `${isNow ? "strong" : "dim"} halo anchor` }, svg, text);
  if (MEANINGS[name]) drawn("title", {}, label, MEANINGS[name]);
}

const LETTER = 6.4, LINE = 13; // px of a label
const overlap = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;

/* Room for a label beside its mark, to the right of it if possible, where it covers no other label and no mark. */
function room(frame, x, y, wide) {
  const rows = [0, -1, 1, -2, 2, -3, 3];
  const spots = rows.flatMap((row) => [x + 9, x - 9 - wide].map((left) => ({ left, right: left + wide, top: y + row * LINE - 7, bottom: y + row * LINE + 6 })));
  const inside = spots.filter((spot) => spot.left >= 0 && spot.right <= frame.width && spot.top >= frame.top - 8 && spot.bottom <= frame.bottom);
  const found = inside.find((spot) => !frame.taken.some((other) => overlap(spot, other))) ?? inside[0] ?? spots[0];
  frame.taken.push(found);
  return found;
}

/* ---- the cloud ---- */

export function paintAll() { for (const frame of frames) paint(frame); }

function paint(frame) {
  if (!frame.X) return;
  grid(frame);
  dots(frame);
  overlay(frame);
}

/* After a pick the cloud stands as it is: marks lie above it, and the style sheet dims it. */
export function markAll() { for (const frame of frames) if (frame.X) overlay(frame); }

function grid(frame) {
  const { base, left, right, top, bottom, X, Y } = frame;
  const ratio = devicePixelRatio || 1;
  const pen = base.getContext("2d");
  pen.clearRect(0, 0, base.width, base.height);
  const line = (x0, y0, x1, y1) => { pen.moveTo(Math.round(x0 * ratio) + 0.5, Math.round(y0 * ratio) + 0.5); pen.lineTo(Math.round(x1 * ratio) + 0.5, Math.round(y1 * ratio) + 0.5); };
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

function dots(frame) {
  const { points } = model;
  const inside = chosen();
  const ratio = devicePixelRatio || 1;
  const [behind, front] = [[], []];
  for (const i of points.shown) (inside?.has(points.index[i]) ? front : behind).push(frame.px[i] * ratio, frame.py[i] * ratio);
  drawDots(frame.cloud, DOT * ratio, { spots: behind, opacity: inside ? 0.16 : 0.62, colour: css("text-3") }, { spots: front, opacity: 0.8, colour: css("accent") });
}

/* ---- picks, range and star ---- */

export const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;

function overlay(frame) {
  const { points } = model;
  const { picks, rejected } = model.draft.state;
  const at = (name) => { const i = points.at.get(name); return [frame.px[i], frame.py[i]]; };
  frame.host.classList.toggle("dim", picks.length > 0);
  frame.box.replaceChildren();
  frame.picks.replaceChildren();
  const spots = picks.map((pick) => at(pick.point));
  if (spots.length > 1) {
    const [xs, ys] = [spots.map((spot) => spot[0]), spots.map((spot) => spot[1])];
    const [x, y] = [Math.min(...xs), Math.min(...ys)];
    drawn("rect", { x: x - 9, y: y - 9, width: Math.max(...xs) - x + 18, height: Math.max(...ys) - y + 18, rx: 3, class: "box" }, frame.box);
  }
  for (const name of rejected) {
    const [x, y] = at(name);
    drawn("circle", { cx: x, cy: y, r: 4, class: "blank" }, frame.picks);
    drawn("path", { d: `M${x - 3.5},${y - 3.5}l7,7m0,-7l-7,7`, class: "sbad", "stroke-width": 1.6 }, frame.picks);
  }
  const wanted = star();
  if (wanted && spots.length) drawn("line", { x1: mean(spots.map((spot) => spot[0])), y1: mean(spots.map((spot) => spot[1])), x2: frame.X(wanted[frame.x]), y2: frame.Y(wanted[frame.y]), class: "st thin" }, frame.picks);
  if (wanted) drawn("path", { d: STAR, transform: `translate(${frame.X(wanted[frame.x])} ${frame.Y(wanted[frame.y])})`, class: "star" }, frame.picks);
  const apart = model.checked?.position === "outside" ? model.checked.unreachable : []; // else it matters little
  const unreachable = new Set(2 * apart.length > picks.length ? [] : apart); // of most: the check says it
  picks.forEach((pick, k) => {
    const [x, y] = spots[k];
    const isHere = pick.screens.includes(frame.name);
    drawn("circle", { cx: x, cy: y, r: 6.5, class: isHere ? "pick" : "pick linked", "data-point": pick.point }, frame.picks);
    drawn("text", { x, y: y + 3.5, class: `mid pn${isHere ? "" : " linked"}` }, frame.picks, k + 1);
    if (unreachable.has(pick.point)) drawn("circle", { cx: x, cy: y, r: 10, class: "unreached" }, frame.picks);
  });
}
