/* The form follows the application: its usual job fills the fields without focus that were not edited by hand, and
   sensible targets are offered with their reasons, while the form has the work that they were computed for. */
import { byId, element } from "../dom.js";
import { fillTarget, fillWork, form, workInForm } from "./form.js";

const edited = new Set(); // names of fields edited by hand
let requests = 0; // only the answer to the last one is used
let offered = null; // the usual job whose targets are offered

/* Call `changed` after the form was filled, and `use` with an offered target that is to be used. */
export function followApplication(application, use, changed) {
  form.addEventListener("input", ({ target }) => {
    edited.add(target.name);
    showTargetsOfWork();
  });
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
  offered = null;
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
    const line = element("p", "", "target");
    const button = element("button", `Set target: ${text}`, "btn small", { type: "button" });
    button.addEventListener("click", () => use(target));
    line.append(button, ` ${reason}.`);
    lines.push(line);
  }
  box.replaceChildren(...lines);
  offered = usual;
  showTargetsOfWork();
}

/* Hide the offered targets while the form has other work; rates and latencies do not depend on it. */
function showTargetsOfWork() {
  if (!offered) return;
  const { target, input_bytes: bytes, tasks } = offered;
  const work = workInForm();
  const isOther = target.kind === "completion_time" && (work.bytes !== bytes || work.tasks !== tasks);
  const box = byId("usual");
  for (const line of box.querySelectorAll(".target")) line.hidden = isOther;
  box.hidden = !box.querySelector("p:not([hidden])");
}
