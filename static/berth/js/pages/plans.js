/* The list of plans: request a plan, change the settings of the loop. */
import { ApiError, call } from "../api.js";
import { clearProblems, problemLine, showProblems } from "../fields.js";
import { problemText, toast, toastProblem } from "../notices.js";
import { refreshRegions } from "../regions.js";

const POLL_MS = 500;
const LOOP = "/api/v1/placement-loop/";
let isFollowing = false;

export function start() {
  document.getElementById("make-plan")?.addEventListener("click", requestPlan);
  const form = document.getElementById("loop-form");
  form.addEventListener("input", () => {
    updateButtons(form);
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    confirmMode(form);
  });
  document.addEventListener("berth:patched", () => {
    follow(form);
  });
  const dialog = document.getElementById("loop-automatic");
  document.getElementById("la-go").addEventListener("click", () => {
    dialog.close("yes");
  });
  dialog.addEventListener("close", () => {
    if (dialog.returnValue === "yes") save(form);
    else resetMode(form);
  });
}

async function requestPlan(event) {
  const button = event.currentTarget;
  button.disabled = true;
  try {
    const { value } = await call("POST", "/api/v1/plans/", {});
    await openPlanOf(value.id);
  } catch (error) {
    toastProblem(error);
  } finally {
    button.disabled = false;
  }
}

/* Wait for an operation that plans; open the plan, or show the reason if there is none. */
export async function openPlanOf(id) {
  for (;;) {
    const { value } = await call("GET", `/api/v1/operations/${id}/`);
    if (value.status === "succeeded") {
      if (value.result.plan) location.href = `/plans/${value.result.name}/`;
      else toast(value.result.reason, { stays: true });
      return;
    }
    if (!["pending", "running"].includes(value.status)) {
      toast(value.problem?.detail ?? `The operation was ${value.status}.`, { tone: "bad", stays: true });
      return;
    }
    await new Promise((resolve) => {
      setTimeout(resolve, POLL_MS);
    });
  }
}

function isChanged(input) {
  return input.type === "radio" ? input.checked !== input.defaultChecked : input.value !== input.defaultValue;
}
function settings(form) {
  return [...form.elements].filter((input) => input.name);
}
function updateButtons(form) {
  document.getElementById("loop-save").disabled = !changed(form).size;
}

/* What differs from what is in force, by name. A number that was emptied is none. */
function changed(form) {
  const values = new Map();
  for (const input of settings(form)) {
    if (!isChanged(input) || (input.type === "radio" && !input.checked)) continue;
    values.set(input.name, input.type === "radio" ? input.value : input.value === "" ? null : Number(input.value));
  }
  return values;
}

/* Ask for confirmation before the automatic mode, which migrates containers without approval. */
function confirmMode(form) {
  if (changed(form).get("mode") !== "automatic") {
    save(form);
    return;
  }
  const dialog = document.getElementById("loop-automatic");
  for (const output of dialog.querySelectorAll("[data-setting]"))
    output.textContent = form.elements[output.dataset.setting].value;
  dialog.returnValue = "";
  dialog.showModal();
}

/* Show the mode in force again. */
function resetMode(form) {
  for (const radio of form.elements.mode) radio.checked = radio.defaultChecked;
  updateButtons(form);
}

async function save(form) {
  const line = document.getElementById("loop-error");
  line.hidden = true;
  clearProblems(form);
  document.getElementById("loop-save").disabled = true;
  try {
    const { value } = await call("PATCH", LOOP, Object.fromEntries(changed(form)), {
      "If-Match": `"g${form.dataset.generation}"`,
    });
    show(form, value, () => true);
    toast(value.mode === "off" ? "The loop is off." : "Loop settings saved.");
    await refreshRegions();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const errors = (error.problem.errors ?? []).map((fieldError) =>
      fieldError.code === "null" ? { ...fieldError, detail: "Enter a number." } : fieldError,
    );
    const unplaced = showProblems(form, errors).map((fieldError) => problemLine(form, fieldError));
    showError(
      error.status === 412
        ? "The settings were changed by another user. Review them and save again."
        : errors.length
          ? ["Not saved. Correct the marked fields.", ...unplaced].join(" ")
          : problemText(error.problem),
    );
    updateButtons(form);
    if (error.status === 412) await refreshRegions();
  }
}

function showError(text) {
  const line = document.getElementById("loop-error");
  line.textContent = text;
  line.hidden = false;
}

/* Show settings saved by another user, except in fields with unsaved changes. */
async function follow(form) {
  const now = document.getElementById("loop-version").dataset.generation;
  if (isFollowing || now === form.dataset.generation) return;
  isFollowing = true;
  try {
    const { value } = await call("GET", LOOP);
    const edited = new Set(changed(form).keys());
    show(form, value, (input) => !edited.has(input.name));
    if (edited.size) showError("The settings were changed by another user. Your changes are not saved yet.");
  } finally {
    isFollowing = false;
  }
}

/* Store the settings as those in force, and show them in the fields that `follows` selects. */
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
  updateButtons(form);
}
