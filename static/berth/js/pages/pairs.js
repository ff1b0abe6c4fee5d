/* Measured pairs: run one, cancel one. */
import { call } from "../api.js";
import { byId } from "../dom.js";
import { problemText, toastProblem } from "../notices.js";
import { refreshRegions } from "../regions.js";

export function start() {
  const form = byId("pair-form");
  if (form) {
    form.elements.kind.addEventListener("change", () => showFields(form));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      run(form);
    });
    showFields(form);
  }
  document.addEventListener("click", ({ target }) => {
    const button = target.closest("[data-pair-cancel]");
    if (button) cancel(button);
  });
}

/* Show the fields of commands or of emulated applications. */
function showFields(form) {
  for (const field of form.querySelectorAll("[data-kind]"))
    field.hidden = field.dataset.kind !== form.elements.kind.value;
}

/* Split a command as a shell does, without expansion: quotes group, a backslash escapes. */
export function argumentsOf(text) {
  const words = text.match(/(?:\\.|"(?:\\.|[^"\\])*"|'[^']*'|[^\s"'\\])+/g) ?? [];
  return words.map((word) =>
    word.replace(
      /\\(.)|"((?:\\.|[^"\\])*)"|'([^']*)'/g,
      (_, escaped, double, single) => escaped ?? double?.replace(/\\(["\\$`])/g, "$1") ?? single,
    ),
  );
}

function sideOf({ elements }, side) {
  const units = Number(elements[`${side}-units`].value);
  if (elements.kind.value === "emulated") return { application: elements[`${side}-emulated`].value.trim(), units };
  const body = { command: argumentsOf(elements[`${side}-command`].value), units };
  const name = elements[`${side}-name`].value.trim();
  return name ? { ...body, application: name } : body;
}

function bodyOf(form) {
  const { platform, project, rounds, foreign, kind } = form.elements;
  return {
    first: sideOf(form, "first"),
    second: sideOf(form, "second"),
    platform: platform.value || null,
    project: kind.value === "commands" && project ? project.value : null,
    rounds: Number(rounds.value),
    max_foreign_percent: Number(foreign.value),
  };
}

/* Every field with its problem, else the problem as a whole. */
function explained(problem) {
  const lines = (problem.errors ?? []).map(
    ({ pointer, detail }) => `${pointer.slice(1).replaceAll("/", " ")}: ${detail}`,
  );
  return lines.length ? lines.join("; ") : problemText(problem);
}

async function run(form) {
  const error = byId("pair-error");
  const button = form.querySelector("[type=submit]");
  error.hidden = true;
  button.disabled = true;
  try {
    const { value } = await call("POST", "/api/v1/measured-pairs/", bodyOf(form));
    location.assign(`/pairs/${value.id}/`);
  } catch (problem) {
    error.textContent = problem.problem ? explained(problem.problem) : problem.message;
    error.hidden = false;
    button.disabled = false;
  }
}

async function cancel(button) {
  button.disabled = true;
  try {
    await call("POST", `/api/v1/operations/${button.dataset.pairCancel}/cancel/`);
    await refreshRegions();
  } catch (error) {
    toastProblem(error);
    button.disabled = false;
  }
}
