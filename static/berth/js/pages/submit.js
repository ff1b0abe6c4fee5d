/* Submit: a form and its JSON side by side, a check on the server, and the submission with its idempotency key. */
import { ApiError, call } from "../api.js";
import { startCharts } from "../charts.js";
import { byId, element } from "../dom.js";
import { clearProblems, problemLine, showProblems } from "../fields.js";
import { toast } from "../notices.js";
import {
  fillDocument,
  fillTarget,
  form,
  formDocument,
  showFieldsOfKind,
  usualTargetKind,
  withTarget,
} from "../submit/form.js";
import { cliProgram, curlProgram, pythonProgram, submissionPath } from "../submit/programs.js";
import { banner, resultSections } from "../submit/result.js";
import { followApplication } from "../submit/usual.js";

const jsonField = byId("raw");
const result = byId("p-check");
const note = byId("submit-note");
const idempotencyKey = () => byId("key").textContent;
let isKindChosen = false; // by hand
let editedJson = null; // if the JSON was edited after the form
let edits = 0; // of the job

export function start() {
  const application = new URLSearchParams(location.search).get("application");
  if (application) {
    form.application.value = application;
    suggestKind();
  }
  if (form.dataset.again) {
    fillDocument(JSON.parse(form.dataset.again));
    showProfile(...knownApplication());
  }
  form.kind.addEventListener("change", () => {
    isKindChosen = true;
  });
  form.application.addEventListener("change", suggestKind);
  followApplication(application ?? "", useTarget, () => {
    showFieldsOfKind();
    if (editedJson === null) showForm();
    markResultAsOld();
  });
  form.addEventListener("input", (event) => {
    if (event.target !== jsonField) showForm();
    markResultAsOld();
  });
  form.addEventListener("change", () => {
    showFieldsOfKind();
    if (!editedJson) showForm();
  });
  jsonField.addEventListener("input", () => {
    editedJson = jsonField.value;
    showPrograms();
  });
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    check();
  });
  byId("submit-btn").addEventListener("click", submit);
  startTabs();
  showFieldsOfKind();
  showForm();
}

/* Say which profile the application has, or that it is profiled first. */
function showProfile(name, option) {
  const hint = byId("h-application");
  hint.textContent = "A new application is profiled first, in a few short runs.";
  if (!name || !option) return;
  const link = element("a", name, "", { href: `/applications/${name.split("/").map(encodeURIComponent).join("/")}/` });
  if (option.dataset.profile) hint.replaceChildren("Known: ", link, `, profile no. ${option.dataset.profile}.`);
  else hint.replaceChildren(link, " has no profile yet. It is profiled first, in a few short runs.");
}

/* The application in the form, and its entry in the list of known ones if it has one. */
function knownApplication() {
  const name = form.application.value.trim();
  return [name, [...byId("known").options].find(({ value }) => value === name)];
}

/* Select the usual kind of target of a known application, unless a kind was chosen by hand. */
function suggestKind() {
  const [name, option] = knownApplication();
  showProfile(name, option);
  const kind = usualTargetKind(option?.dataset.kind);
  if (isKindChosen || !kind || form.kind.value === kind) return;
  form.kind.value = kind;
  showFieldsOfKind();
  showForm();
}

/* The document to be sent; throws a SyntaxError if the JSON was edited and is invalid. */
const jobDocument = () => (editedJson === null ? formDocument() : JSON.parse(editedJson));

function showForm() {
  editedJson = null;
  jsonField.value = JSON.stringify(formDocument(), null, 2);
  showPrograms();
}

function showPrograms() {
  let body;
  try {
    body = jobDocument();
  } catch {
    return;
  }
  const options = { host: form.dataset.host, key: idempotencyKey() };
  byId("code-curl").textContent = curlProgram(body, options);
  byId("code-cli").textContent = cliProgram(body, options);
  byId("code-python").textContent = pythonProgram(body, options);
}

/* The document, or null with a banner if its JSON is invalid. */
function validDocument() {
  clearProblems(form);
  try {
    return jobDocument();
  } catch (error) {
    showTab("t-check");
    showResult([banner("bad", "The JSON is invalid", [error.message])]);
    return null;
  }
}

async function check() {
  showTab("t-check");
  const body = validDocument();
  if (!body) return;
  const editsBefore = edits;
  showChecking(true);
  try {
    const { value } = await call("POST", "/api/v1/checks/", body);
    const useAndCheck = (target) => {
      useTarget(target);
      check();
    };
    const { array, ...job } = body;
    showResult(resultSections(value, job, useAndCheck));
    note.textContent = `Checked: ${value.summary}`;
    startCharts();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    note.textContent = "Not checked.";
    showRefusal(error);
  } finally {
    showChecking(false);
  }
  if (edits > editsBefore) markResultAsOld();
}

/* A check of a full cluster takes seconds. */
function showChecking(isChecking) {
  byId("check-btn").disabled = isChecking;
  result.setAttribute("aria-busy", String(isChecking));
  if (!isChecking) return;
  const box = element("div", "", "empty");
  box.append(element("h3", "Checking…"), element("p", "Predicts placement, start and performance."));
  note.textContent = "Checking…";
  showResult([box]);
}

/* Put a suggested target into the job: into the JSON if that was edited after the form. */
function useTarget(target) {
  markResultAsOld();
  if (editedJson === null) {
    fillTarget(target);
    showFieldsOfKind();
    showForm();
    return;
  }
  const body = validDocument();
  if (!body) return;
  editedJson = JSON.stringify(withTarget(body, target), null, 2);
  jsonField.value = editedJson;
  showPrograms();
}

/* Show the problems at their fields, and all of them in the result. */
function showRefusal({ problem }) {
  const errors = problem.errors ?? [];
  const lines = errors.map((error) => problemLine(form, error));
  if (!lines.length && problem.detail) lines.push(problem.detail);
  const title = errors.length ? "Correct these fields" : (problem.title ?? "Refused");
  showResult([banner("bad", title, lines, problem.request_id)]);
  showProblems(form, errors);
}

/* Show a result where the user sees it. */
function showResult(nodes) {
  result.replaceChildren(...nodes);
  result.scrollIntoView({ block: "nearest" });
}

/* Say that the result belongs to an earlier version of the job. */
function markResultAsOld() {
  edits += 1;
  if (!result.firstElementChild || result.querySelector(".empty, .outdated")) return;
  note.textContent = "";
  result.prepend(element("p", "The job was edited after this result. Check it again.", "meta outdated"));
}

async function submit() {
  const body = validDocument();
  if (!body) return;
  const button = byId("submit-btn");
  button.disabled = true;
  note.textContent = "Submitting…";
  try {
    const key = { "Idempotency-Key": idempotencyKey() };
    const { value, headers } = await call("POST", submissionPath(body), body, key);
    openSubmitted(body, value, headers.get("Idempotency-Replayed") === "true");
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    showTab("t-check");
    note.textContent = "Not submitted.";
    showRefusal(error);
  } finally {
    button.disabled = false;
  }
}

/* Open the job, or the members of the array; a replayed answer is announced instead. */
function openSubmitted({ array }, { metadata, ...found }, isReplayed) {
  const { id, name } = metadata ?? found;
  const noun = array ? "array" : "job";
  const url = array ? `/jobs/?q=${encodeURIComponent(`array:${id}`)}` : `/jobs/${id}/`;
  if (!isReplayed) {
    location.href = url;
    return;
  }
  note.textContent = "";
  toast(`This idempotency key was already used for ${noun} ${name}. No new ${noun} was submitted.`, {
    tone: "warn",
    link: { href: url, text: `Open ${noun}` },
    stays: true,
  });
}

/* ---- tabs ---- */

function startTabs() {
  const tabs = [...document.querySelectorAll("[role=tab]")];
  for (const tab of tabs) tab.addEventListener("click", () => showTab(tab.id));
  document.querySelector("[role=tablist]").addEventListener("keydown", (event) => {
    const direction = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!direction) return;
    const next = tabs[(tabs.indexOf(document.activeElement) + direction + tabs.length) % tabs.length];
    showTab(next.id);
    next.focus();
  });
}

function showTab(id) {
  for (const tab of document.querySelectorAll("[role=tab]")) {
    const isShown = tab.id === id;
    tab.setAttribute("aria-selected", String(isShown));
    tab.tabIndex = isShown ? 0 : -1;
    byId(tab.getAttribute("aria-controls")).hidden = !isShown;
  }
}
