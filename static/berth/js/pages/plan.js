/* One plan: leave bundles out and recompute, approve, pause, resume, cancel, take back. */
import { ApiError, call } from "../api.js";
import { problemText, toast } from "../notices.js";
import { refreshRegions } from "../regions.js";
import { operationEnds } from "./plans.js";

const SAID = { approve: "The plan is approved.", pause: "No further move begins.", resume: "Moves begin again.", cancel: "The plan is stopped." };
const ERRORS = { approve: "pa-error", cancel: "pc-error" };
const NOTES = "berth-plan-notes";
const drawn = { ...version().dataset }; // the state and generation that the boxes are of
const TICKS = `berth-plan-ticks-${document.getElementById("plan-actions").dataset.plan}`;
let recomputing = false;

export function start() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-plan-action]");
    if (button) act(button, button.dataset.planAction);
  });
  document.addEventListener("change", (event) => { if (event.target.matches("[data-bundle]")) { keep(); say(); } });
  document.addEventListener("berth:patched", moved);
  document.getElementById("plan-recompute")?.addEventListener("click", recompute);
  document.getElementById("plan-reset")?.addEventListener("click", reset);
  document.getElementById("pr-go").addEventListener("click", takeBack);
  const count = document.getElementById("pa-count");
  count?.addEventListener("input", () => { document.querySelector("[data-plan-action=approve]").disabled = count.value.trim() !== count.dataset.wanted; });
  restore();
}

function version() { return document.getElementById("plan-version"); }
function address(tail) { return `/api/v1/plans/${document.getElementById("plan-actions").dataset.plan}/${tail}/`; }
function match() { return { "If-Match": `"g${version().dataset.generation}"` }; }

/* What can be ticked, and which dialogs there are, depends on the state: another state is another page. So are the
   boxes of a plan that somebody else trimmed. The button that approves is drawn anew with every refresh. */
function moved() {
  const { state, generation } = version().dataset;
  const chart = document.querySelector("[data-figure*=plan-progress]");
  const wasTrimmed = drawn.state === "proposed" && state === "proposed" && generation !== drawn.generation;
  if (wasTrimmed && !recomputing) {
    sessionStorage.setItem(NOTES, JSON.stringify(["The plan was changed meanwhile: this is how it is now."]));
    location.reload();
  } else if ((drawn.state === "proposed" && state !== drawn.state) || (!chart && state === "running")) location.reload();
  else say();
}

async function act(button, action) {
  button.disabled = true;
  try {
    await call("POST", address(action), action === "approve" ? { skipped: leftOut() } : {}, match());
    button.closest("dialog")?.close();
    toast(SAID[action]);
    await refreshRegions();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    refused(error, document.getElementById(ERRORS[action]));
    button.disabled = false;
  }
}

/* Says it in the dialog, if there is one, else as a notice; what changed meanwhile is shown either way. */
function refused(error, line) {
  const text = error.status === 412 ? "Somebody changed the plan meanwhile: look at it again." : problemText(error.problem);
  if (line) { line.textContent = text; line.hidden = false; } else toast(text, { tone: "bad", stays: true });
  refreshRegions();
}

function boxes() { return [...document.querySelectorAll("[data-bundle]")]; }
function picked(wanted) { return boxes().filter((box) => box.checked === wanted && box.defaultChecked !== wanted).map((box) => Number(box.dataset.bundle)); }

function leftOut() { return boxes().filter((box) => !box.checked).map((box) => Number(box.dataset.bundle)); }

/* What is ticked is kept while the tab is open: leaving the page loses nothing that was not recomputed. */
function keep() {
  const ticks = { out: picked(false), back: picked(true) };
  if (ticks.out.length || ticks.back.length) sessionStorage.setItem(TICKS, JSON.stringify(ticks));
  else sessionStorage.removeItem(TICKS);
}

function restore() {
  const { out = [], back = [] } = JSON.parse(sessionStorage.getItem(TICKS) ?? "{}");
  for (const box of boxes()) {
    const bundle = Number(box.dataset.bundle);
    if (out.includes(bundle)) box.checked = false;
    if (back.includes(bundle)) box.checked = true;
  }
  if (boxes().length) { keep(); say(); } else sessionStorage.removeItem(TICKS);
}

function say() {
  const [out, back] = [picked(false).length, picked(true).length];
  const parts = [out && `${out} bundle${out === 1 ? "" : "s"} left out`, back && `${back} taken in again`].filter(Boolean);
  const bulk = document.getElementById("plan-bulk");
  if (!bulk) return;
  bulk.hidden = !parts.length;
  const text = `${parts.join(", ")}: the prediction above is still of before. Recompute, then approve.`;
  const line = document.getElementById("plan-bulk-say");
  if (line.textContent !== text) line.textContent = text;
  const open = document.getElementById("plan-approve-open");
  if (open) { open.disabled = Boolean(parts.length); open.title = parts.length ? "Recompute first" : ""; }
}

function reset() {
  for (const box of boxes()) box.checked = box.defaultChecked;
  keep();
  say();
}

async function recompute() {
  const button = document.getElementById("plan-recompute");
  button.disabled = true;
  recomputing = true;
  try {
    const { value } = await call("PATCH", address("steps"), { skip: picked(false), take: picked(true) }, match());
    sessionStorage.removeItem(TICKS);
    sessionStorage.setItem(NOTES, JSON.stringify(value.notes));
    location.reload();
  } catch (error) {
    recomputing = false;
    if (!(error instanceof ApiError)) throw error;
    refused(error, null);
    button.disabled = false;
  }
}

async function takeBack() {
  const button = document.getElementById("pr-go");
  button.disabled = true;
  try {
    const { value } = await call("POST", address("rollback"), { approve: document.getElementById("pr-approve").checked }, match());
    await operationEnds(value.id);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    refused(error, document.getElementById("pr-error"));
  } finally { button.disabled = false; }
}

for (const note of JSON.parse(sessionStorage.getItem(NOTES) ?? "[]")) toast(note, { stays: true });
sessionStorage.removeItem(NOTES);
