/* Pointer and keyboard on the three scatter plots, which are linked: a placement has the same state on all of them. */

import { byId, element, svgElement } from "../dom.js";
import { counted, grouped, mean, spelled } from "../format.js";
import { announce } from "./announce.js";
import { beginDrag, cancelDrag, endDrag, isDragging, isOutside, moveDrag } from "./bounds.js";
import { frames, isInView, layOut, paintAll, redrawOverlays } from "./frame.js";
import { jobName } from "./job_names.js";
import { beginLasso, cancelLasso, endLasso, extendLasso, isDrawing } from "./lasso.js";
import { model, publish, subscribe } from "./model.js";
import { formatRaw, NAMES, OBJECTIVES, plotsOf } from "./objectives.js";
import { beginZoom, endZoom, isZooming, moveZoom, zoomByKey, zoomByWheel } from "./zoom.js";

const REACH_PX = { mouse: 14, touch: 26, pen: 18 };

export function startScreens() {
  for (const host of document.querySelectorAll(".plot.screen")) frames.push(createFrame(host));
  nameFrames();
  for (const topic of ["points", "zoom", "axes"]) subscribe(topic, forgetAim);
  subscribe("points", layOutAll);
  subscribe("zoom", layOutAll);
  subscribe("axes", () => {
    nameFrames();
    layOutAll();
  });
  subscribe("checked", layOutAll);
  subscribe("reached", layOutAll);
  subscribe("trail", layOutAll);
  subscribe("reach", redrawOverlays);
  subscribe("draft", () => {
    redrawOverlays();
    showTitles();
  });
  subscribe("chosen", paintAll);
  subscribe("hover", (frame) => showRing(frame));
  subscribe("names", () => showRing(frames.find((frame) => !frame.tip.hidden)));
  subscribe("mode", () => {
    for (const frame of frames) frame.host.dataset.mode = model.mode;
  });
  document.addEventListener("berth:theme", paintAll);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paintAll);
}

/* Give each frame the objectives of its axes. */
function nameFrames() {
  for (const [k, plot] of plotsOf(model.axes).entries()) {
    Object.assign(frames[k], plot);
    frames[k].host.dataset.screen = plot.name;
  }
  if (!frames.some(({ name }) => name === model.screen)) model.screen = frames[0].name;
}

function createFrame(host) {
  const frame = {
    host,
    base: element("canvas", "", "cloud"),
    cloud: element("canvas", "", "cloud dots"),
    svg: svgElement("svg", { "aria-hidden": "true" }),
    tip: element("div", "", "tip"),
  };
  frame.tip.hidden = true;
  host.removeAttribute("aria-busy");
  host.replaceChildren(frame.base, frame.cloud, frame.svg, frame.tip);
  addListeners(frame);
  return frame;
}

function addListeners(frame) {
  const { host, svg } = frame;
  svg.addEventListener("pointermove", (event) => onMove(frame, event));
  svg.addEventListener("pointerleave", () => {
    if (!isDrawing() && !isZooming()) point(null);
  });
  svg.addEventListener("pointerdown", (event) => onPress(frame, event));
  svg.addEventListener("pointerup", (event) => onRelease(frame, event));
  svg.addEventListener("pointercancel", (event) => {
    cancelLasso();
    cancelDrag();
    endZoom(event);
  });
  svg.addEventListener("wheel", (event) => zoomByWheel(frame, event), { passive: false });
  host.addEventListener("keydown", (event) => onKey(frame, event));
  host.addEventListener("focus", () => {
    if (model.hover === null && model.points) point(startPoint(), frame);
  });
  host.addEventListener("blur", () => point(null));
  new ResizeObserver(() => {
    if (host.clientWidth === frame.width) return;
    forgetAim();
    layOut(frame);
    showRing();
  }).observe(host);
}

function layOutAll() {
  for (const frame of frames) layOut(frame);
  showRing();
  showTitles();
}

/* ---- pointing ---- */

/* What the last move of the pointer chose: { frame, at, name }. */
let aim = null;

function forgetAim() {
  aim = null;
}

/* The placement that a click picks, or null. While the pointer rests, a solver result may move the axes; the click
   still picks what the pointer chose before, unless the arrow keys have chosen another since. */
function target(frame, event) {
  const [x, y] = positionIn(frame, event);
  const isResting = aim?.frame === frame && aim.name === model.hover && Math.hypot(x - aim.at[0], y - aim.at[1]) < 1;
  return isResting && event.pointerType !== "touch" ? aim.name : under(frame, event);
}

function positionIn(frame, event) {
  const box = frame.svg.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

/* The placement under the pointer, or null. */
function under(frame, event) {
  const [x, y] = positionIn(frame, event);
  let [nearest, minDistance] = [null, (REACH_PX[event.pointerType] ?? REACH_PX.mouse) ** 2];
  const picked = model.draft.state.picks.map((pick) => model.points.at.get(pick.point));
  const compare = (i) => {
    const distance = (frame.px[i] - x) ** 2 + (frame.py[i] - y) ** 2;
    if (distance < minDistance && isInView(frame, i)) {
      minDistance = distance;
      nearest = i;
    }
  };
  for (const i of model.points.shown) compare(i);
  picked.forEach(compare);
  return nearest === null ? null : model.points.index[nearest];
}

/* Highlight a placement on all screens; its card opens on `frame`. */
export function point(name, frame = null) {
  if (model.hover === name && !frame) return;
  model.hover = name;
  publish("hover", frame);
}

function showRing(at = null) {
  for (const frame of frames) {
    if (!frame.ring || !frame.X) continue;
    const hovered = model.hover === null ? undefined : model.points.at.get(model.hover);
    const i = hovered !== undefined && isInView(frame, hovered) ? hovered : undefined;
    frame.ring.setAttribute("visibility", i === undefined ? "hidden" : "visible");
    frame.tip.hidden = frame !== at || i === undefined;
    if (i === undefined) continue;
    frame.ring.setAttribute("cx", frame.px[i]);
    frame.ring.setAttribute("cy", frame.py[i]);
    if (frame === at) showCard(frame, i);
  }
}

/* Facts of a placement, as lines. */
function facts(i) {
  const { points } = model;
  const worst = jobName(points.worst_job[i]);
  const others = model.axes.filter((o) => !OBJECTIVES.includes(o));
  return [
    [points.line(points.index[i]), ...others.map((o) => formatRaw(o, points.raw[o][i]))].join(" · "),
    `${counted(points.jobs_protected[i], "job")} protected, ${grouped(points.jobs_exposed[i])} exposed, ${grouped(points.jobs_split[i])} split`,
    worst ? `worst: ${worst}` : "",
    isOutside(i) ? "outside your bounds" : "",
  ].filter(Boolean);
}

function showCard(frame, i) {
  const { tip } = frame;
  const head = element("span");
  head.append(
    element("b", `Placement ${model.points.index[i]}`),
    `, ${counted(model.points.nodes_on[i], "server")} on`,
  );
  tip.replaceChildren(head, ...facts(i).map((line, k) => element("span", line, k ? "t3" : "t2")));
  tip.hidden = false;
  const [x, y] = [frame.px[i], frame.py[i]];
  const [wide, high] = [tip.offsetWidth, tip.offsetHeight];
  const [from, to] = cardRange(frame);
  const beside = [x + CARD_DISTANCE, x - CARD_DISTANCE - wide].find((left) => left >= from && left + wide <= to);
  const top =
    beside !== undefined
      ? Math.max(0, y - high / 2)
      : y - high - CARD_DISTANCE >= 0
        ? y - high - CARD_DISTANCE
        : y + CARD_DISTANCE;
  tip.style.setProperty("left", `${beside ?? Math.max(from, Math.min(to - wide, x - wide / 2))}px`);
  tip.style.setProperty("top", `${top}px`);
}

const CARD_DISTANCE = 14; // px from a placement to its card

/* Horizontal range of a card, in px of its screen: the width of all screens. */
function cardRange(frame) {
  const [all, own] = [byId("cal-three"), frame.host].map((host) => host.getBoundingClientRect());
  return [all.left - own.left, all.right - own.left];
}

function onMove(frame, event) {
  if (!model.points || !frame.X) return;
  const move = isZooming() ? moveZoom : isDragging() ? moveDrag : isDrawing() ? extendLasso : null;
  if (move) {
    move(event);
    return;
  }
  if (event.pointerType === "touch") return;
  const name = under(frame, event);
  aim = { frame, at: positionIn(frame, event), name };
  frame.svg.classList.toggle("over", name !== null);
  if (name !== model.hover || name !== null) point(name, frame);
}

function onPress(frame, event) {
  model.screen = frame.name;
  if (!model.points || !frame.X || beginZoom(frame, event) || beginDrag(frame, event)) return;
  if (model.mode === "lasso" && !event.button) beginLasso(frame, event);
}

function onRelease(frame, event) {
  if (!model.points || event.button) return;
  if (endZoom(event) || endDrag() || endLasso()) return;
  const name = target(frame, event);
  if (name === null) return;
  if (event.altKey !== (model.mode === "reject")) model.draft.reject([name], model.points.name(name));
  else model.draft.accept(name, frame.name, model.points.name(name));
  point(name, event.pointerType === "touch" ? null : frame);
  measureUntilPainted("calibrate.pick", event.timeStamp);
}

/* Measure the time until the next paint; the last measure of a name is kept. */
export function measureUntilPainted(name, start) {
  requestAnimationFrame(() =>
    setTimeout(() => {
      performance.clearMeasures(name);
      performance.measure(name, { start });
    }),
  );
}

/* ---- keyboard ---- */

const DIRECTIONS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/* Where the keyboard cursor starts: at the last pick, or in the middle of the front. */
function startPoint() {
  const last = model.draft.state.picks.at(-1);
  if (last) return last.point;
  const middle = Object.fromEntries(OBJECTIVES.map((o) => [o, mean(model.points.extent[o])]));
  return model.points.nearest(middle).point;
}

function onKey(frame, event) {
  if (!model.points || event.ctrlKey || event.metaKey || zoomByKey(frame, event)) return;
  const name = model.hover ?? startPoint();
  if (DIRECTIONS[event.key]) {
    event.preventDefault();
    const next = neighbour(frame, name, DIRECTIONS[event.key]);
    point(next, frame);
    announcePoint(frame, next);
  } else if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    if (event.altKey) model.draft.reject([name], model.points.name(name));
    else model.draft.accept(name, frame.name, model.points.name(name));
    point(name, frame);
    measureUntilPainted("calibrate.pick", event.timeStamp);
  } else if (event.key === "r" || event.key === "R") {
    event.stopPropagation();
    model.draft.reject([name], model.points.name(name));
    point(name, frame);
  }
}

/* The nearest placement in a direction; distance sideways counts twice. */
function neighbour(frame, name, [dx, dy]) {
  const { points } = model;
  const from = points.at.get(name);
  let [nearest, minCost] = [from, Infinity];
  for (const i of points.shown) {
    const [x, y] = [frame.px[i] - frame.px[from], frame.py[i] - frame.py[from]];
    const ahead = x * dx + y * dy;
    const aside = Math.abs(x * dy) + Math.abs(y * dx);
    if (ahead < 0.5 || !isInView(frame, i)) continue;
    const cost = ahead + 2 * aside;
    if (cost < minCost) {
      minCost = cost;
      nearest = i;
    }
  }
  return points.index[nearest];
}

function announcePoint(frame, name) {
  const values = model.points.values(name);
  const k = model.draft.state.picks.findIndex((pick) => pick.point === name);
  const status = k >= 0 ? `, accepted as pick ${k + 1}` : model.draft.state.rejected.includes(name) ? ", rejected" : "";
  announce(
    `Placement ${name}${status}: ${NAMES[frame.x]} ${values[frame.x].toFixed(2)}, ${NAMES[frame.y]} ${values[frame.y].toFixed(2)}; ${model.points.line(name)}`,
  );
}

/* ---- titles ---- */

const MIN_DIFFERENCE = 0.005; // between standard deviations

/* Standard deviation of an objective over the picks. */
const spread = (picks, o) => {
  const values = picks.map((pick) => model.points.values(pick.point)[o]);
  const centre = mean(values);
  return Math.sqrt(values.reduce((sum, value) => sum + (value - centre) ** 2, 0) / Math.max(1, values.length - 1));
};

function showTitles() {
  if (!model.points) return;
  const { picks } = model.draft.state;
  const count = model.points.shown.length;
  let text = `${counted(count, "placement")}; pick those you would accept`;
  if (picks.length === 1) text = "One placement accepted; pick more like it";
  if (picks.length > 1) {
    const order = [...OBJECTIVES].sort((a, b) => spread(picks, a) - spread(picks, b));
    const [min, max] = [spread(picks, order[0]), spread(picks, order[2])];
    text =
      max - min < MIN_DIFFERENCE
        ? `${spelled(picks.length)} picks with similar power, diversity and crossing traffic`
        : `${spelled(picks.length)} picks agree on ${NAMES[order[0]]} and differ on ${NAMES[order[2]]}`;
  }
  byId("cal-title").textContent = text;
  for (const frame of frames) {
    const here = picks.filter((pick) => pick.screens.includes(frame.name)).length;
    frame.host.setAttribute(
      "aria-label",
      `${NAMES[frame.x]} against ${NAMES[frame.y]}: ${counted(count, "placement")}, ${here} accepted on this plot`,
    );
  }
}
