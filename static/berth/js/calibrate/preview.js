/* The preview of the weights on the running cluster, refined until it is stopped. It changes nothing. */
import { ApiError, call } from "../api.js";
import { byId, debounce, showExplained, svgElement } from "../dom.js";
import { duration, percent } from "../format.js";
import { problemText } from "../notices.js";
import { mayChange, model, publish, subscribe } from "./model.js";

const DELAY_MS = 500;
const LIMIT_S = 60;
const FIRST_POLL_MS = 100;
const REFINING_POLL_MS = 1000;
const NO_CHANGES = "The preview changes nothing.";
let run = 0; // number of the current preview
let previewId = null;
let lastSent = null; // the answer to the last request to search
let lastRequest = "";
let changedAt = -DELAY_MS; // when the weights changed last
let answerSeconds = 0; // from the request to the answer shown
const requestLater = debounce(request, DELAY_MS);
const answers = () => import("./preview_answer.js");

export function startPreview() {
  if (!mayChange()) {
    showStatus("Previews name jobs of every project and need the role operator.", null);
    return;
  }
  subscribe("derived", onChange);
  subscribe("compared", () => {
    lastRequest = ""; // the comparison has replaced the user's only preview
    onChange();
  });
  subscribe("reach", showAgain);
  subscribe("checked", showAgain);
  byId("cal-racks").addEventListener("change", onChange);
  byId("cal-preview-stop").addEventListener("click", () => {
    stop();
    byId("cal-preview-again").focus();
  });
  byId("cal-preview-again").addEventListener("click", () => {
    request();
    byId("cal-preview-stop").focus();
  });
  document.addEventListener("berth:theme", () => {
    showAgain();
  });
  window.addEventListener("pagehide", () => {
    if (previewId) deletePreview(previewId);
  });
}

const racks = () => (byId("cal-racks").value ? [byId("cal-racks").value] : []);
const deletePreview = (id) => call("DELETE", `/api/v1/previews/${id}/`).catch(() => {});

function onChange() {
  const requestKey = model.derived ? JSON.stringify([model.derived.weights, racks()]) : "";
  if (requestKey === lastRequest) return;
  lastRequest = requestKey;
  run += 1;
  requestLater.stop();
  cancel();
  if (!requestKey) {
    clear();
    return;
  }
  showStatus(`The weights have changed. Updating the preview. ${NO_CHANGES}`, null);
  byId("cal-preview-body").classList.add("old");
  const isAlone = performance.now() - changedAt >= DELAY_MS;
  changedAt = performance.now();
  if (isAlone) request();
  else requestLater();
}

function clear() {
  model.preview = null;
  byId("cal-preview-title").textContent = "Effect on the running cluster";
  showStatus(`Shows what the weights would change, as soon as there are weights. ${NO_CHANGES}`, null);
  byId("cal-preview-body").replaceChildren();
  publish("preview");
}

/* Show the answer at the position of the slider, next to the latest solver result. */
async function showAgain() {
  if (!model.preview?.answer) return;
  const { showAnswer } = await answers();
  if (model.preview?.answer) showAnswer(model.preview.answer);
}

function cancel() {
  if (previewId) deletePreview(previewId);
  previewId = null;
}

function stop() {
  cancel();
  run += 1;
  const { answer } = model.preview ?? {};
  showStatus(
    `${answer ? `Stopped after ${qualityText(answer)}` : "Stopped before the first result"}. ${NO_CHANGES}`,
    null,
  );
  offerAgain();
}

/* Request a preview, if it is still wanted when earlier requests have been answered: the server stops the preview that
   it started before, and requests may overtake each other. Returns its id, or null. */
export function requestPreview(body, isWanted = () => true) {
  const sent = Promise.allSettled([lastSent]).then(async () =>
    isWanted() ? (await call("POST", "/api/v1/previews/", body)).value.id : null,
  );
  lastSent = sent;
  return sent;
}

async function request() {
  run += 1;
  const current = run;
  showStatus(`Searching for migrations worth their cost. ${NO_CHANGES}`, 0);
  answers(); // loaded during the search
  try {
    const body = { weights: model.derived.weights, racks: racks(), limit_seconds: LIMIT_S };
    const id = await requestPreview(body, () => current === run);
    if (current !== run) {
      if (id) deletePreview(id);
      return;
    }
    previewId = id;
    await poll(current, performance.now());
  } catch (error) {
    if (current !== run) return;
    if (!(error instanceof ApiError)) throw error;
    previewId = null;
    showStatus(`${problemText(error.problem)}. ${NO_CHANGES}`, null);
    offerAgain();
  }
}

/* Poll the preview and show every refined answer, until it ends or a newer one is requested. */
async function poll(current, startedAt) {
  let refined = 0;
  while (current === run) {
    const { value } = await call("GET", `/api/v1/previews/${previewId}/`);
    if (current !== run) return;
    const elapsed = (performance.now() - startedAt) / 1000;
    if (value.answer && value.answer.refined !== refined) {
      refined = value.answer.refined;
      model.preview = value;
      answerSeconds = elapsed;
      publish("preview");
      showAgain();
    }
    if (!["waiting", "searching"].includes(value.state)) {
      previewId = null;
      showEnd(value);
      return;
    }
    showProgress(value, elapsed);
    await new Promise((resolve) => {
      setTimeout(resolve, value.answer ? REFINING_POLL_MS : FIRST_POLL_MS);
    });
  }
}

const qualityText = (answer) => `${duration(answerSeconds)}, solver gap ${percent(answer.gap)}`;

function showProgress({ state, answer }, elapsed) {
  const searching = state === "waiting" ? "Waiting for a worker" : "Searching for migrations worth their cost";
  const text = answer
    ? `${NO_CHANGES} Result after ${qualityText(answer)}, refining for up to ${LIMIT_S} s`
    : `${searching}. ${NO_CHANGES}`;
  showStatus(text, elapsed);
}

function showEnd({ state, answer, problem }) {
  let text = `The search ended without a result. ${NO_CHANGES}`;
  if (state === "failed") text = `The preview failed: ${problem || "the search ended with an error."} ${NO_CHANGES}`;
  else if (answer) text = `${NO_CHANGES} ${state === "done" ? "Finished" : "Stopped"} after ${qualityText(answer)}.`;
  showStatus(text, null);
  if (state !== "done") offerAgain();
}

/* Offer to search again, until the next status is shown. */
function offerAgain() {
  byId("cal-preview-again").hidden = false;
}

/* Show a text, and the progress bar unless `elapsed` is null. */
function showStatus(text, elapsed) {
  showExplained(byId("cal-preview-sub"), text);
  const bar = byId("cal-preview-progress");
  bar.hidden = elapsed === null;
  byId("cal-preview-stop").hidden = elapsed === null;
  byId("cal-preview-again").hidden = true;
  if (elapsed === null) return;
  const share = Math.min(1, elapsed / LIMIT_S);
  bar.setAttribute("aria-valuenow", String(Math.round(share * LIMIT_S)));
  const svg = svgElement("svg", { viewBox: "0 0 100 4", preserveAspectRatio: "none", "aria-hidden": "true" });
  svgElement("rect", { width: 100 * share, height: 4, class: "fa" }, svg);
  bar.replaceChildren(svg);
}
