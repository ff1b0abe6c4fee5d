/* Shadow policies: start one, stop one. */
import { call } from "../api.js";
import { byId } from "../dom.js";
import { clearProblems, showProblems } from "../fields.js";
import { problemText, toastProblem } from "../notices.js";
import { refreshRegions } from "../regions.js";

const HOUR_MS = 3_600_000;

export function start() {
  const form = byId("shadow-form");
  if (form) {
    form.elements.policy.addEventListener("change", () => showParameters(form));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      begin(form);
    });
    showParameters(form);
  }
  document.addEventListener("click", ({ target }) => {
    const button = target.closest("[data-shadow]");
    if (button) stop(button);
  });
}

/* Show the parameters of the chosen policy. */
function showParameters(form) {
  for (const fields of form.querySelectorAll("[data-policy]")) {
    fields.hidden = fields.dataset.policy !== form.elements.policy.value;
    fields.disabled = fields.hidden;
  }
}

/* The form as the body of a request; parameters only where they differ from the defaults. */
function bodyOf(form) {
  const { policy, share, hours } = form.elements;
  const inputs = [...form.querySelectorAll("fieldset:not([disabled]) [data-parameter]")];
  const changed = inputs.filter(({ value, dataset }) => value !== "" && Number(value) !== Number(dataset.default));
  const body = { policy: policy.value, share: Number(share.value) / 100 };
  if (changed.length)
    body.parameters = Object.fromEntries(changed.map(({ value, dataset }) => [dataset.parameter, Number(value)]));
  if (hours.value) body.until = new Date(Date.now() + Number(hours.value) * HOUR_MS).toISOString();
  return body;
}

async function begin(form) {
  const error = byId("shadow-error");
  const button = form.querySelector("[type=submit]");
  error.hidden = true;
  clearProblems(form);
  button.disabled = true;
  try {
    const { value } = await call("POST", "/api/v1/shadows/", bodyOf(form));
    location.assign(`/shadows/${value.id}/`);
  } catch (problem) {
    const { errors = [] } = problem.problem ?? {};
    error.textContent = problem.problem ? problemText(problem.problem) : problem.message;
    error.hidden = errors.length > 0 && showProblems(form, errors).length === 0;
    button.disabled = false;
  }
}

async function stop(button) {
  button.disabled = true;
  try {
    await call("POST", `/api/v1/shadows/${button.dataset.shadow}/stop/`);
    await refreshRegions();
  } catch (error) {
    toastProblem(error);
    button.disabled = false;
  }
}
