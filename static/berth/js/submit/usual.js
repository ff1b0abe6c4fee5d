/* The form follows the application: its usual job fills the fields without focus that were not edited by hand, and
   sensible targets are offered with their reasons. */
import { byId, element } from "../dom.js";
import { fillTarget, fillWork, form } from "./form.js";

const edited = new Set(); // names of fields edited by hand
let requests = 0; // only the answer to the last one is used

/* Call `changed` after the form was filled, and `use` with an offered target that is to be used. */
export function followApplication(application, use, changed) {
  form.addEventListener("input", ({ target }) => edited.add(target.name));
  form.application.addEventListener("change", () => follow(use, changed));
  if (application) follow(use, changed);
}

async function follow(use, changed) {
  requests += 1;
  const request = requests;
  const box = byId("usual");
  const url = `${box.dataset.url}?${new URLSearchParams({ application: form.application.value.trim() })}`;
  const response = await fetch(url, { credentials: "same-origin" });
  if (request !== requests) return;
  box.hidden = true;
  if (!response.ok) return;
  const usual = await response.json();
  if (!usual.target) return; // a new application
  const follows = (name) => !edited.has(name) && document.activeElement?.name !== name;
  fillTarget(usual.target, follows);
  fillWork(usual, follows);
  show(box, usual, use);
  changed();
}

function show(box, usual, use) {
  const lines = usual.reason ? [element("p", `Filled in: ${usual.reason}.`)] : [];
  for (const { text, target, reason } of usual.suggestions) {
    const line = element("p");
    const button = element("button", `Set target: ${text}`, "btn small", { type: "button" });
    button.addEventListener("click", () => use(target));
    line.append(button, ` ${reason}.`);
    lines.push(line);
  }
  box.replaceChildren(...lines);
  box.hidden = !lines.length;
}
