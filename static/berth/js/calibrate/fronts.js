/* Which front and which of its versions is shown; new searches, and what they have found so far.

   Picks belong to a version. A newer one is offered, and then each pick goes to the same placement there, or to the
   nearest, and the page says which. Versions on the way to a front are forgotten a day after its search, and fronts
   some weeks later, unless a set was saved of them: picks of such a version are dropped, and the page says so. */
import { ApiError, call } from "../api.js";
import { problemText, toast } from "../notices.js";
import { banner, keepAddress, model, tell } from "./model.js";
import { Points } from "./points.js";
import { byId, clusterTime, drawn, duration, grouped, many, percent } from "./words.js";

const MOST = 2000;
const RUNNING_MS = 2000;
const RESTING_MS = 30_000;
const SAME = 1e-9;
const versions = new Map();
let timer = 0;
let due = Infinity; // when the next look is, as performance.now() counts
let isLoading = false;
let isForgotten = false; // the front itself

const isRunning = () => ["pending", "running"].includes(model.front?.state);
const isPaused = () => document.querySelector("[data-act=pause]")?.getAttribute("aria-pressed") === "true";
const address = (rest = "") => `/api/v1/fronts/${model.page.dataset.front}/${rest}`;

export async function startFronts() {
  if ("missing" in model.page.dataset) keepAddress({ front: null, version: null });
  byId("cal-front").addEventListener("change", (event) => { location.href = `/calibrate/?front=${event.target.value}`; });
  byId("cal-version").addEventListener("change", (event) => switchTo(Number(event.target.value)));
  byId("cal-switch").addEventListener("click", () => switchTo(newest()));
  byId("cal-stop")?.addEventListener("click", stop);
  byId("cal-retry").addEventListener("click", () => { if (isForgotten) location.href = "/calibrate/"; else refresh(); });
  const shown = new URLSearchParams(location.search).get("thin");
  byId("cal-thin").value = ["50", "200", "2000"].includes(shown) ? shown : "200";
  byId("cal-thin").addEventListener("change", async (event) => {
    keepAddress({ thin: event.target.value === "200" ? null : event.target.value });
    await guarded(async () => { await thin(model.points); tell("points"); });
  });
  document.addEventListener("berth:event", (event) => { if (event.detail.name.startsWith("front.") || (isRunning() && event.detail.name.startsWith("operation."))) soon(300); });
  await look();
}

/* Look again after so long, or earlier where that is planned: events that come thick and fast do not put it off. */
function soon(ms) {
  const at = performance.now() + ms;
  if (at >= due) return;
  clearTimeout(timer);
  due = at;
  timer = setTimeout(() => { due = Infinity; look(); }, ms);
}

async function look() {
  if ((document.hidden || isPaused()) && model.front) soon(RUNNING_MS); else await refresh();
}

/* Ask how the front stands, and show what is new. */
async function refresh() {
  await guarded(async () => {
    model.front = await standing();
    if (model.front.versions.length) await keepUp();
    if (model.draft.keepSteps(numbers())) tell("draft");
    show();
  });
  if (!isForgotten) soon(isRunning() ? RUNNING_MS : RESTING_MS);
}

async function standing() {
  try {
    return (await call("GET", address())).value;
  } catch (error) {
    isForgotten = error.status === 404;
    if (isForgotten) byId("cal-retry").textContent = "Open the newest front";
    throw isForgotten ? new ApiError(404, { title: "This front is no longer kept", detail: "No preference set was saved of it, so it was forgotten some weeks after its search. What is shown of it cannot be saved any more." }) : error;
  }
}

const numbers = () => model.front.versions.map((version) => version.number);
const isKept = (number) => numbers().includes(number);
const newest = () => numbers().at(-1) ?? 0;
const inAddress = () => Number(new URLSearchParams(location.search).get("version")) || 0;
const toAddress = (number) => keepAddress({ version: number === newest() ? null : number });
const forgotten = (then) => `What is found on the way to a front is kept for a day after its search, and longer if a preference set was saved of it. ${then}`;

/* Nothing picked yet: the newest version may take the place of the one shown. */
const isIdle = () => model.draft.isEmpty && model.draft.state.rule === "spread" && !inAddress();

/* Show the version that is to be shown, if another one is. */
async function keepUp() {
  const { version } = model.draft.state;
  if (!model.points) await open(first());
  else if (!isKept(version) || (isIdle() && newest() > version)) { await open(newest()); toAddress(newest()); }
  else if (version !== model.version) await follow(version);
}

/* The version to begin with: of the address, of the picks kept in the tab, or the newest. */
function first() {
  const [wanted, { version }] = [inAddress(), model.draft.state];
  if (isKept(wanted)) return wanted;
  const found = !model.draft.isEmpty && isKept(version) ? version : newest();
  if (wanted) {
    banner("cal-carried", `There is no version ${wanted}`, forgotten(`This is version ${found}.`));
    keepAddress({ version: null });
  }
  return found;
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

/* Show a version; picks made on another are carried over, as long as it is known what they were. */
async function open(number) {
  const found = await points(number);
  await thin(found);
  const { version } = model.draft.state;
  if (version !== number) {
    if (!version || model.draft.isEmpty) model.draft.amend({ version: number });
    else if (versions.has(version) || isKept(version)) carry(await points(version), found);
    else drop(found);
  }
  model.draft.amend(onlyKnown(model.draft.state, found));
  present(found);
}

/* Show the version that the draft is of. */
async function follow(number) {
  const found = await points(number);
  await thin(found);
  present(found);
  toAddress(number);
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
function onlyKnown({ picks, rejected, answers }, found) {
  const has = (point) => found.has(point);
  return { picks: picks.filter((pick) => has(pick.point)), rejected: rejected.filter(has), answers: answers.filter((one) => has(one.better) && has(one.worse)) };
}

async function switchTo(number) {
  if (number === model.version || isLoading) return;
  isLoading = true;
  await guarded(async () => { await open(number); toAddress(number); show(); });
  isLoading = false;
}

function carry(from, to) {
  let [same, moved, farthest] = [0, 0, 0];
  const known = new Map();
  const mapped = (point) => {
    if (!known.has(point)) {
      const { point: there, distance } = to.nearest(from.values(point));
      if (distance < SAME) same += 1; else { moved += 1; farthest = Math.max(farthest, distance); }
      known.set(point, there);
    }
    return known.get(point);
  };
  const { state } = model.draft;
  const picks = [];
  for (const pick of state.picks) {
    const point = mapped(pick.point);
    const held = picks.find((other) => other.point === point);
    if (held) held.screens = [...new Set([...held.screens, ...pick.screens])]; else picks.push({ point, screens: pick.screens });
  }
  const rejected = [...new Set(state.rejected.map(mapped))].filter((point) => !picks.some((pick) => pick.point === point));
  const answers = state.answers.map((one) => ({ ...one, better: mapped(one.better), worse: mapped(one.worse) })).filter((one) => one.better !== one.worse);
  const before = model.draft.changed;
  model.draft.changed = () => {};
  model.draft.follow(`switch to version ${to.version}`, { version: to.version, picks, rejected, answers });
  model.draft.changed = before;
  const merged = state.picks.length - picks.length;
  const back = isKept(from.version) ? `Undo takes you back to version ${from.version}.` : `Version ${from.version} is no longer kept.`;
  banner("cal-carried", `Your picks are on version ${to.version} now`, `${many(same, "is the same placement", "are the same placements")}, ${many(moved, "went", "went")} to the nearest${moved ? `, at most ${farthest.toFixed(3)} away` : ""}${merged ? `; ${many(merged, "pick")} fell together with another` : ""}. ${back}`);
}

/* What was picked is numbers of placements, of which nobody knows any more what they were. */
function drop(to) {
  const { version } = model.draft.state;
  model.draft.amend({ version: to.version, picks: [], rejected: [], answers: [] });
  banner("cal-carried", `Version ${version} is no longer kept, nor what was picked on it`, forgotten(`This is version ${to.version}: pick again, and save a set to keep it.`));
}

/* A draft has changed: show it, on the version it is of. Undo and saved sets may lead to another. */
export async function followDraft() {
  const { version } = model.draft.state;
  if (!model.points) return;
  if (version === model.version) { tell("draft"); return; }
  isLoading = true;
  byId("cal-carried").hidden = true;
  await guarded(async () => { await follow(version); show(); });
  isLoading = false;
  if (model.version !== version) await refresh(); // it may have been forgotten meanwhile
}

/* ---- what is said of it ---- */

function show() {
  const { front } = model;
  byId("cal-workload").textContent = `${front.source !== "cluster" ? "an instance" : front.cluster_seconds === null ? "being read" : clusterTime(front.cluster_seconds)}${front.containers ? `, ${many(front.containers, "container")} on ${many(front.nodes, "server")}` : ""}`;
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
  byId("cal-newer").hidden = !isBehind;
  if (isBehind) {
    const last = front.versions.at(-1);
    banner("cal-newer", `Version ${last.number} has ${many(last.points, "placement")}, hypervolume ${last.hypervolume.toFixed(3)}`, `You pick from version ${model.version}; picks keep their version. Switching carries each to the same placement, or the nearest.`);
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
  banner("cal-drifted", "The cluster is no longer what this front was made of", `${found.sentence} Search a new front before you rely on its weights.`);
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
  try {
    await work();
    if (!isForgotten) byId("cal-problem").hidden = true;
  } catch (error) {
    const isApi = error instanceof ApiError;
    if (!isApi && !(error instanceof TypeError && /fetch/i.test(error.message))) throw error;
    banner("cal-problem", isApi ? error.problem.title : "The server cannot be reached", isApi ? problemText({ ...error.problem, title: "" }) : "The page asks again by itself; your picks are kept in this tab.");
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
