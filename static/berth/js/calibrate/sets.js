/* Preference sets: saved under a name, loaded again, compared in columns. */
import { ApiError, call } from "../api.js";
import { problemText, toast } from "../notices.js";
import { guarded } from "./fronts.js";
import { keepAddress, mayChange, model, on, picking, tell } from "./model.js";
import { FEWEST, NAMES, OBJECTIVES, SCREENS, byId, drawn, element, many, percent, raw, watts } from "./words.js";

const PATH = "/api/v1/preference-sets/";
const LOOK_S = 2; // of a preview for a comparison
const RULES = { spread: "inverse spread", reference: "reference point", direct: "sliders" };
let sets = [];
let compared = new Set();
let filled = ""; // the name of a loaded set, as the page put it into the field

export function startSets() {
  byId("cal-form").addEventListener("submit", (event) => { event.preventDefault(); guardedSave(); });
  byId("cal-compare").addEventListener("click", compare);
  byId("cal-sets").addEventListener("click", pressed);
  byId("cal-sets").addEventListener("change", (event) => {
    if (event.target.checked) compared.add(event.target.value); else compared.delete(event.target.value);
  });
  on("draft", followName);
  on("derived", allow);
  on("front", once);
}

/* The list, and with ?set= one of it, as soon as there is a front to load it on; a set loaded before has its name again. */
let isStarted = false;
async function once() {
  if (isStarted || !model.points) return;
  isStarted = true;
  await guarded(refreshSets);
  const [wanted, parent] = [inAddress(), model.draft.state.parent].map(setOf);
  if (wanted && wanted !== parent) load(wanted);
  else if (parent && isShown(parent) && !typed()) fill(parent.name);
}

function fill(name) {
  byId("cal-name").value = name;
  filled = name;
}

/* Undo and redo lead away from a loaded set and back to it: its name goes and comes, unless another was typed. */
function followName() {
  const parent = setOf(model.draft.state.parent);
  if (filled && typed() === filled && parent?.name !== filled) fill(parent?.name ?? "");
  else if (parent && !typed() && isShown(parent)) fill(parent.name);
}

/* Picks are kept once there are enough on every screen; other rules need none. */
function allow() {
  const isEnough = model.draft.state.rule !== "spread" || SCREENS.every(({ name }) => model.draft.byScreen[name].length >= FEWEST);
  for (const id of ["cal-save", "cal-activate"]) byId(id).disabled = !model.derived || !isEnough || !mayChange();
}

const inAddress = () => new URLSearchParams(location.search).get("set");
const setOf = (id) => sets.find((set) => set.id === id);
const typed = () => byId("cal-name").value.trim();

/* The newest sets, and however old the one worked on. */
export async function refreshSets() {
  sets = (await call("GET", `${PATH}?limit=100`)).value.results;
  for (const id of new Set([inAddress(), model.draft.state.parent])) if (id && !setOf(id)) await add(id);
  show();
}

async function add(id) {
  try { sets.push((await call("GET", `${PATH}${encodeURIComponent(id)}/`)).value); } catch (error) {
    if (error.status !== 404) throw error; // deleted, or never there
  }
}

const isShort = () => getComputedStyle(byId("cal-name").closest(".field")).display === "none";

/* On a phone the fields come up with the first press. */
export function openFields() {
  if (!isShort()) return false;
  byId("cal-form").classList.add("open");
  byId("cal-name").focus();
  return true;
}

export const closeFields = () => byId("cal-form").classList.remove("open");

/* ---- saving ---- */

async function guardedSave() {
  if (openFields()) return;
  byId("cal-save").disabled = true;
  try {
    const set = await save();
    if (set) { toast(`Saved as ${set.name}.`); closeFields(); }
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    fault(byId("cal-name"), error.problem);
  }
  allow();
}

/* A field that is wrong says so itself, and the form why. */
export function fault(field, problem) {
  const more = (problem.errors ?? []).map((one) => one.detail).join(" ");
  const line = byId("cal-error");
  line.textContent = [problemText(problem), more].filter(Boolean).join(" ");
  line.hidden = false;
  field.setAttribute("aria-invalid", "true");
  field.focus();
  field.addEventListener("input", () => { field.removeAttribute("aria-invalid"); line.hidden = true; }, { once: true });
}

const isSame = (some, others) => { const [a, b] = [new Set(some), new Set(others)]; return a.size === b.size && [...a].every((one) => b.has(one)); };

/* Whether a set holds just what is on the page; in which order it was picked does not matter. */
function isShown(set) {
  const now = picking();
  return set.rule === now.rule
    && (!set.front || (set.front === now.front && set.version === now.version))
    && SCREENS.every(({ name }) => isSame(set.picks[name] ?? [], now.picks[name]))
    && isSame(set.rejected, now.rejected)
    && (set.rule === "spread" || OBJECTIVES.every((o) => set.wanted[o] === now.wanted[o]));
}

/* The set that holds what is on the page under the name given there, if there is one. */
export const held = () => sets.find((set) => set.name === typed() && isShown(set));

/* Save what is on the page, unless it is saved already; returns the set, or null where a name is missing. */
export async function save() {
  const known = held();
  if (known) return known;
  const name = typed();
  if (!name) { fault(byId("cal-name"), { title: "Give the set a name: it is how you find it again." }); return null; }
  const { value } = await call("POST", PATH, { ...picking(), note: "", name, parent: setOf(model.draft.state.parent)?.id ?? null });
  model.draft.amend({ parent: value.id });
  keepAddress({ set: value.id });
  await refreshSets();
  return value;
}

/* ---- the list ---- */

const picksOf = (set) => new Set(Object.values(set.picks).flat()).size;
const parentOf = (set) => setOf(set.parent)?.name ?? "";

function show() {
  const host = byId("cal-sets");
  if (!sets.length) {
    const tr = element("tr");
    tr.append(element("td", "No set has been saved yet. A set keeps the picks, the rule and the weights under a name.", "t2 wrap-cell"));
    host.replaceChildren(tr);
    return;
  }
  const head = element("tr");
  head.append(...[["Compare", "sr"], ["Name", ""], ["Weights", ""], ["From", "from"], ["Actions", "sr"]].map(([name, cls]) => { const th = element("th", "", cls === "from" ? "from" : "", { scope: "col" }); th.append(element("span", name, cls)); return th; }));
  const top = element("thead");
  top.append(head);
  const body = element("tbody");
  body.append(...sets.map(row));
  host.replaceChildren(element("caption", "Saved preference sets", "sr"), top, body);
}

function row(set) {
  const tr = element("tr", "", set.id === model.draft.state.parent ? "sel" : "");
  const first = element("td");
  const box = element("input", "", "", { type: "checkbox", value: set.id, "aria-label": `Compare ${set.name}` });
  box.checked = compared.has(set.id);
  first.append(box);
  const name = element("td");
  name.append(element("b", set.name));
  if (parentOf(set)) name.append(element("span", ` derived from ${parentOf(set)}`, "t3"));
  if (set.is_in_force) name.append(" ", element("span", "in force", "badge acc"));
  const from = set.rule === "spread" ? many(picksOf(set), "pick") : RULES[set.rule];
  const of = set.front_name ? `${from} of ${set.front_name} v${set.version}` : from;
  const weights = element("td");
  weights.append(...OBJECTIVES.flatMap((o) => [element("span", `${o} ${set.weights[o].toFixed(2)}`, "weight"), " "]));
  const origin = element("td", of, "t2 from");
  origin.append(element("span", `${set.created_by}, ${new Date(set.created_at).toLocaleDateString("en-GB", { day: "numeric", month: "short" })}`, "by"));
  const actions = element("td", "", "num");
  actions.append(element("button", "Load", "btn small", { type: "button", "data-load": set.id, "aria-label": `Load ${set.name}` }));
  if (mayChange() && !set.activations) actions.append(" ", element("button", "Delete", "btn small quiet", { type: "button", "data-delete": set.id, "aria-label": `Delete ${set.name}` }));
  tr.append(first, name, weights, origin, actions);
  return tr;
}

async function pressed(event) {
  const button = event.target.closest("button");
  const set = sets.find((one) => one.id === (button?.dataset.load ?? button?.dataset.delete));
  if (!set) return;
  if ("load" in button.dataset) { load(set); return; }
  button.disabled = true;
  try {
    await call("DELETE", `${PATH}${set.id}/`);
    compared.delete(set.id);
    toast(`${set.name} is deleted.`);
    await refreshSets();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    toast(problemText(error.problem), { tone: "bad", stays: true });
    button.disabled = false;
  }
}

/* Back to the picks of a set: on its own front and version. */
function load(set) {
  if (set.front && set.front !== model.front.id) { location.href = `/calibrate/?front=${set.front}&version=${set.version}&set=${set.id}`; return; }
  model.draft.load(set, set.version ?? model.version);
  fill(set.name);
  keepAddress({ set: set.id });
  show();
  tell("loaded");
}

/* ---- comparing ---- */

/* Columns of sets; what the solver and the running cluster make of each comes in one by one. */
async function compare() {
  const chosen = sets.filter((set) => compared.has(set.id));
  if (chosen.length < 2) {
    toast("Tick two sets or more under Saved sets; then they are compared in columns.");
    byId("cal-sets").scrollIntoView({ block: "center" });
    byId("cal-sets").querySelector("input")?.focus({ preventScroll: true });
    return;
  }
  const dialog = byId("cal-compare-dialog");
  const made = columns(chosen);
  dialog.addEventListener("close", () => tell("compared"), { once: true });
  dialog.showModal();
  const isOpen = () => dialog.open && byId("cp-table").contains(made[0]?.star ?? null);
  for (const [k, set] of chosen.entries()) {
    if (!isOpen()) return;
    await attempt(made[k].star, async () => starOf(set));
  }
  for (const [k, set] of chosen.entries()) {
    if (!isOpen()) return;
    await attempt(made[k].preview, async () => previewOf(set));
  }
}

async function attempt(cell, work) {
  try { cell.replaceChildren(...(await work()).map((line) => element("div", line))); } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    cell.textContent = problemText(error.problem);
  }
}

const TRIES = 40, EVERY_MS = 250;

function columns(chosen) {
  const cells = chosen.map(() => ({ star: element("td", "solving…", "t2"), preview: element("td", "waiting…", "t2") }));
  const line = (name, of) => {
    const tr = element("tr");
    tr.append(element("th", name, "", { scope: "row" }), ...chosen.map((set, k) => of(set, k)));
    return tr;
  };
  const head = element("tr");
  head.append(element("td"), ...chosen.map((set) => element("th", set.name, "", { scope: "col" })));
  const top = element("thead");
  top.append(head);
  const body = element("tbody");
  const text = (of) => (set) => element("td", of(set));
  body.append(
    line("Weights", (set) => { const td = element("td"); td.append(bars(set.weights)); return td; }),
    line("Rule", text((set) => RULES[set.rule])),
    line("Picks", text((set) => (picksOf(set) ? many(picksOf(set), "placement") : "none"))),
    line("Derived from", text((set) => parentOf(set) || "–")),
    line("The solver returns", (_, k) => cells[k].star),
    line("On the running cluster", (_, k) => cells[k].preview),
    line("Note", text((set) => set.note || "–")),
  );
  byId("cp-table").replaceChildren(top, body);
  return cells;
}

function bars(weights) {
  const svg = drawn("svg", { viewBox: "0 0 180 64", class: "plot", role: "img", "aria-label": OBJECTIVES.map((o) => `${NAMES[o]} ${weights[o].toFixed(2)}`).join(", ") });
  OBJECTIVES.forEach((o, k) => {
    drawn("text", { x: 0, y: 14 + 21 * k }, svg, o);
    drawn("rect", { x: 14, y: 5 + 21 * k, width: 130 * weights[o], height: 11, class: "fa" }, svg);
    drawn("text", { x: 180, y: 14 + 21 * k, class: "end strong" }, svg, weights[o].toFixed(2));
  });
  return svg;
}

async function starOf(set) {
  if (!set.front) return ["–"];
  const { value } = await call("POST", `${PATH}check/`, { front: set.front, version: set.version, rule: set.rule, picks: set.picks, rejected: set.rejected, wanted: set.wanted });
  return [...OBJECTIVES.map((o) => raw(o, value.star.raw[o])), value.sentence];
}

async function previewOf(set) {
  if (!mayChange()) return ["needs the role operator"];
  const { value } = await call("POST", "/api/v1/previews/", { weights: set.weights, racks: [], limit_seconds: LOOK_S });
  for (let k = 0; k < TRIES; k += 1) {
    const now = (await call("GET", `/api/v1/previews/${value.id}/`)).value;
    if (!["waiting", "searching"].includes(now.state)) {
      if (!now.answer) return [now.problem || "no answer"];
      const { before, after, moves } = now.answer;
      return [`${watts(before.watts)} to ${watts(after.watts)}`, `${before.targets_met} to ${after.targets_met} of ${after.targets_measured} targets met`, `${many(moves, "move")}, gap ${percent(now.answer.gap)}`];
    }
    await new Promise((resolve) => { setTimeout(resolve, EVERY_MS); });
  }
  return ["no answer in time"];
}
