/* Three scatter plots of the same placements, linked: what is pointed at, accepted or rejected on one shows on all. */
import { frames, lay, markAll, mean, paintAll } from "./frame.js";
import { jobName } from "./jobnames.js";
import { beginLasso, endLasso, extendLasso, isDrawing } from "./lasso.js";
import { model, on, tell } from "./model.js";
import { NAMES, OBJECTIVES, SCREENS, announce, byId, drawn, element, grouped, many, spelled } from "./words.js";

const REACH = { mouse: 14, touch: 26, pen: 18 };

export function startScreens() {
  for (const screen of SCREENS) {
    const host = document.querySelector(`[data-screen="${screen.name}"]`);
    const frame = { ...screen, host, base: element("canvas", "", "cloud"), cloud: element("canvas", "", "cloud dots"), svg: drawn("svg", { "aria-hidden": "true" }), tip: element("div", "", "tip") };
    frame.tip.hidden = true;
    host.removeAttribute("aria-busy");
    host.replaceChildren(frame.base, frame.cloud, frame.svg, frame.tip);
    frame.svg.addEventListener("pointermove", (event) => moved(frame, event));
    frame.svg.addEventListener("pointerleave", () => { if (!isDrawing()) point(null); });
    frame.svg.addEventListener("pointerdown", (event) => pressed(frame, event));
    frame.svg.addEventListener("pointerup", (event) => released(frame, event));
    frame.svg.addEventListener("pointercancel", () => endLasso());
    host.addEventListener("keydown", (event) => keys(frame, event));
    host.addEventListener("focus", () => { if (model.hover === null && model.points) point(starting(), frame); });
    host.addEventListener("blur", () => point(null));
    new ResizeObserver(() => { if (host.clientWidth !== frame.width) { lay(frame); ring(); } }).observe(host);
    frames.push(frame);
  }
  on("points", layAll);
  on("checked", layAll);
  on("draft", () => { markAll(); titles(); });
  on("chosen", paintAll);
  on("hover", (frame) => ring(frame));
  on("names", () => ring(frames.find((frame) => !frame.tip.hidden)));
  on("mode", () => { for (const frame of frames) frame.host.dataset.mode = model.mode; });
  document.addEventListener("berth:theme", paintAll);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", paintAll);
}

function layAll() { for (const frame of frames) lay(frame); ring(); titles(); }

/* ---- pointing ---- */

/* The placement under the pointer, or null. */
function under(frame, event) {
  const box = frame.svg.getBoundingClientRect();
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  let [best, least] = [null, (REACH[event.pointerType] ?? REACH.mouse) ** 2];
  const picked = model.draft.state.picks.map((pick) => model.points.at.get(pick.point));
  const look = (i) => {
    const far = (frame.px[i] - x) ** 2 + (frame.py[i] - y) ** 2;
    if (far < least) { least = far; best = i; }
  };
  for (const i of model.points.shown) look(i);
  picked.forEach(look);
  return best === null ? null : model.points.index[best];
}

/* Point at a placement on all screens; the card opens on the screen it is pointed at. */
export function point(name, frame = null) {
  if (model.hover === name && !frame) return;
  model.hover = name;
  tell("hover", frame);
}

function ring(at = null) {
  for (const frame of frames) {
    if (!frame.ring || !frame.X) continue;
    const i = model.hover === null ? undefined : model.points.at.get(model.hover);
    frame.ring.setAttribute("visibility", i === undefined ? "hidden" : "visible");
    frame.tip.hidden = frame !== at || i === undefined;
    if (i === undefined) continue;
    frame.ring.setAttribute("cx", frame.px[i]);
    frame.ring.setAttribute("cy", frame.py[i]);
    if (frame === at) card(frame, i);
  }
}

/* What a placement is like, as lines. */
function facts(i) {
  const { points } = model;
  const worst = jobName(points.worst_job[i]);
  return [
    `${points.line(points.index[i])}`,
    `${many(points.jobs_protected[i], "job")} protected, ${grouped(points.jobs_exposed[i])} exposed, ${grouped(points.jobs_split[i])} split`,
    worst ? `worst: ${worst}` : "",
  ].filter(Boolean);
}

function card(frame, i) {
  const { tip } = frame;
  const head = element("span");
  head.append(element("b", `Placement ${model.points.index[i]}`), `, ${many(model.points.nodes_on[i], "server")} on`);
  tip.replaceChildren(head, ...facts(i).map((line, k) => element("span", line, k ? "t3" : "t2")));
  tip.hidden = false;
  const [x, y] = [frame.px[i], frame.py[i]];
  const [wide, high] = [tip.offsetWidth, tip.offsetHeight];
  const [from, to] = reach(frame);
  const beside = [x + ASIDE, x - ASIDE - wide].find((left) => left >= from && left + wide <= to);
  const top = beside !== undefined ? Math.max(0, y - high / 2) : y - high - ASIDE >= 0 ? y - high - ASIDE : y + ASIDE;
  tip.style.setProperty("left", `${beside ?? Math.max(from, Math.min(to - wide, x - wide / 2))}px`);
  tip.style.setProperty("top", `${top}px`);
}

const ASIDE = 14; // px from a placement to its card, which never covers it

/* From where to where a card may stand, in px of its screen: the screens together. */
function reach(frame) {
  const [all, own] = [byId("cal-three"), frame.host].map((host) => host.getBoundingClientRect());
  return [all.left - own.left, all.right - own.left];
}

function moved(frame, event) {
  if (!model.points || !frame.X) return;
  if (isDrawing()) { extendLasso(event); return; }
  if (event.pointerType === "touch") return;
  const name = under(frame, event);
  frame.svg.classList.toggle("over", name !== null);
  if (name !== model.hover || name !== null) point(name, frame);
}

function pressed(frame, event) {
  model.screen = frame.name;
  if (model.mode !== "lasso" || !model.points || event.button) return;
  beginLasso(frame, event);
}

function released(frame, event) {
  if (!model.points || event.button) return;
  if (endLasso()) return;
  const name = under(frame, event);
  if (name === null) return;
  const began = event.timeStamp;
  if (event.altKey !== (model.mode === "reject")) model.draft.reject([name], model.points.name(name)); else model.draft.accept(name, frame.name, model.points.name(name));
  point(name, event.pointerType === "touch" ? null : frame);
  measured("calibrate.pick", began);
}

/* How long something took until it could be seen; the last one is kept, for whoever measures. */
export function measured(name, start) {
  requestAnimationFrame(() => setTimeout(() => { performance.clearMeasures(name); performance.measure(name, { start }); }));
}

/* ---- keyboard ---- */

const MOVES = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };

/* Where the keyboard begins: the last pick, or what is nearest to the middle of the front. */
function starting() {
  const last = model.draft.state.picks.at(-1);
  if (last) return last.point;
  const middle = Object.fromEntries(OBJECTIVES.map((o) => [o, mean(model.points.extent[o])]));
  return model.points.nearest(middle).point;
}

function keys(frame, event) {
  if (!model.points || event.ctrlKey || event.metaKey) return;
  const name = model.hover ?? starting();
  if (MOVES[event.key]) {
    event.preventDefault();
    const next = towards(frame, name, MOVES[event.key]);
    point(next, frame);
    say(frame, next);
  } else if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    if (event.altKey) model.draft.reject([name], model.points.name(name)); else model.draft.accept(name, frame.name, model.points.name(name));
    point(name, frame);
    measured("calibrate.pick", event.timeStamp);
  } else if (event.key === "r" || event.key === "R") {
    event.stopPropagation();
    model.draft.reject([name], model.points.name(name));
    point(name, frame);
  }
}

/* The nearest placement in a direction: what lies off to the side counts twice. */
function towards(frame, name, [dx, dy]) {
  const { points } = model;
  const from = points.at.get(name);
  let [best, least] = [from, Infinity];
  for (const i of points.shown) {
    const [x, y] = [frame.px[i] - frame.px[from], frame.py[i] - frame.py[from]];
    const ahead = x * dx + y * dy;
    const aside = Math.abs(x * dy) + Math.abs(y * dx);
    if (ahead < 0.5) continue;
    const cost = ahead + 2 * aside;
    if (cost < least) { least = cost; best = i; }
  }
  return points.index[best];
}

function say(frame, name) {
  const values = model.points.values(name);
  const k = model.draft.state.picks.findIndex((pick) => pick.point === name);
  const standing = k >= 0 ? `, accepted as pick ${k + 1}` : model.draft.state.rejected.includes(name) ? ", rejected" : "";
  announce(`Placement ${name}${standing}: ${NAMES[frame.x]} ${values[frame.x].toFixed(2)}, ${NAMES[frame.y]} ${values[frame.y].toFixed(2)}; ${model.points.line(name)}`);
}

/* ---- words ---- */

const spread = (picks, o) => {
  const values = picks.map((pick) => model.points.values(pick.point)[o]);
  const centre = mean(values);
  return Math.sqrt(values.reduce((sum, value) => sum + (value - centre) ** 2, 0) / Math.max(1, values.length - 1));
};

function titles() {
  if (!model.points) return;
  const { picks } = model.draft.state;
  const count = model.points.shown.length;
  let text = `${grouped(count)} placements; pick those you would accept`;
  if (picks.length === 1) text = "One placement accepted; pick more like it";
  if (picks.length > 1) {
    const order = [...OBJECTIVES].sort((a, b) => spread(picks, a) - spread(picks, b));
    const [least, most] = [spread(picks, order[0]), spread(picks, order[2])];
    text = most - least < 0.005
      ? `${spelled(picks.length)} picks, alike in power, diversity and crossing traffic`
      : `${spelled(picks.length)} picks agree on ${NAMES[order[0]]} and differ on ${NAMES[order[2]]}`;
  }
  byId("cal-title").textContent = text;
  for (const frame of frames) {
    const here = picks.filter((pick) => pick.screens.includes(frame.name)).length;
    frame.host.setAttribute("aria-label", `${NAMES[frame.x]} against ${NAMES[frame.y]}: ${many(count, "placement")}, ${here} accepted on this screen`);
  }
}
