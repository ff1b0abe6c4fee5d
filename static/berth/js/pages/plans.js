/* The list of plans: have one made, set the loop. */
import { ApiError, call } from "../api.js";
import { problemText, toast } from "../notices.js";
import { refreshRegions } from "../regions.js";

const ASK_MS = 500;
const LOOP = "/api/v1/placement-loop/";

export function start() {
  document.getElementById("make-plan")?.addEventListener("click", make);
  const form = document.getElementById("loop-form");
  form.addEventListener("input", () => { document.getElementById("loop-save").disabled = !changed(form).size; });
  form.addEventListener("submit", save);
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

/* What differs from what the page came with, by name. */
function changed(form) {
  const found = new Map();
  for (const input of form.elements) {
    if (!input.name) continue;
    if (input.type === "radio") { if (input.checked && !input.defaultChecked) found.set(input.name, input.value); } else if (input.value !== input.defaultValue) found.set(input.name, Number(input.value));
  }
  return found;
}

async function save(event) {
  event.preventDefault();
  const form = event.currentTarget;
  const line = document.getElementById("loop-error");
  const button = document.getElementById("loop-save");
  line.hidden = true;
  button.disabled = true;
  try {
    const { value } = await call("PATCH", LOOP, Object.fromEntries(changed(form)), { "If-Match": `"g${form.dataset.generation}"` });
    form.dataset.generation = value.generation;
    for (const input of form.elements) {
      if (input.type === "radio") input.defaultChecked = input.checked;
      else if (input.name) input.defaultValue = input.value;
    }
    toast(value.mode === "off" ? "The loop makes no plans." : "The loop is set.");
    await refreshRegions();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    line.textContent = error.status === 412 ? "Somebody else changed the loop meanwhile: reload the page." : problemText(error.problem);
    line.hidden = false;
    button.disabled = false;
  }
}
