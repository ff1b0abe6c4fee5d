/* The list of plans: have one made, set the loop. */
import { ApiError, call } from "../api.js";
import { clearProblems, showProblems } from "../fields.js";
import { problemText, toast } from "../notices.js";
import { refreshRegions } from "../regions.js";

const ASK_MS = 500;
const LOOP = "/api/v1/placement-loop/";
let following = false;

export function start() {
  document.getElementById("make-plan")?.addEventListener("click", make);
  const form = document.getElementById("loop-form");
  form.addEventListener("input", () => { offer(form); });
  form.addEventListener("submit", (event) => { event.preventDefault(); ask(form); });
  document.addEventListener("berth:patched", () => { follow(form); });
  const dialog = document.getElementById("loop-automatic");
  document.getElementById("la-go").addEventListener("click", () => { dialog.close("yes"); });
  dialog.addEventListener("close", () => { if (dialog.returnValue === "yes") save(form); else stay(form); });
}

async function make(event) {
  const button = event.currentTarget;
  button.disabled = true;
  try {
    const { value } = await call("POST", "/api/v1/plans/", {});
    await operationEnds(value.id);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    toast(problemText(error.problem), { tone: "bad", stays: true });
  } finally { button.disabled = false; }
}

/* Follows an operation that makes a plan and opens the plan, or says why there is none. */
export async function operationEnds(id) {
  for (;;) {
    const { value } = await call("GET", `/api/v1/operations/${id}/`);
    if (value.status === "succeeded") {
      if (value.result.plan) location.href = `/plans/${value.result.name}/`;
      else toast(value.result.reason, { stays: true });
      return;
    }
    if (!["pending", "running"].includes(value.status)) {
      toast(value.problem?.detail ?? `It was ${value.status}.`, { tone: "bad", stays: true });
      return;
    }
    await new Promise((resolve) => { setTimeout(resolve, ASK_MS); });
  }
}

function isChanged(input) { return input.type === "radio" ? input.checked !== input.defaultChecked : input.value !== input.defaultValue; }
function settings(form) { return [...form.elements].filter((input) => input.name); }
function offer(form) { document.getElementById("loop-save").disabled = !changed(form).size; }

/* What differs from what is in force, by name. A number that was emptied is none. */
function changed(form) {
  const found = new Map();
  for (const input of settings(form)) {
    if (!isChanged(input) || (input.type === "radio" && !input.checked)) continue;
    found.set(input.name, input.type === "radio" ? input.value : input.value === "" ? null : Number(input.value));
  }
  return found;
}

/* Automatic moves containers without asking again, so it asks once. */
function ask(form) {
  if (changed(form).get("mode") !== "automatic") { save(form); return; }
  const dialog = document.getElementById("loop-automatic");
  for (const spot of dialog.querySelectorAll("[data-setting]")) spot.textContent = form.elements[spot.dataset.setting].value;
  dialog.returnValue = "";
  dialog.showModal();
}

/* Nothing was saved: the mode in force is shown again. */
function stay(form) {
  for (const radio of form.elements.mode) radio.checked = radio.defaultChecked;
  offer(form);
}

async function save(form) {
  const line = document.getElementById("loop-error");
  line.hidden = true;
  clearProblems(form);
  document.getElementById("loop-save").disabled = true;
  try {
    const { value } = await call("PATCH", LOOP, Object.fromEntries(changed(form)), { "If-Match": `"g${form.dataset.generation}"` });
    show(form, value, () => true);
    toast(value.mode === "off" ? "The loop makes no plans." : "The loop is set.");
    await refreshRegions();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const wrong = (error.problem.errors ?? []).map((one) => (one.code === "null" ? { ...one, detail: "Give a number." } : one));
    const rest = showProblems(form, wrong).map((one) => `${one.pointer.slice(1)}: ${one.detail}`);
    say(error.status === 412 ? "Somebody else set the loop meanwhile: look at it again, then save."
      : wrong.length ? ["Nothing was saved: correct the fields that are marked.", ...rest].join(" ") : problemText(error.problem));
    offer(form);
    if (error.status === 412) await refreshRegions();
  }
}

function say(text) {
  const line = document.getElementById("loop-error");
  line.textContent = text;
  line.hidden = false;
}

/* Somebody else set the loop: what is in force now is shown, except where something else was typed and is not saved. */
async function follow(form) {
  const now = document.getElementById("loop-version").dataset.generation;
  if (following || now === form.dataset.generation) return;
  following = true;
  try {
    const { value } = await call("GET", LOOP);
    const edited = new Set(changed(form).keys());
    show(form, value, (input) => !edited.has(input.name));
    if (edited.size) say("Somebody else set the loop meanwhile. What you changed is not saved yet.");
  } finally { following = false; }
}

/* Takes settings as those in force; fields that are to follow show them. */
function show(form, value, follows) {
  form.dataset.generation = value.generation;
  for (const input of settings(form)) {
    if (input.type === "radio") {
      input.defaultChecked = input.value === value.mode;
      if (follows(input)) input.checked = input.defaultChecked;
    } else {
      const text = String(value[input.name]);
      if (follows(input)) input.value = text;
      input.defaultValue = text;
    }
  }
  offer(form);
}
