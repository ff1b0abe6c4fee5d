/* Jobs: rows by keyboard, selection kept over refreshes, bulk cancel with a preview. */
import { ApiError, call } from "../api.js";
import { problemText, toast } from "../notices.js";
import { refreshRegions } from "../regions.js";

const CONFIRM_ABOVE = 20;
let at = -1;
let plan = null;

export function start() {
  document.addEventListener("keydown", keys);
  document.addEventListener("change", (event) => {
    if (event.target.id === "check-all") for (const box of boxes()) box.checked = event.target.checked;
    if (event.target.matches("#check-all, [name=job]")) count();
  });
  document.addEventListener("berth:patched", () => { count(); focusRow(); });
  document.addEventListener("click", (event) => {
    const act = event.target.closest("[data-act]")?.dataset.act;
    if (act === "cancel-selected") openDialog({ ids: chosen(), count: chosen().length });
    if (act === "cancel-matching") previewMatching();
    if (act === "clear-selected") { for (const box of boxes()) box.checked = false; count(); }
  });
  document.getElementById("cancel-go")?.addEventListener("click", cancel);
  document.getElementById("cancel-count")?.addEventListener("input", allow);
}

function rows() { return [...document.querySelectorAll("#jobs-table tbody tr")]; }
function boxes() { return [...document.querySelectorAll("#jobs-table [name=job]")]; }
function chosen() { return boxes().filter((box) => box.checked).map((box) => box.value); }

function keys(event) {
  if (event.target.closest("input:not([type=checkbox]), textarea, select") || document.querySelector("dialog[open]")) return;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "j" || event.key === "k") {
    const step = event.key === "j" ? 1 : -1;
    at = Math.max(0, Math.min(rows().length - 1, at + step));
    focusRow(true);
  } else if (event.key === "x" && at >= 0) {
    const box = rows()[at]?.querySelector("[name=job]");
    if (box) { box.checked = !box.checked; count(); }
  }
}

function focusRow(move = false) {
  rows().forEach((row, i) => row.classList.toggle("at", i === at));
  if (move) rows()[at]?.querySelector("a")?.focus();
}

function count() {
  const n = chosen().length;
  const bar = document.getElementById("bulk");
  if (!bar) return;
  bar.hidden = n === 0;
  document.getElementById("bulk-count").textContent = `${n} job${n === 1 ? "" : "s"} selected`;
}

async function previewMatching() {
  const response = await fetch(`/jobs/preview/?q=${encodeURIComponent(document.getElementById("job-q").value)}`);
  const found = await response.json();
  if (found.problems) { toast(found.problems.join(". "), { tone: "bad" }); return; }
  openDialog(found);
}

function openDialog(found) {
  plan = found;
  const states = found.by_state ? Object.entries(found.by_state).map(([state, n]) => `${n} ${state}`).join(", ") : "";
  const more = !found.filter && found.most && found.count > found.most ? ` This cancels the newest ${found.most} of them; repeat for the rest.` : "";
  document.getElementById("cancel-what").textContent = found.count
    ? `${found.count.toLocaleString("en-GB")} job${found.count === 1 ? "" : "s"} would be cancelled${states ? `: ${states}` : ""}. Their units are given back and the work done so far is lost.${more}`
    : "No job that matches can still be cancelled.";
  const typed = size() > CONFIRM_ABOVE;
  document.getElementById("cancel-type").hidden = !typed;
  document.getElementById("cancel-count").value = "";
  document.getElementById("cancel-error").hidden = true;
  document.getElementById("cancel").showModal();
  allow();
}

function size() { return plan.filter ? plan.count : plan.ids.length; }

function allow() {
  const typed = size() > CONFIRM_ABOVE;
  const right = !typed || document.getElementById("cancel-count").value.trim() === String(size());
  document.getElementById("cancel-go").disabled = !size() || !right;
  if (typed) document.querySelector("#cancel-type label").textContent = `Type ${size()} to confirm`;
}

/* Everything that matches goes in one request that names the number seen; a selection goes one by one. */
async function cancelPlan() {
  if (plan.filter) {
    const { value } = await call("POST", `/api/v1/jobs/cancel/?${plan.filter}`, { expect: plan.count });
    return { done: value.cancelled, failed: null };
  }
  let done = 0;
  for (const id of plan.ids) {
    try { await call("POST", `/api/v1/jobs/${id}/cancel/`); done += 1; } catch (error) {
      if (!(error instanceof ApiError)) throw error;
      if (error.status !== 409) return { done, failed: error };
    }
  }
  return { done, failed: null };
}

async function cancel() {
  document.getElementById("cancel-go").disabled = true;
  let done = 0;
  let failed = null;
  try { ({ done, failed } = await cancelPlan()); } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    failed = error;
  }
  if (failed) {
    const line = document.getElementById("cancel-error");
    line.textContent = `${done ? `${done} cancelled, then it stopped. ` : ""}${problemText(failed.problem)}`;
    line.hidden = false;
  } else {
    document.getElementById("cancel").close();
    toast(`${done} job${done === 1 ? "" : "s"} cancelled.`);
    for (const box of boxes()) box.checked = false;
    count();
  }
  await refreshRegions();
}
