/* Jobs: keyboard navigation, a selection that survives refreshes, bulk cancellation with a preview. */
import { ApiError, call } from "../api.js";
import { counted } from "../format.js";
import { problemText, toast, toastProblem } from "../notices.js";
import { refreshRegions } from "../regions.js";

const CONFIRM_ABOVE = 20;
let cursor = -1; // row under the keyboard cursor
let cancellation = null; // { ids } or { filter, count }

export function start() {
  document.addEventListener("keydown", keys);
  document.addEventListener("change", (event) => {
    if (event.target.id === "check-all") for (const box of boxes()) box.checked = event.target.checked;
    if (event.target.matches("#check-all, [name=job]")) count();
  });
  document.addEventListener("berth:patched", () => {
    count();
    focusRow();
  });
  document.addEventListener("click", (event) => {
    const act = event.target.closest("[data-act]")?.dataset.act;
    if (act === "cancel-selected") openDialog({ ids: chosen(), count: chosen().length });
    if (act === "cancel-matching") previewMatching();
    if (act === "clear-selected") {
      for (const box of boxes()) box.checked = false;
      count();
    }
  });
  document.getElementById("cancel-go")?.addEventListener("click", cancel);
  document.getElementById("cancel-count")?.addEventListener("input", allow);
}

function rows() {
  return [...document.querySelectorAll("#jobs-table tbody tr")];
}
function boxes() {
  return [...document.querySelectorAll("#jobs-table [name=job]")];
}
function chosen() {
  return boxes()
    .filter((box) => box.checked)
    .map((box) => box.value);
}

function keys(event) {
  if (event.target.closest("input:not([type=checkbox]), textarea, select") || document.querySelector("dialog[open]"))
    return;
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.key === "j" || event.key === "k") {
    const offset = event.key === "j" ? 1 : -1;
    cursor = Math.max(0, Math.min(rows().length - 1, cursor + offset));
    focusRow(true);
  } else if (event.key === "x" && cursor >= 0) {
    const box = rows()[cursor]?.querySelector("[name=job]");
    if (box) {
      box.checked = !box.checked;
      count();
    }
  }
}

function focusRow(move = false) {
  for (const [i, row] of rows().entries()) row.classList.toggle("at", i === cursor);
  if (move) rows()[cursor]?.querySelector("a")?.focus();
}

function count() {
  const n = chosen().length;
  const bar = document.getElementById("bulk");
  if (!bar) return;
  bar.hidden = n === 0;
  document.getElementById("bulk-count").textContent = `${counted(n, "job")} selected`;
}

async function previewMatching() {
  const filter = encodeURIComponent(document.getElementById("job-q").value);
  try {
    openDialog((await call("GET", `/jobs/preview/?q=${filter}`)).value);
  } catch (error) {
    if (error.problem?.problems) toast(error.problem.problems.join(". "), { tone: "bad" });
    else toastProblem(error);
  }
}

function openDialog(preview) {
  cancellation = preview;
  const states = preview.by_state
    ? Object.entries(preview.by_state)
        .map(([state, n]) => `${n} ${state}`)
        .join(", ")
    : "";
  const more =
    !preview.filter && preview.most && preview.count > preview.most
      ? ` This cancels the newest ${preview.most}; repeat it for the rest.`
      : "";
  document.getElementById("cancel-what").textContent = preview.count
    ? `${counted(preview.count, "job")} would be cancelled${states ? `: ${states}` : ""}. Their units are released and their progress is lost.${more}`
    : "No matching job can be cancelled.";
  const typed = size() > CONFIRM_ABOVE;
  document.getElementById("cancel-type").hidden = !typed;
  document.getElementById("cancel-count").value = "";
  document.getElementById("cancel-error").hidden = true;
  document.getElementById("cancel").showModal();
  allow();
}

function size() {
  return cancellation.filter ? cancellation.count : cancellation.ids.length;
}

function allow() {
  const typed = size() > CONFIRM_ABOVE;
  const right = !typed || document.getElementById("cancel-count").value.trim() === String(size());
  document.getElementById("cancel-go").disabled = !size() || !right;
  if (typed) document.querySelector("#cancel-type label").textContent = `Type ${size()} to confirm`;
}

/* Matching jobs are cancelled in one request with the number expected; selected jobs one by one. */
async function cancelJobs() {
  if (cancellation.filter) {
    const { value } = await call("POST", `/api/v1/jobs/cancel/?${cancellation.filter}`, { expect: cancellation.count });
    return { done: value.cancelled, failed: null };
  }
  let done = 0;
  for (const id of cancellation.ids) {
    try {
      await call("POST", `/api/v1/jobs/${id}/cancel/`);
      done += 1;
    } catch (error) {
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
  try {
    ({ done, failed } = await cancelJobs());
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    failed = error;
  }
  if (failed) {
    const line = document.getElementById("cancel-error");
    line.textContent = `${done ? `${counted(done, "job")} cancelled before the error. ` : ""}${problemText(failed.problem)}`;
    line.hidden = false;
    allow();
  } else {
    document.getElementById("cancel").close();
    toast(`${counted(done, "job")} cancelled.`);
    for (const box of boxes()) box.checked = false;
    count();
  }
  await refreshRegions();
}
