/* Sampling: start and cancel the measurement; the page shows its progress, also after a reload. */
import { call } from "../api.js";
import { refreshCharts } from "../charts.js";
import { toast, toastProblem } from "../notices.js";
import { refreshRegions } from "../regions.js";

const POLL_MS = 1500;
const REQUESTS = {
  run: () => call("POST", "/api/v1/sampling-checks/", {}),
  cancel: ({ operation }) => call("POST", `/api/v1/operations/${operation}/cancel/`, {}),
};
let watched = ""; // id of the operation whose end is awaited

export function start() {
  document.addEventListener("click", ({ target }) => {
    const button = target.closest("[data-sampling]");
    if (button) request(button);
  });
  document.addEventListener("berth:patched", follow);
  follow();
}

async function request(button) {
  button.disabled = true;
  try {
    await REQUESTS[button.dataset.sampling](button.dataset);
    await refreshRegions();
  } catch (error) {
    toastProblem(error);
  } finally {
    button.disabled = false;
  }
}

/* Await the end of the operation that the page shows, whoever started it. */
function follow() {
  const id = document.querySelector("[data-operation]")?.dataset.operation ?? "";
  if (!id || id === watched) return;
  watched = id;
  watch(id);
}

async function watch(id) {
  const { value } = await call("GET", `/api/v1/operations/${id}/`);
  if (["pending", "running"].includes(value.status)) {
    setTimeout(() => watch(id), POLL_MS);
    return;
  }
  await Promise.all([refreshRegions(), refreshCharts()]);
  if (value.status === "succeeded") toast("The measurement is complete.");
}
