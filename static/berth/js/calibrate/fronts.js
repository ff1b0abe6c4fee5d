/* Which front and which of its versions is shown; new searches, and what they have found so far.

   Picks belong to a version. A newer one is offered, and then each pick goes to the same placement there, or to the
   nearest, and the page says which. */
import { ApiError, call } from "../api.js";
import { problemText, toast } from "../notices.js";
import { keepAddress, model, tell } from "./model.js";
import { Points } from "./points.js";
import { byId, clusterTime, drawn, duration, grouped, many, percent } from "./words.js";

const MOST = 2000;
const RUNNING_MS = 2000;
const RESTING_MS = 30_000;
const SAME = 1e-9;
const versions = new Map();
let timer = 0;
let isLoading = false;

const isRunning = () => ["pending", "running"].includes(model.front?.state);
const isPaused = () => document.querySelector("[data-act=pause]")?.getAttribute("aria-pressed") === "true";
const address = (rest = "") => `/api/v1/fronts/${model.page.dataset.front}/${rest}`;

export async function startFronts() {
  byId("cal-front").addEventListener("change", (event) => { location.href = `/calibrate/?front=${event.target.value}`; });
  byId("cal-version").addEventListener("change", (event) => switchTo(Number(event.target.value)));
  byId("cal-switch").addEventListener("click", () => switchTo(newest()));
  byId("cal-stop")?.addEventListener("click", stop);
  byId("cal-retry").addEventListener("click", look);
  const asked = new URLSearchParams(location.search).get("thin");
  if (["50", "200", "2000"].includes(asked)) byId("cal-thin").value = asked; else byId("cal-thin").value = "200";
  byId("cal-thin").addEventListener("change", async (event) => {
    keepAddress({ thin: event.target.value === "200" ? null : event.target.value });
    await guarded(async () => { await thin(model.points); tell("points"); });
  });
  document.addEventListener("berth:event", (event) => { if (event.detail.name.startsWith("front.") || (isRunning() && event.detail.name.startsWith("operation."))) soon(300); });
  await look();
}

function soon(ms) { clearTimeout(timer); timer = setTimeout(look, ms); }

/* Ask how the front stands, and show what is new. */
async function look() {
  if ((document.hidden || isPaused()) && model.front) { soon(RUNNING_MS); return; }
  await guarded(async () => {
    const before = model.front;
    model.front = (await call("GET", address())).value;
    if (!model.points && model.front.versions.length) await open(first());
    else if (before && model.front.versions.length > before.versions.length && isIdle()) await open(newest());
    show();
  });
  soon(isRunning() ? RUNNING_MS : RESTING_MS);
}

/* Nothing picked yet: the newest version may take the place of the one shown. */
const isIdle = () => !model.draft.state.picks.length && !model.draft.state.rejected.length && model.draft.state.rule === "spread" && !asked();

const asked = () => Number(new URLSearchParams(location.search).get("version")) || 0;
const newest = () => model.front.versions.at(-1)?.number ?? 0;

function first() {
  const known = new Set(model.front.versions.map((version) => version.number));
  const { version, picks } = model.draft.state;
  if (known.has(asked())) return asked();
  return picks.length && known.has(version) ? version : newest();
}

async function points(number) {
  if (!versions.has(number)) {
    versions.set(number, new Points((await call("GET", address(`points/?version=${number}&most=${MOST}`))).value));
  }
  return versions.get(number);
}

async function thin(found) {
  const most = Number(byId("cal-thin").value);
  if (found.size <= most) { found.thin(null); return; }
  found.thin((await call("GET", address(`points/?version=${found.version}&most=${most}`))).value.index);
}

/* Show a version; picks made on another are carried over. */
async function open(number) {
  const found = await points(number);
  await thin(found);
  const { state } = model.draft;
  if (state.version && state.version !== number && (state.picks.length || state.rejected.length)) {
    carry(await points(state.version), found);
  } else if (state.version !== number) { model.draft.state = { ...state, version: number }; model.draft.keep(); }
  model.draft.state = onlyKnown(model.draft.state, found);
  present(found);
}

function present(found) {
  model.version = found.version;
  model.points = found;
  model.hover = null;
  model.lasso = null;
  model.between = null;
  model.derived = null;
  model.checked = null;
  tell("points");
  tell("draft");
}

/* A draft kept in the tab may name placements that a front of the same name no longer has. */
function onlyKnown(state, found) {
  const has = (point) => found.has(point);
  if (state.picks.every((pick) => has(pick.point)) && state.rejected.every(has)) return state;
  return { ...state, picks: state.picks.filter((pick) => has(pick.point)), rejected: state.rejected.filter(has) };
}

async function switchTo(number) {
  if (number === model.version || isLoading) return;
  isLoading = true;
  await guarded(async () => { await open(number); keepAddress({ version: number === newest() ? null : number }); show(); });
  isLoading = false;
}

function carry(from, to) {
  let [same, moved, farthest] = [0, 0, 0];
  const mapped = (point) => {
    const { point: there, distance } = to.nearest(from.values(point));
    if (distance < SAME) same += 1; else { moved += 1; farthest = Math.max(farthest, distance); }
    return there;
  };
  const { state } = model.draft;
  const picks = [];
  for (const pick of state.picks) {
    const point = mapped(pick.point);
    const held = picks.find((other) => other.point === point);
    if (held) held.screens = [...new Set([...held.screens, ...pick.screens])]; else picks.push({ point, screens: pick.screens });
  }
  const rejected = [...new Set(state.rejected.map(mapped))].filter((point) => !picks.some((pick) => pick.point === point));
  const before = model.draft.changed;
  model.draft.changed = () => {};
  model.draft.follow(`switch to version ${to.version}`, { version: to.version, picks, rejected });
  model.draft.changed = before;
  const box = byId("cal-carried");
  box.querySelector("b").textContent = `Your picks are on version ${to.version} now`;
  const merged = state.picks.length - picks.length;
  box.querySelector("p").textContent = `${many(same, "is the same placement", "are the same placements")}, ${many(moved, "went", "went")} to the nearest${moved ? `, at most ${farthest.toFixed(3)} away` : ""}${merged ? `; ${many(merged, "pick")} fell together with another` : ""}. Undo takes you back to version ${from.version}.`;
  box.hidden = false;
}

/* A draft has changed: show it, on the version it is of. Undo and saved sets may lead to another. */
export async function followDraft() {
  const { version } = model.draft.state;
  if (!model.points) return;
  if (version === model.version) { tell("draft"); return; }
  isLoading = true;
  byId("cal-carried").hidden = true;
  await guarded(async () => { const found = await points(version); await thin(found); present(found); show(); });
  isLoading = false;
}

/* ---- what is said of it ---- */

function show() {
  const { front } = model;
  byId("cal-workload").textContent = `${front.source === "cluster" ? clusterTime(front.cluster_seconds ?? 0) : "an instance"}${front.containers ? `, ${many(front.containers, "container")} on ${many(front.nodes, "server")}` : ""}`;
  const version = front.versions.find((one) => one.number === model.version);
  byId("cal-search").textContent = version ? `${many(version.generations, "generation")}, ${many(version.points, "placement")}, hypervolume ${version.hypervolume.toFixed(3)}${version.is_exact ? ", proven whole" : ""}` : "nothing found yet";
  const select = byId("cal-version");
  const wanted = front.versions.map((one) => `v${one.number}`);
  if ([...select.options].map((option) => option.text).join() !== wanted.join()) {
    select.replaceChildren(...front.versions.map((one, k) => new Option(wanted[k], one.number)));
  }
  select.disabled = !front.versions.length;
  select.value = String(model.version);
  byId("cal-rest").href = address(`points/?version=${model.version}&most=${MOST}`);
  drift();
  progress();
  const isBehind = Boolean(model.version) && newest() > model.version;
  const box = byId("cal-newer");
  box.hidden = !isBehind;
  if (isBehind) {
    const last = front.versions.at(-1);
    box.querySelector("b").textContent = `Version ${last.number} has ${many(last.points, "placement")}, hypervolume ${last.hypervolume.toFixed(3)}`;
    box.querySelector("p").textContent = `You pick from version ${model.version}; picks keep their version. Switching carries each to the same placement, or the nearest.`;
  }
  tell("front");
}

function drift() {
  const { drift: found } = model.front;
  byId("cal-drift-fact").hidden = !found;
  const isFar = Boolean(found) && found.share > found.limit;
  byId("cal-drifted").hidden = !isFar;
  if (!found) return;
  byId("cal-drift").replaceChildren(`${percent(found.share)} `, Object.assign(document.createElement("span"), { className: "iv", textContent: `of the mix, limit ${percent(found.limit, 0)}` }));
  if (!isFar) return;
  byId("cal-drifted").querySelector("b").textContent = "The cluster is no longer what this front was made of";
  byId("cal-drifted").querySelector("p").textContent = `${found.sentence} Search a new front before you rely on its weights.`;
}

function progress() {
  const { front } = model;
  const box = byId("cal-progress");
  const isOver = ["failed", "cancelled"].includes(front.state);
  box.hidden = !isRunning() && !isOver;
  box.classList.toggle("bad", front.state === "failed");
  if (box.hidden) return;
  const last = front.history.at(-1);
  const reached = last ? `generation ${grouped(last.generation)}, ${many(last.points, "placement")}, hypervolume ${last.hypervolume.toFixed(3)}` : "reading the cluster";
  const share = front.total ? front.progress / front.total : 0;
  const titles = { pending: `${front.name} waits for a worker`, running: `${front.name} is being searched, ${percent(share, 0)} of ${duration(front.budget_seconds)}`, failed: `The search of ${front.name} failed`, cancelled: `The search of ${front.name} was stopped` };
  box.querySelector("b").textContent = titles[front.state];
  box.querySelector("p").textContent = `${front.state === "pending" ? "It begins by itself; nothing is lost by leaving the page" : `At ${reached}`}${front.versions.length ? `; what it found can be picked from${isRunning() ? " while it improves" : ""}` : ""}.`;
  if (front.state === "failed" && front.problem) box.querySelector("p").textContent += ` ${front.problem.detail ?? front.problem.title ?? ""}`;
  byId("cal-share").value = share;
  const button = byId("cal-stop");
  if (button) button.hidden = !isRunning();
  spark(front.history);
}

/* Hypervolume against generation. */
function spark(history) {
  const svg = byId("cal-spark");
  svg.replaceChildren();
  if (history.length < 2) return;
  const [volumes, last] = [history.map((one) => one.hypervolume), history.at(-1).generation || 1];
  const [low, high] = [Math.min(...volumes), Math.max(...volumes)];
  const spot = (one) => `${(1 + (94 * one.generation) / last).toFixed(1)},${(25 - (22 * (one.hypervolume - low)) / (high - low || 1)).toFixed(1)}`;
  drawn("path", { d: `M${history.map(spot).join("L")}`, class: "ln sa" }, svg);
  svg.setAttribute("aria-label", `Hypervolume by generation, from ${low.toFixed(3)} to ${high.toFixed(3)} in ${grouped(last)} generations`);
}

async function stop() {
  byId("cal-stop").disabled = true;
  try {
    await call("POST", address("stop/"), {});
    toast("The search ends with what it has found.");
    await look();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    toast(problemText(error.problem), { tone: "bad", stays: true });
  }
  byId("cal-stop").disabled = false;
}

/* Run what talks to the server; what it refuses is said above the screens, which stay usable. */
export async function guarded(work) {
  const box = byId("cal-problem");
  try {
    await work();
    box.hidden = true;
  } catch (error) {
    const isApi = error instanceof ApiError;
    if (!isApi && !(error instanceof TypeError && /fetch/i.test(error.message))) throw error;
    box.querySelector("b").textContent = isApi ? error.problem.title : "The server cannot be reached";
    box.querySelector("p").textContent = isApi ? problemText({ ...error.problem, title: "" }) : "The page asks again by itself; your picks are kept in this tab.";
    box.hidden = false;
  }
}

/* ---- a new front ---- */

export function startNew() {
  const dialog = byId("cal-new-dialog");
  if (!dialog) return;
  for (const id of ["cal-new", "cal-first"]) byId(id)?.addEventListener("click", () => { byId("nf-error").hidden = true; dialog.showModal(); });
  const past = dialog.querySelector(".nf-past");
  const at = byId("nf-at");
  const said = () => { if (at) byId("nf-at-said").textContent = clusterTime(Number(at.value)); };
  at?.addEventListener("input", said);
  said();
  for (const radio of dialog.querySelectorAll("[name=nf-when]")) radio.addEventListener("change", () => { if (past) past.hidden = dialog.querySelector("[name=nf-when]:checked").value !== "past"; });
  byId("nf-form").addEventListener("submit", (event) => { event.preventDefault(); search(); });
}

async function search() {
  const isPast = document.querySelector("[name=nf-when]:checked").value === "past";
  const body = { source: "cluster", budget_seconds: Number(byId("nf-budget").value), ...(isPast ? { cluster_seconds: Number(byId("nf-at").value) } : {}) };
  byId("nf-go").disabled = true;
  byId("nf-error").hidden = true;
  try {
    const { value } = await call("POST", "/api/v1/fronts/", body);
    location.href = `/calibrate/?front=${value.arguments.front}`;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    byId("nf-error").textContent = problemText(error.problem);
    byId("nf-error").hidden = false;
  }
  byId("nf-go").disabled = false;
}
