/* Activating weights, the history of activations, and reverting to the previous weights. */
import { call } from "../api.js";
import { byId, element, icon } from "../dom.js";
import { problemText, showProblem, toast, toastProblem } from "../notices.js";
import { mayChange, subscribe } from "./model.js";
import { weightsText } from "./objectives.js";
import { closeFields, openFields, refreshSets, saveSet, showFieldError } from "./sets.js";

const REASON_MISSING = "Enter a reason. It is stored in the audit log.";
const GUARD = { drop: 0.02, seconds: 600 };
const POLL_MS = 15_000;
let activations = []; // newest first
let revertedId = null;

export function startActivation() {
  byId("cal-activate").addEventListener("click", confirm);
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
    if (!error.status) return; // no connection: retried with the next poll
    byId("cal-line").replaceChildren(element("li", problemText(error.problem), "t2"));
    return;
  }
  show();
}

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

let overridden = []; // warnings that the dialog asks to accept

async function confirm() {
  if (openFields() || !checkFields()) return;
  byId("ac-error").hidden = true;
  const { showDialog } = await import("./activation_dialog.js");
  overridden = showDialog(activations[0]);
}

/* Whether name and reason are given; marks the field that is missing. */
function checkFields() {
  const [name, message] = [byId("cal-name"), byId("cal-message")];
  if (!name.value.trim()) showFieldError(name, { title: "Enter a name. The set is saved before it is activated." });
  else if (!message.value.trim()) showFieldError(message, { title: REASON_MISSING });
  else return true;
  return false;
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
    const { openPlanOf } = await import("../pages/plans.js");
    await openPlanOf(value.id);
  } catch (error) {
    toastProblem(error);
  }
  button.disabled = false;
  button.textContent = "Make a plan now";
}
