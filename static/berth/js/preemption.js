/* The dialog of a preemption: the victims with what each loses and why; then their stop. */
import { ApiError, call } from "./api.js";
import { byId, dataTable, element, scrollRegion } from "./dom.js";
import { grouped } from "./format.js";
import { problemText, toast } from "./notices.js";
import { refreshRegions } from "./regions.js";

const COLUMNS = [
  ["Job"],
  ["Project"],
  ["Priority", "num"],
  ["Units", "num"],
  ["Lost, unit-seconds", "num"],
  ["Its target"],
  ["Why it was chosen"],
];

let shown = null; // { address, agreed, key } of the preview in the dialog; agreed: the body that applies it

const counted = (number, noun) => `${grouped(number)} ${noun}${number === 1 ? "" : "s"}`;

/* Read the preview of a job and show it. */
export async function openPreemption(job) {
  const address = `/api/v1/jobs/${job}/preemption/`;
  shown = null;
  showButtons(true);
  byId("pj-go").disabled = true;
  byId("pj-go").onclick = apply;
  byId("pj-error").hidden = true;
  byId("pj-victims").replaceChildren();
  byId("pj-summary").textContent = "Choosing the jobs that lose least…";
  byId("preempt-job").showModal();
  await read(address);
}

/* Show the preview; returns false if it says that nothing can be stopped. */
async function read(address) {
  try {
    const { value } = await call("GET", address);
    show(value, address);
    return value.outcome === "possible";
  } catch (error) {
    byId("pj-summary").textContent = "";
    showError(error);
    return true;
  }
}

function show(found, address) {
  showButtons(found.outcome === "possible");
  if (found.outcome !== "possible") {
    byId("pj-summary").textContent = found.message;
    byId("pj-victims").replaceChildren();
    return;
  }
  const { cost } = found;
  const broken = cost.broken_promises ? counted(cost.broken_promises, "target") : "no target";
  const proof = found.is_best
    ? "No other choice costs less."
    : "A choice that costs less may exist: the search was cut short.";
  byId("pj-summary").textContent =
    `${counted(cost.jobs, "running job")} of ${grouped(found.candidates)} would be stopped and queued again, ` +
    `so that ${counted(found.units, "unit")} are free: ${broken} missed, ` +
    `${counted(cost.lost_unit_seconds, "unit-second")} of work lost. ${proof}`;
  if (found.overridden_limits.length)
    byId("pj-summary").textContent +=
      ` This overrides limits: ${found.overridden_limits.map(({ message }) => message).join(" ")}`;
  const table = dataTable(COLUMNS, found.victims.map(row), { cls: "table tight flush", caption: "Victims" });
  byId("pj-victims").replaceChildren(scrollRegion("Victims", table));
  const key = [...crypto.getRandomValues(new Uint8Array(16))]
    .map((byte) => byte.toString(16).padStart(2, "0"))
    .join("");
  const victims = found.victims.map(({ id, breaks_promise }) => ({ id, breaks_promise }));
  shown = { address, agreed: { basis: found.basis, victims }, key };
  byId("pj-go").textContent = `Stop ${counted(cost.jobs, "job")}`;
  byId("pj-go").disabled = false;
}

/* Without victims there is nothing to stop. */
function showButtons(isPossible) {
  byId("pj-go").hidden = !isPossible;
  byId("pj-keep").textContent = isPossible ? "Keep jobs running" : "Close";
}

function row(victim) {
  const line = element("tr");
  const name = element("td");
  name.append(element("a", victim.name, "", { href: `/jobs/${victim.id}/` }));
  const target = element("td", "", "wrap");
  if (victim.breaks_promise) target.append(element("span", "missed", "badge bad"), " ");
  target.append(victim.promise);
  const short = counted(victim.short_units, "unit");
  line.append(
    name,
    element("td", victim.project),
    element("td", String(victim.priority), "num"),
    element("td", grouped(victim.units), "num"),
    element("td", grouped(victim.lost_unit_seconds), "num"),
    target,
    element("td", `without it, ${short} ${victim.short_units === 1 ? "is" : "are"} missing`, "wrap"),
  );
  return line;
}

/* Stop the victims that are shown; the same key is sent again if the first request fails. If they have changed
   meanwhile, show the new preview; if the job needs no victims any more, the preview says so by itself. */
async function apply() {
  const { address, agreed, key } = shown;
  byId("pj-go").disabled = true;
  byId("pj-error").hidden = true;
  try {
    await call("POST", `${address}apply/`, agreed, { "Idempotency-Key": key });
    byId("preempt-job").close();
    toast("The jobs are being stopped; their units are reserved for this job.");
    await refreshRegions();
  } catch (error) {
    showError(error);
    if (error.status !== 409) byId("pj-go").disabled = false;
    else if (!(await read(address))) byId("pj-error").hidden = true;
  }
}

function showError(error) {
  if (!(error instanceof ApiError)) throw error;
  byId("pj-error").textContent = problemText(error.problem);
  byId("pj-error").hidden = false;
}
