/* Bringing weights into force: what will happen is said first; what was in force is kept, and comes back in one click. */
import { ApiError, call } from "../api.js";
import { problemText, toast } from "../notices.js";
import { operationEnds } from "../pages/plans.js";
import { mayChange, model, on } from "./model.js";
import { closeFields, fault, held, openFields, refreshSets, save } from "./sets.js";
import { OBJECTIVES, byId, element, icon } from "./words.js";

const GUARD = { drop: 0.02, seconds: 600 };
const RESTING_MS = 15_000;
let timeline = [];
let reverting = null;

export function startForce() {
  byId("cal-activate").addEventListener("click", ask);
  byId("ac-go")?.addEventListener("click", activate);
  byId("rv-go")?.addEventListener("click", revert);
  byId("cal-line").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button?.dataset.revert) askRevert(button.dataset.revert);
    if (button && "plan" in button.dataset) plan(button);
  });
  let isStarted = false;
  on("front", () => { if (!isStarted) { isStarted = true; refresh(); setInterval(() => { if (!document.hidden) refresh(); }, RESTING_MS); } });
}

async function refresh() {
  try {
    timeline = (await call("GET", "/api/v1/weights/activations/?limit=10")).value.results;
  } catch (error) {
    if (!(error instanceof ApiError)) return; // no connection: the next turn asks again
    byId("cal-line").replaceChildren(element("li", problemText(error.problem), "t2"));
    return;
  }
  show();
}

const weightsOf = (weights) => OBJECTIVES.map((o) => `${o} ${weights[o].toFixed(2)}`).join("  ");
const when = (at) => new Date(at).toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const where = (one) => (one.racks.length ? `, on ${one.racks.join(", ")} only` : "");

function show() {
  const host = byId("cal-line");
  if (!timeline.length) {
    const item = element("li");
    const words = element("div");
    words.append(element("b", "No weights are in force yet"), element("p", "Until some are, no plan is made and nothing moves."));
    item.append(icon("info"), words);
    host.replaceChildren(item);
    return;
  }
  host.replaceChildren(...timeline.map(entry));
}

function entry(one) {
  const item = element("li");
  const words = element("div");
  const isNow = one.is_in_force;
  words.append(element("b", `${one.name}, ${weightsOf(one.weights)}`));
  if (isNow) words.append(" ", element("span", "in force", "badge acc"));
  const guard = one.guard ? `, goes back if targets met drop ${(100 * one.guard.drop).toFixed(0)} points for ${Math.round(one.guard.seconds / 60)} min` : "";
  words.append(element("p", `${when(one.created_at)}, ${one.created_by}${where(one)}${isNow ? guard : ""}: ${one.reverts ? "reverted, " : ""}${one.message}`));
  const actions = element("div", "", "line-acts");
  if (isNow && mayChange()) {
    actions.append(element("button", "Make a plan now", "btn small", { type: "button", "data-plan": "" }));
    if (timeline.length > 1) actions.append(element("button", "Revert…", "btn small quiet", { type: "button", "data-revert": one.id }));
  }
  item.append(icon(isNow ? "st-running" : one.reverts ? "undo" : "st-done"), words, actions);
  return item;
}

/* ---- activating ---- */

const loopWords = {
  off: "Plans are made on request only: the loop is off.",
  advise: "The loop proposes plans by them; no container moves before somebody approves one.",
  automatic: "The loop carries out plans by them without asking: containers may move within a minute.",
};

/* Say what will happen. */
async function ask() {
  if (openFields()) return;
  const message = byId("cal-message");
  if (!byId("cal-name").value.trim()) { fault(byId("cal-name"), { title: "Give the set a name: it is saved before it comes into force." }); return; }
  if (!message.value.trim()) { fault(message, { title: "Say why: the message is kept in the audit log." }); return; }
  byId("ac-error").hidden = true;
  const racks = byId("cal-racks").value;
  const facts = element("dl", "", "kv");
  const fact = (name, value) => facts.append(element("dt", name), element("dd", value));
  fact("Weights", weightsOf(model.derived.weights));
  fact("In force now", timeline.length ? `${weightsOf(timeline[0].weights)}, ${timeline[0].name}` : "none");
  fact("Where", racks ? `${racks} only, at first` : "the whole cluster");
  if (model.preview?.answer) fact("Preview", byId("cal-preview-title").textContent.replace("On the running cluster: ", ""));
  fact("Goes back by itself", byId("cal-guard").checked ? "if targets met drop 2 points for 10 min" : "never");
  const what = element("p", "What the loop does with them is being asked…");
  byId("ac-what").replaceChildren(element("p", `${byId("cal-name").value.trim()} ${held() ? "" : "is saved and "}comes into force for every plan made from now on. Plans under way are not changed.`), facts, what);
  byId("cal-activate-dialog").showModal();
  try {
    const { value } = await call("GET", "/api/v1/placement-loop/");
    what.textContent = loopWords[value.mode];
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    what.textContent = problemText(error.problem);
  }
}

async function activate() {
  const button = byId("ac-go");
  button.disabled = true;
  try {
    const set = await save();
    if (!set) { byId("cal-activate-dialog").close(); return; }
    const rack = byId("cal-racks").value;
    const tag = (await call("GET", `/api/v1/preference-sets/${set.id}/`)).headers.get("ETag");
    await call("POST", `/api/v1/preference-sets/${set.id}/activate/`, {
      message: byId("cal-message").value.trim(), racks: rack ? [rack] : [], guard: byId("cal-guard").checked ? GUARD : null,
    }, { "If-Match": tag });
    byId("cal-activate-dialog").close();
    byId("cal-message").value = "";
    closeFields();
    toast(`${set.name} is in force. A plan can be made from it below.`);
    await Promise.all([refresh(), refreshSets()]);
    byId("cal-line").querySelector("[data-plan]")?.focus();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    byId("ac-error").textContent = problemText(error.problem);
    byId("ac-error").hidden = false;
  }
  button.disabled = false;
}

/* ---- going back ---- */

function askRevert(id) {
  reverting = id;
  const before = timeline[1];
  byId("rv-what").textContent = `Plans made from now on follow ${before ? `${before.name}, ${weightsOf(before.weights)}` : "the weights before"} again. This is recorded and can itself be taken back. Moves already made stay; each plan can be rolled back on its own page.`;
  byId("rv-message").value = "";
  byId("rv-error").hidden = true;
  byId("cal-revert-dialog").showModal();
}

async function revert() {
  const field = byId("rv-message");
  const line = byId("rv-error");
  if (!field.value.trim()) {
    line.textContent = "Say why: the message is kept in the audit log.";
    line.hidden = false;
    field.setAttribute("aria-invalid", "true");
    field.focus();
    return;
  }
  field.removeAttribute("aria-invalid");
  line.hidden = true;
  byId("rv-go").disabled = true;
  try {
    await call("POST", `/api/v1/weights/activations/${reverting}/revert/`, { message: field.value.trim() });
    byId("cal-revert-dialog").close();
    toast("The weights before are in force again.");
    await Promise.all([refresh(), refreshSets()]);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    byId("rv-error").textContent = problemText(error.problem);
    byId("rv-error").hidden = false;
  }
  byId("rv-go").disabled = false;
}

/* ---- a plan by the weights in force ---- */

/* The plan opens on its own page; where none pays, that is said. */
async function plan(button) {
  button.disabled = true;
  button.textContent = "Planning…";
  try {
    const { value } = await call("POST", "/api/v1/plans/", {});
    await operationEnds(value.id);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    toast(problemText(error.problem), { tone: "bad", stays: true });
  }
  button.disabled = false;
  button.textContent = "Make a plan now";
}
