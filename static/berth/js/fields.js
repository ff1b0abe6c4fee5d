/* Validation errors at the fields of a form. A field has its JSON Pointer in data-pointer. */

export function clearProblems(form) {
  for (const input of form.querySelectorAll("[aria-invalid=true]")) {
    input.removeAttribute("aria-invalid");
    input.removeAttribute("aria-describedby");
    document.getElementById(`${input.id}-error`)?.remove();
  }
}

/* Mark the fields with errors, show them and focus the first. Returns the errors without a field. */
export function showProblems(form, errors) {
  const unplaced = [];
  for (const error of errors ?? []) {
    const input = [...form.querySelectorAll("[data-pointer]")].find(
      (field) => error.pointer === field.dataset.pointer || error.pointer.startsWith(`${field.dataset.pointer}/`),
    );
    if (!input) {
      unplaced.push(error);
      continue;
    }
    input.closest("details")?.setAttribute("open", "");
    input.setAttribute("aria-invalid", "true");
    const line = document.createElement("span");
    line.className = "error";
    line.id = `${input.id}-error`;
    line.textContent =
      error.suggestion === undefined ? error.detail : `${error.detail} Nearest valid value: ${error.suggestion}.`;
    if (!document.getElementById(line.id)) input.closest(".field").append(line);
    input.setAttribute("aria-describedby", line.id);
  }
  form.querySelector("[aria-invalid=true]")?.focus();
  return unplaced;
}
