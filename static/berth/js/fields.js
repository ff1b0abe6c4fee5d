/* Problems of a form, said at the fields they are about. A field names its JSON Pointer in data-pointer. */

export function clearProblems(form) {
  for (const input of form.querySelectorAll("[aria-invalid=true]")) {
    input.removeAttribute("aria-invalid");
    input.removeAttribute("aria-describedby");
    document.getElementById(`${input.id}-error`)?.remove();
  }
}

/* Marks the fields, opens what hides them and goes to the first; returns the problems that have no field. */
export function showProblems(form, errors) {
  const rest = [];
  for (const error of errors ?? []) {
    const input = [...form.querySelectorAll("[data-pointer]")].find((field) => error.pointer === field.dataset.pointer || error.pointer.startsWith(`${field.dataset.pointer}/`));
    if (!input) { rest.push(error); continue; }
    input.closest("details")?.setAttribute("open", "");
    input.setAttribute("aria-invalid", "true");
    const line = document.createElement("span");
    line.className = "error";
    line.id = `${input.id}-error`;
    line.textContent = error.suggestion === undefined ? error.detail : `${error.detail} Nearest: ${error.suggestion}.`;
    if (!document.getElementById(line.id)) input.closest(".field").append(line);
    input.setAttribute("aria-describedby", line.id);
  }
  form.querySelector("[aria-invalid=true]")?.focus();
  return rest;
}
