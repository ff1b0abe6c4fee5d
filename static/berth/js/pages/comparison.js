/* One comparison: follow its progress, cancel, resume or delete it. */
import { call } from "../api.js";
import { refreshCharts } from "../charts.js";
import { problemText, toast, toastProblem } from "../notices.js";
import { applyPolicy } from "../policy.js";
import { refreshRegions } from "../regions.js";

const POLL_MS = 1500;
const MAX_POLL_MS = 30000;
const ACTS = { cancel, resume, delete: remove };
let isFollowing = false;

export function start() {
  document.addEventListener("click", ({ target }) => {
    const button = target.closest("[data-lab]");
    if (button) ACTS[button.dataset.lab](button);
  });
  document.addEventListener("submit", (event) => {
    if (event.target.id !== "la-form") return;
    event.preventDefault();
    applyPolicy(event.target);
  });
  follow();
}

const address = () => `/api/v1/comparisons/${document.getElementById("lab-actions").dataset.comparison}/`;

async function cancel(button) {
  button.disabled = true;
  try {
    await call("POST", `/api/v1/operations/${button.dataset.operation}/cancel/`, {});
    await refreshRegions();
  } catch (error) {
    button.disabled = false;
    toastProblem(error);
  }
}

async function resume(button) {
  button.disabled = true;
  try {
    await call("POST", `${address()}resume/`, {});
    await refreshRegions();
    follow();
  } catch (error) {
    button.disabled = false;
    toastProblem(error);
  }
}

async function remove(button) {
  const error = document.getElementById("ld-error");
  error.hidden = true;
  button.disabled = true;
  try {
    await call("DELETE", address());
    location.assign("/lab/");
  } catch (problem) {
    error.textContent = problem.problem ? problemText(problem.problem) : problem.message;
    error.hidden = false;
    button.disabled = false;
  }
}

/* Poll until the operation on the page has ended; an error only delays the next poll. */
async function follow(failures = 0, isNew = true) {
  const open = document.querySelector("[data-lab=cancel]");
  if (isNew && (!open || isFollowing)) return;
  isFollowing = true;
  let failed = failures;
  let status = "running";
  try {
    if (open) status = (await call("GET", `/api/v1/operations/${open.dataset.operation}/`)).value.status;
    await refreshRegions();
    if (!open) status = "ended";
    failed = 0;
  } catch (error) {
    if (failed === 0) toastProblem(error);
    failed += 1;
  }
  if (["pending", "running"].includes(status)) {
    setTimeout(() => follow(failed, false), Math.min(POLL_MS * 2 ** failed, MAX_POLL_MS));
    return;
  }
  isFollowing = false;
  await refreshCharts();
  if (status === "succeeded") toast("The comparison is complete.");
}
