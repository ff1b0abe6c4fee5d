/* One job: hold, release, cancel, and what would help it. */
import { ApiError, call } from "../api.js";
import { problemText, toast } from "../notices.js";
import { refreshRegions } from "../regions.js";

const NOTICES = { hold: "The job is held.", release: "The job is released.", cancel: "The job is being cancelled." };

export function start() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-job-action]");
    if (button) runAction(button, button.dataset.jobAction);
    const remedy = event.target.closest("[data-remedy]");
    if (remedy) apply(remedy);
  });
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
