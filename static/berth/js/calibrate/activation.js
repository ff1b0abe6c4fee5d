/* Activating weights after a confirmation, the history of activations, and revertedId to the previous weights. */
import { ApiError, call } from "../api.js";
import { byId, dataTable, definitionList, element, icon } from "../dom.js";
import { counted, grouped, spelled } from "../format.js";
import { problemText, showProblem, toast, toastProblem } from "../notices.js";
import { openPlanOf } from "../pages/plans.js";
import { mayChange, model, subscribe } from "./model.js";
import { OBJECTIVES } from "./objectives.js";
import { effectText, measureTable, reachedState } from "./preview_answer.js";
import { acceptList, attainments, fallenList, warnings } from "./risks.js";
import { closeFields, openFields, refreshSets, savedSet, saveSet, showFieldError } from "./sets.js";

const REASON_MISSING = "Enter a reason. It is stored in the audit log.";
const GUARD = { drop: 0.02, seconds: 600 };
const POLL_MS = 15_000;
let activations = []; // newest first
let revertedId = null;
let overridden = []; // warnings that the dialog asks to accept

export function startActivation() {
  byId("cal-activate").addEventListener("click", confirmActivation);
  byId("ac-go")?.addEventListener("click", activate);
  byId("rv-go")?.addEventListener("click", revert);
  byId("cal-line").addEventListener("click", (event) => {
    const button = event.target.closest("button");
    if (button?.dataset.revert) confirmRevert(button.dataset.revert);
    if (button && "plan" in button.dataset) makePlan(button);
  });
  let isStarted = false;
  subscribe("front", () => {
    if (!isStarted) {
      isStarted = true;
      refresh();
      setInterval(() => {
        if (!document.hidden) refresh();
      }, POLL_MS);
    }
  });
}

async function refresh() {
  try {
    activations = (await call("GET", "/api/v1/weights/activations/?limit=10")).value.results;
  } catch (error) {
    if (!(error instanceof ApiError)) return; // no connection: retried with the next poll
    byId("cal-line").replaceChildren(element("li", problemText(error.problem), "t2"));
    return;
  }
  show();
}

const weightsText = (weights) => OBJECTIVES.map((o) => `${o} ${weights[o].toFixed(2)}`).join("  ");
const dateText = (time) =>
  new Date(time).toLocaleString("en-GB", { day: "numeric", month: "short", hour: "2-digit", minute: "2-digit" });
const racksText = ({ racks }) => (racks.length ? `, on ${racks.join(", ")} only` : "");

function show() {
  const host = byId("cal-line");
  if (activations.length) {
    host.replaceChildren(...activations.map(activationItem));
    return;
  }
  const [item, words] = [element("li"), element("div")];
  words.append(
    element("b", "No weights are in force yet"),
    element("p", "Without weights in force, no plans are made and no containers are migrated."),
  );
  item.append(icon("info"), words);
  host.replaceChildren(item);
}

function activationItem(activation) {
  const { name, weights, is_in_force: isInForce, reverts } = activation;
  const [item, words] = [element("li"), element("div")];
  words.append(element("b", `${name}, ${weightsText(weights)}`));
  if (isInForce) words.append(" ", element("span", "in force", "badge acc"));
  words.append(element("p", activationText(activation)));
  item.append(icon(isInForce ? "st-running" : reverts ? "undo" : "st-done"), words, activationButtons(activation));
  return item;
}

function activationText(activation) {
  const { created_at: time, created_by: user, is_in_force: isInForce, reverts, message } = activation;
  const guard = isInForce ? guardText(activation) : "";
  return `${dateText(time)}, ${user}${racksText(activation)}${guard}: ${reverts ? "reverted, " : ""}${message}`;
}

function guardText({ guard }) {
  if (!guard) return "";
  const [points, minutes] = [(100 * guard.drop).toFixed(0), Math.round(guard.seconds / 60)];
  return `, reverts if targets met drop by ${points} points for ${minutes} min`;
}

function activationButtons({ id, is_in_force: isInForce }) {
  const box = element("div", "", "line-acts");
  if (!isInForce || !mayChange()) return box;
  box.append(element("button", "Make a plan now", "btn small", { type: "button", "data-plan": "" }));
  if (activations.length > 1)
    box.append(element("button", "Revert…", "btn small quiet", { type: "button", "data-revert": id }));
  return box;
}

/* ---- activating ---- */

const LOOP_TEXTS = {
  off: "The loop is off. Plans are made on request only.",
  advise: "The loop proposes plans with these weights. Containers are migrated only after approval.",
  automatic: "The loop runs plans with these weights without approval. Containers may be migrated within a minute.",
};

/* Ask for confirmation and show the consequences. */
async function confirmActivation() {
  if (openFields() || !checkFields()) return;
  byId("ac-error").hidden = true;
  const name = byId("cal-name").value.trim();
  const sentence = `${name} ${savedSet() ? "" : "is saved and "}applies to all future plans. Plans already running are not changed.`;
  const loop = element("p", "Loading the mode of the loop…");
  byId("ac-what").replaceChildren(
    element("p", sentence),
    ...effectParts(),
    ...warningParts(),
    definitionList(activationFacts()),
    loop,
  );
  byId("cal-activate-dialog").showModal();
  try {
    const { value } = await call("GET", "/api/v1/placement-loop/");
    loop.textContent = LOOP_TEXTS[value.mode];
  } catch (error) {
    showProblem(loop, error);
  }
}

/* The figures of the preview on the page, and the jobs that would miss their target. */
function effectParts() {
  const answer = model.preview?.answer;
  if (!answer) return [];
  const state = reachedState(answer);
  const text = effectText(state);
  const parts = [element("h3", text.charAt(0).toUpperCase() + text.slice(1)), measureTable(answer, state)];
  if (!state.isWhole) {
    const all = { ...answer, after: answer.after };
    parts.push(element("p", `Plans continue while migrations pay. All that pay: ${effectText(all)}.`, "meta"));
  }
  const fallen = fallenList();
  if (fallen.length) parts.push(element("h3", fallenTitle()), fallenTable(fallen));
  return parts;
}

function fallenTitle() {
  const { curve, index } = model.reach;
  const measured = model.preview.answer.after.targets_measured;
  return `${counted(curve.fallen[index], "job")} of ${grouped(measured)} with a measured target would miss it`;
}

function fallenTable(jobs) {
  const rows = jobs.map((job) => {
    const row = element("tr");
    const name = element("td");
    name.append(element("a", job.name, "", { href: `/jobs/${job.id}/` }));
    const [before, after] = attainments(job).map((value) => value.toFixed(2));
    row.append(name, element("td", before, "num"), element("td", after, "num th"));
    return row;
  });
  const columns = [
    ["Job", ""],
    ["Now", "num"],
    ["Then, × target", "num"],
  ];
  return dataTable(columns, rows, { cls: "table tight", caption: "Jobs that would miss their target" });
}

/* The warnings of the page, each to be accepted before the weights are activated. */
function warningParts() {
  overridden = warnings();
  const showLeft = (count) => {
    byId("ac-go").disabled = count > 0;
    const left = count
      ? `${counted(count, "warning")} left to accept`
      : "All warnings accepted. The audit log keeps them.";
    byId("ac-left").textContent = overridden.length ? left : "";
  };
  const list = acceptList(overridden, showLeft);
  if (!overridden.length) return [];
  const count = overridden.length === 1 ? "one warning" : `${spelled(overridden.length).toLowerCase()} warnings`;
  return [element("h3", `You override ${count}`), list];
}

/* Whether name and reason are given; marks the field that is missing. */
function checkFields() {
  const [name, message] = [byId("cal-name"), byId("cal-message")];
  if (!name.value.trim()) showFieldError(name, { title: "Enter a name. The set is saved before it is activated." });
  else if (!message.value.trim()) showFieldError(message, { title: REASON_MISSING });
  else return true;
  return false;
}

function activationFacts() {
  const racks = byId("cal-racks").value;
  const [current] = activations;
  return [
    ["Weights", weightsText(model.derived.weights)],
    ["In force now", current ? `${weightsText(current.weights)}, ${current.name}` : "none"],
    ["Scope", racks ? `${racks} only, to start with` : "the whole cluster"],
    ["Automatic revert", byId("cal-guard").checked ? "if targets met drop by 2 points for 10 min" : "never"],
  ];
}

async function activate() {
  const button = byId("ac-go");
  button.disabled = true;
  try {
    const set = await saveSet();
    if (!set) {
      byId("cal-activate-dialog").close();
      return;
    }
    const rack = byId("cal-racks").value;
    const tag = (await call("GET", `/api/v1/preference-sets/${set.id}/`)).headers.get("ETag");
    await call(
      "POST",
      `/api/v1/preference-sets/${set.id}/activate/`,
      {
        message: byId("cal-message").value.trim(),
        racks: rack ? [rack] : [],
        guard: byId("cal-guard").checked ? GUARD : null,
        accepted_warnings: overridden.map(({ title, detail }) => `${title}. ${detail}`.trim()),
      },
      { "If-Match": tag },
    );
    byId("cal-activate-dialog").close();
    byId("cal-message").value = "";
    closeFields();
    toast(`${set.name} is in force. You can make a plan below.`);
    await Promise.all([refresh(), refreshSets()]);
    byId("cal-line").querySelector("[data-plan]")?.focus();
  } catch (error) {
    showProblem(byId("ac-error"), error);
  }
  button.disabled = false;
}

/* ---- reverting ---- */

function confirmRevert(id) {
  revertedId = id;
  const previous = activations[1];
  byId("rv-what").textContent =
    `Future plans use ${previous ? `${previous.name}, ${weightsText(previous.weights)}` : "the previous weights"} again. This is recorded and can be reverted too. Completed migrations stay; each plan can be rolled back on its page.`;
  byId("rv-message").value = "";
  byId("rv-error").hidden = true;
  byId("cal-revert-dialog").showModal();
}

async function revert() {
  const field = byId("rv-message");
  const line = byId("rv-error");
  if (!field.value.trim()) {
    line.textContent = REASON_MISSING;
    line.hidden = false;
    field.setAttribute("aria-invalid", "true");
    field.focus();
    return;
  }
  field.removeAttribute("aria-invalid");
  line.hidden = true;
  byId("rv-go").disabled = true;
  try {
    await call("POST", `/api/v1/weights/activations/${revertedId}/revert/`, { message: field.value.trim() });
    byId("cal-revert-dialog").close();
    toast("The previous weights are in force again.");
    await Promise.all([refresh(), refreshSets()]);
  } catch (error) {
    showProblem(byId("rv-error"), error);
  }
  byId("rv-go").disabled = false;
}

/* ---- plans ---- */

/* Make a plan with the weights in force and open it, or show the reason if there is none. */
async function makePlan(button) {
  button.disabled = true;
  button.textContent = "Planning…";
  try {
    const { value } = await call("POST", "/api/v1/plans/", {});
    await openPlanOf(value.id);
  } catch (error) {
    toastProblem(error);
  }
  button.disabled = false;
  button.textContent = "Make a plan now";
}
