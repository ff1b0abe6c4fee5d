/* What migrations that pay reach from the present cluster: the curve over their number, and a slider on it.

   A position of the slider is a number of whole bundles, as a worker measured it. */
import { byId, svgElement } from "../dom.js";
import { counted, duration, grouped, percent, ticks } from "../format.js";
import { mayChange, model, publish, subscribe, updateAddress } from "./model.js";
import { formatRaw, HIGHER, inUnit, NAMES, OBJECTIVES, RAW_KEYS } from "./objectives.js";

const MARGIN = { top: 20, right: 12, bottom: 34, left: 40 };
const HEIGHT = 190;
const MIN_PROMISE = 1e-4; // normalised
const STAR_IGNORES = "★ places every container from scratch and ignores the speed of jobs.";
let wanted = null; // number of migrations chosen by the user; null for all that pay

export function startReach() {
  if (!mayChange()) return;
  const given = Number(new URL(location.href).searchParams.get("moves"));
  if (given > 0) wanted = given;
  const slider = byId("cal-moves");
  slider.addEventListener("input", () => {
    const { moves } = model.reach.curve;
    const index = Number(slider.value);
    wanted = index === moves.length - 1 ? null : moves[index];
    updateAddress({ moves: wanted });
    model.reach.index = index;
    show();
    publish("reach");
  });
  byId("cal-elbow").addEventListener("click", () => {
    slider.value = model.reach.curve.elbow;
    slider.dispatchEvent(new Event("input"));
    slider.focus();
  });
  subscribe("preview", onAnswer);
  subscribe("checked", () => {
    if (model.reach) show();
  });
  new ResizeObserver(() => {
    if (model.reach) drawCurve();
  }).observe(byId("cal-gain"));
}

function onAnswer() {
  const curve = model.preview?.answer?.reach;
  byId("cal-reach").hidden = !curve;
  byId("cal-why").hidden = !curve;
  model.reach = curve ? { curve, index: positionOf(curve) } : null;
  if (curve) show();
  publish("reached");
}

/* The last prefix with at most the wanted number of migrations. */
function positionOf({ moves }) {
  const last = moves.length - 1;
  if (wanted === null) return last;
  return Math.max(
    0,
    moves.findLastIndex((count) => count <= wanted),
  );
}

/* The measures after `index` bundles, like `after` of a preview. */
export function measuresAt(index) {
  const { curve } = model.reach;
  const columns = ["watts", "diversity", "crossing", "servers_on", "targets_met", "F"];
  return Object.fromEntries(columns.map((name) => [name, curve[name][index]]));
}

export const valuesAt = (index) => {
  const { normalised } = model.reach.curve;
  return Object.fromEntries(Object.keys(normalised).map((o) => [o, normalised[o][index]]));
};

export const isAll = () => model.reach.index === model.reach.curve.moves.length - 1;

/* Raw value of the running cluster per normalised value. */
function scaleOf(o) {
  const { before } = model.preview.answer;
  return before.normalised[o] ? before[RAW_KEYS[o]] / before.normalised[o] : (model.front.scales[o] ?? 0);
}

/* Raw value on the running cluster of a normalised one. */
export const rawOf = (o, normalised) => normalised * scaleOf(o);

/* Raw value of the solver result on the running cluster, or null. */
export function freeValue(o) {
  const star = model.checked?.star?.normalised;
  return star && o in RAW_KEYS ? star[o] * scaleOf(o) : null;
}

const improvement = (o, from, to) => (HIGHER[o] ? to - from : from - to);

/* The objective in which the solver result promises most, by weight, with the promise and what is reached of it. */
export function promise() {
  const { curve, index } = model.reach;
  const star = model.checked?.star?.normalised;
  const goal = star ?? valuesAt(curve.moves.length - 1);
  const weights = model.derived?.weights ?? {};
  const gains = OBJECTIVES.filter((o) => o in RAW_KEYS).map((o) => {
    const now = curve.normalised[o][0];
    return {
      objective: o,
      promised: improvement(o, now, goal[o]),
      reached: improvement(o, now, curve.normalised[o][index]),
      weighted: (weights[o] ?? 0) * improvement(o, now, goal[o]),
    };
  });
  const best = gains.reduce((a, b) => (b.weighted > a.weighted ? b : a));
  return { ...best, isFree: Boolean(star), share: best.promised > MIN_PROMISE ? best.reached / best.promised : null };
}

/* A change for the better as "7.5 kW less power"; a change for the worse if it is negative. */
function gainText(o, normalised) {
  const text = formatRaw(o, Math.abs(normalised) * scaleOf(o));
  return `${text} ${HIGHER[o] === normalised >= 0 ? "more" : "less"} ${NAMES[o]}`;
}

function show() {
  const { curve, index } = model.reach;
  const slider = byId("cal-moves");
  const last = curve.moves.length - 1;
  slider.max = last;
  slider.value = index;
  slider.disabled = !last;
  const text = `${counted(curve.moves[index], "migration")} of ${grouped(curve.moves[last])} that pay`;
  byId("cal-moves-count").textContent = text;
  slider.setAttribute("aria-valuetext", `${text}, ${gainText(promise().objective, promise().reached)}`);
  byId("cal-moves-cost").textContent = costText();
  byId("cal-elbow").hidden = !curve.elbow || curve.elbow === index;
  byId("cal-elbow").textContent = `Elbow: ${counted(curve.moves[curve.elbow], "migration")}`;
  byId("cal-reach-title").textContent = titleText();
  byId("cal-why").textContent = whyText();
  drawCurve();
}

function costText() {
  const { curve, index } = model.reach;
  const fallen = curve.fallen[index];
  const loss = fallen ? `; ${counted(fallen, "job misses its target", "jobs miss their target")}` : "";
  return `${duration(curve.seconds[index])} of container downtime in total${loss}`;
}

function titleText() {
  const { curve, index } = model.reach;
  const { share, isFree } = promise();
  if (curve.moves.length === 1) return "No migration pays from here";
  const count = counted(curve.moves[index], "migration");
  const verb = curve.moves[index] === 1 ? "reaches" : "reach";
  if (share === null) return `${count} from the placement now`;
  return isFree ? `${count} ${verb} ${percent(share, 0)} of the promise` : `${count} ${verb} ${percent(share, 0)}`;
}

function whyText() {
  const { curve, index } = model.reach;
  const { objective, promised, reached, isFree, share } = promise();
  const moves = curve.moves[index];
  const now = moves ? `${counted(moves, "migration")} from now (◆) reach ${gainText(objective, reached)}` : "";
  if (!isFree) return `${now ? `${now}. ` : ""}${curve.meaning}`;
  if (share === null)
    return `The free optimum ★ is no better than the placement now in ${NAMES[objective]}. ${curve.meaning}`;
  const promisedText = `The free optimum ★ promises ${gainText(objective, promised)}`;
  return `${promisedText}; ${now || "no migration from now pays"}. ${STAR_IGNORES} ${curve.meaning}`;
}

/* ---- the curve ---- */

function drawCurve() {
  const host = byId("cal-gain");
  const width = host.clientWidth;
  if (!width) return;
  const { curve, index } = model.reach;
  const { objective: o, promised, isFree } = promise();
  const scale = scaleOf(o);
  const gains = curve.normalised[o].map((value) => improvement(o, curve.normalised[o][0], value) * scale);
  const goal = isFree ? promised * scale : 0;
  const frame = curveFrame(width, curve.moves.at(-1), [Math.min(0, ...gains), Math.max(goal, ...gains)]);
  const svg = svgElement("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, height: HEIGHT, "aria-hidden": "true" });
  drawCurveAxes(svg, frame, o);
  const spots = gains.map((gain, k) => [frame.X(curve.moves[k]), frame.Y(gain)]);
  const path = (from, to) => `M${spots.slice(from, to + 1).join("L")}`;
  if (isFree) drawGoal(svg, frame, goal, spots.at(-1));
  if (index < spots.length - 1) svgElement("path", { d: path(index, spots.length - 1), class: "way more" }, svg);
  svgElement("path", { d: path(0, index), class: "way" }, svg);
  const [ex, ey] = spots[curve.elbow];
  if (curve.elbow) svgElement("circle", { cx: ex, cy: ey, r: 3, class: "elbow" }, svg);
  const [x, y] = spots[index];
  svgElement("path", { d: `M${x},${y - 6}l6,6l-6,6l-6,-6z`, class: "reach-mark" }, svg);
  host.replaceChildren(svg);
  host.setAttribute("aria-label", whyText());
}

function curveFrame(width, moves, [low, high]) {
  const [right, bottom] = [width - MARGIN.right, HEIGHT - MARGIN.bottom];
  const span = Math.max(high - low, 1e-9);
  const X = (count) => MARGIN.left + (count / Math.max(moves, 1)) * (right - MARGIN.left);
  const Y = (gain) => bottom - ((gain - low) / span) * (bottom - MARGIN.top);
  return { X, Y, width, right, bottom, moves, low, high: low + span };
}

function drawCurveAxes(svg, { X, Y, right, bottom, width, moves, low, high }, o) {
  const { unit, factor } = inUnit(o, Math.max(Math.abs(low), Math.abs(high)));
  for (const value of ticks(low / factor, high / factor, 3)) {
    const y = Y(value * factor);
    svgElement("path", { d: `M${MARGIN.left},${y}H${right}`, class: "grid" }, svg);
    svgElement("text", { x: MARGIN.left - 6, y: y + 4, class: "end" }, svg, grouped(value, value % 1 ? 1 : 0));
  }
  for (const count of ticks(0, Math.max(moves, 1), 4))
    if (Number.isInteger(count)) svgElement("text", { x: X(count), y: bottom + 15, class: "mid" }, svg, grouped(count));
  svgElement("path", { d: `M${MARGIN.left},${bottom}H${right}`, class: "axis" }, svg);
  svgElement("text", { x: 0, y: 11, class: "dim" }, svg, `${unit} ${HIGHER[o] ? "gained" : "saved"}`);
  svgElement("text", { x: width - MARGIN.right, y: bottom + 30, class: "end dim" }, svg, "migrations");
}

/* The promise of the solver result, and the part that no migration reaches. */
function drawGoal(svg, { Y, right }, goal, [x, y]) {
  svgElement("path", { d: `M${MARGIN.left},${Y(goal)}H${right}`, class: "ref" }, svg);
  svgElement("text", { x: right, y: Y(goal) - 5, class: "end" }, svg, "free optimum ★");
  svgElement("path", { d: `M${x},${y}V${Y(goal)}`, class: "way gap" }, svg);
}
