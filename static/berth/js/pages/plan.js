/* One plan: exclude bundles and recompute, approve, pause, resume, cancel, roll back. */
import { ApiError, call } from "../api.js";
import { counted } from "../format.js";
import { problemText, toast } from "../notices.js";
import { refreshRegions } from "../regions.js";
import { openPlanOf } from "./plans.js";

const NOTICES = {
  approve: "The plan is approved.",
  pause: "No further migrations start.",
  resume: "Migrations continue.",
  cancel: "The plan is stopped.",
};
const ERRORS = { approve: "pa-error", cancel: "pc-error" };
const NOTES = "berth-plan-notes";
const shown = { ...version().dataset }; // state and generation of the check boxes
const BOXES = `berth-plan-ticks-${document.getElementById("plan-actions").dataset.plan}`;
let recomputing = false;

export function start() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-plan-action]");
    if (button) runAction(button, button.dataset.planAction);
  });
  document.addEventListener("change", (event) => {
    if (event.target.matches("[data-bundle]")) {
      storeBoxes();
      showExcluded();
    }
  });
  document.addEventListener("berth:patched", onPatched);
  document.getElementById("plan-recompute")?.addEventListener("click", recompute);
  document.getElementById("plan-reset")?.addEventListener("click", reset);
  document.getElementById("pr-go").addEventListener("click", rollBack);
  document.addEventListener("input", (event) => {
    if (event.target.id === "pa-count") approveButton().disabled = event.target.value.trim() !== wantedCount();
  });
  restoreBoxes();
}

function approveButton() {
  return document.querySelector("[data-plan-action=approve]");
}
function wantedCount() {
  return document.getElementById("pa-moves").dataset.moves;
}
function version() {
  return document.getElementById("plan-version");
}
function address(tail) {
  return `/api/v1/plans/${document.getElementById("plan-actions").dataset.plan}/${tail}/`;
}
function match() {
  return { "If-Match": `"g${version().dataset.generation}"` };
}

/* The check boxes and dialogs depend on the state, so a new state reloads the page; so do bundles that another person
   skipped. A re-base keeps the generation: the bundles are replaced, and the check boxes of this tab restored. Every
   refresh replaces the button that approves. */
function onPatched() {
  const { state, generation } = version().dataset;
  const chart = document.querySelector("[data-figure*=plan-progress]");
  const wasTrimmed = shown.state === "proposed" && state === "proposed" && generation !== shown.generation;
  if (wasTrimmed && !recomputing) {
    sessionStorage.setItem(
      NOTES,
      JSON.stringify(["The plan was changed by another user. This is the current version."]),
    );
    location.reload();
  } else if ((shown.state === "proposed" && state !== shown.state) || (!chart && state === "running"))
    location.reload();
  else {
    if (!document.getElementById("pa-count")) approveButton().disabled = false;
    if (!recomputing) restoreBoxes();
    showExcluded();
  }
}

async function runAction(button, action) {
  button.disabled = true;
  try {
    const body = action === "approve" ? { skipped: excludedBundles() } : {};
    const { value } = await call("POST", address(action), body, match());
    button.closest("dialog")?.close();
    const difference = action === "approve" && value.difference;
    toast(difference ? `${NOTICES[action]} Since it was proposed: ${difference}` : NOTICES[action], {
      stays: Boolean(difference),
    });
    await refreshRegions();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    showRefusal(error, document.getElementById(ERRORS[action]));
    button.disabled = false;
  }
}

/* Show an API error in the dialog, or as a notice without one, and refresh the page. */
function showRefusal(error, line) {
  const text =
    error.status === 412
      ? "The plan was changed by another user. Review it and try again."
      : problemText(error.problem);
  if (line) {
    line.textContent = text;
    line.hidden = false;
  } else toast(text, { tone: "bad", stays: true });
  refreshRegions();
}

function boxes() {
  return [...document.querySelectorAll("[data-bundle]")];
}
function changedBoxes(isTaken) {
  return boxes().filter((box) => box.checked === isTaken && box.defaultChecked !== isTaken);
}
/* The first migration of each changed bundle, by which requests name it. */
function changedBundles(isTaken) {
  return changedBoxes(isTaken).map((box) => Number(box.dataset.bundle));
}

function excludedBundles() {
  return boxes()
    .filter((box) => !box.checked)
    .map((box) => Number(box.dataset.bundle));
}

/* Store the check boxes for this tab, so that leaving the page loses no change that was not recomputed. A re-base may
   replace the migrations of a bundle, not its number. */
function storeBoxes() {
  const numbers = (isTaken) => changedBoxes(isTaken).map((box) => Number(box.value));
  const bundles = { out: numbers(false), back: numbers(true) };
  if (bundles.out.length || bundles.back.length) sessionStorage.setItem(BOXES, JSON.stringify(bundles));
  else sessionStorage.removeItem(BOXES);
}

function restoreBoxes() {
  const { out = [], back = [] } = JSON.parse(sessionStorage.getItem(BOXES) ?? "{}");
  for (const box of boxes()) {
    const bundle = Number(box.value);
    if (out.includes(bundle)) box.checked = false;
    if (back.includes(bundle)) box.checked = true;
  }
  if (boxes().length) {
    storeBoxes();
    showExcluded();
  } else sessionStorage.removeItem(BOXES);
}

function showExcluded() {
  const [out, back] = [changedBundles(false).length, changedBundles(true).length];
  const parts = [out && `${counted(out, "bundle")} excluded`, back && `${back} included again`].filter(Boolean);
  const bulk = document.getElementById("plan-bulk");
  if (!bulk) return;
  bulk.hidden = !parts.length;
  const text = `${parts.join(", ")}. The prediction above does not include this yet. Recompute, then approve.`;
  const line = document.getElementById("plan-bulk-say");
  if (line.textContent !== text) line.textContent = text;
  const open = document.getElementById("plan-approve-open");
  if (open) {
    open.disabled = Boolean(parts.length);
    open.title = parts.length ? "Recompute the plan first" : "";
  }
}

function reset() {
  for (const box of boxes()) box.checked = box.defaultChecked;
  storeBoxes();
  showExcluded();
}

async function recompute() {
  const button = document.getElementById("plan-recompute");
  button.disabled = true;
  recomputing = true;
  try {
    const { value } = await call(
      "PATCH",
      address("steps"),
      { skip: changedBundles(false), take: changedBundles(true) },
      match(),
    );
    sessionStorage.removeItem(BOXES);
    sessionStorage.setItem(NOTES, JSON.stringify(value.notes));
    location.reload();
  } catch (error) {
    recomputing = false;
    if (!(error instanceof ApiError)) throw error;
    showRefusal(error, null);
    button.disabled = false;
  }
}

async function rollBack() {
  const button = document.getElementById("pr-go");
  button.disabled = true;
  try {
    const { value } = await call(
      "POST",
      address("rollback"),
      { approve: document.getElementById("pr-approve").checked },
      match(),
    );
    await openPlanOf(value.id);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    showRefusal(error, document.getElementById("pr-error"));
  } finally {
    button.disabled = false;
  }
}

for (const note of JSON.parse(sessionStorage.getItem(NOTES) ?? "[]")) toast(note, { stays: true });
sessionStorage.removeItem(NOTES);
