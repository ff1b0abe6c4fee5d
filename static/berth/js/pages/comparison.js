/* One comparison: follow its progress, and cancel it. */
import { call } from "../api.js";
import { refreshCharts } from "../charts.js";
import { toast, toastProblem } from "../notices.js";
import { refreshRegions } from "../regions.js";

const POLL_MS = 1500;
const MAX_POLL_MS = 30000;

export function start() {
  document.addEventListener("click", ({ target }) => {
    const button = target.closest("[data-lab=cancel]");
    if (button) cancel(button);
  });
  const open = document.querySelector("[data-lab=cancel]");
  if (open) watch(open.dataset.operation);
}

async function cancel(button) {
  button.disabled = true;
  try {
    await call("POST", `/api/v1/operations/${button.dataset.operation}/cancel/`, {});
    await refreshRegions();
  } catch (error) {
    toastProblem(error);
  }
}

/* Poll until the operation has ended; an error only delays the next poll. */
async function watch(id, failures = 0) {
  let status = "running";
  try {
    const { value } = await call("GET", `/api/v1/operations/${id}/`);
    status = value.status;
    await refreshRegions();
    failures = 0;
  } catch (error) {
    if (failures === 0) toastProblem(error);
    failures += 1;
  }
  if (["pending", "running"].includes(status)) {
    setTimeout(() => watch(id, failures), Math.min(POLL_MS * 2 ** failures, MAX_POLL_MS));
    return;
  }
  await refreshCharts();
  if (status === "succeeded") toast("The comparison is complete.");
}
