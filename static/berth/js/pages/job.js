/* One job: hold, release, suspend, resume, cancel, preempt others, and what would help it. */
import { ApiError, call } from "../api.js";
import { problemText, toast } from "../notices.js";
import { refreshRegions } from "../regions.js";

let planRequest = null; // { method, path, body, key } of the dialog
const NOTICES = {
  hold: "The job is held.",
  release: "The job is released.",
  suspend: "The job is being suspended. It keeps its units.",
  resume: "The job continues.",
  cancel: "The job is being cancelled.",
};

export function start() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-job-action]");
    if (button) runAction(button, button.dataset.jobAction);
    const remedy = event.target.closest("[data-remedy]");
    if (remedy) apply(remedy);
    const preemption = event.target.closest("[data-preempt]");
    if (preemption) preempt(preemption.dataset.preempt);
    const migration = event.target.closest("[data-migrate]");
    if (migration) confirmMigration(migration);
  });
  document.getElementById("mj-go")?.addEventListener("click", migrate);
}

async function preempt(job) {
  const { openPreemption } = await import("../preemption.js");
  await openPreemption(job);
}

async function runAction(button, action) {
  const id = location.pathname.split("/")[2];
  button.disabled = true;
  try {
    await call("POST", `/api/v1/jobs/${id}/${action}/`);
    button.closest("dialog")?.close();
    toast(NOTICES[action]);
    await refreshRegions();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const line = action === "cancel" ? document.getElementById("cj-error") : null;
    if (line) {
      line.textContent = problemText(error.problem);
      line.hidden = false;
    } else toast(problemText(error.problem), { tone: "bad", stays: true });
  } finally {
    button.disabled = false;
  }
}

/* Send the request of a remedy. */
async function apply(button) {
  const { method, path, body } = JSON.parse(button.dataset.remedy);
  button.disabled = true;
  try {
    await call(method, path, body);
    toast(method === "PATCH" ? "The target is changed." : "The application is being profiled.");
    await refreshRegions();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    toast(problemText(error.problem), { tone: "bad", stays: true });
  } finally {
    button.disabled = false;
  }
}

/* Show what a migration is predicted to do; the same key is sent again if the first request fails. */
function confirmMigration({ dataset }) {
  const key = [...crypto.getRandomValues(new Uint8Array(16))]
    .map((byte) => byte.toString(16).padStart(2, "0"))
    .join("");
  planRequest = { ...JSON.parse(dataset.migrate), key };
  document.getElementById("mj-title").textContent = `${dataset.text}?`;
  for (const name of ["predicted", "probability", "cost"])
    document.getElementById(`mj-${name}`).textContent = dataset[name];
  document.getElementById("mj-error").hidden = true;
  document.getElementById("migrate-job").showModal();
}

/* Request the plan of the migration and open it. */
async function migrate() {
  const [button, line] = [document.getElementById("mj-go"), document.getElementById("mj-error")];
  const { method, path, body, key } = planRequest;
  button.disabled = true;
  line.hidden = true;
  try {
    const { value } = await call(method, path, body, { "Idempotency-Key": key });
    const { openPlanOf } = await import("./plans.js");
    await openPlanOf(value.id);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    line.textContent = problemText(error.problem);
    line.hidden = false;
  } finally {
    button.disabled = false;
  }
}
