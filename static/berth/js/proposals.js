/* The dialog of a proposed preemption: its victims, whether they are still right, and the decision. */
import { ApiError, call } from "./api.js";
import { byId, dataTable, element, scrollRegion } from "./dom.js";
import { grouped } from "./format.js";
import { problemText, toast } from "./notices.js";
import { refreshRegions } from "./regions.js";

const COLUMNS = [
  ["Job"],
  ["Units", "num"],
  ["Lost when proposed, unit-seconds", "num"],
  ["Its target"],
  ["Why it was chosen"],
];

let shown = null; // the proposal in the dialog

const counted = (number, noun) => `${grouped(number)} ${noun}${number === 1 ? "" : "s"}`;

/* Read a proposal and show it. */
export async function openProposal(id) {
  byId("rp-error").hidden = true;
  byId("rp-go").onclick = () => decide("apply", { override_limits: byId("rp-override").checked });
  byId("rp-dismiss").onclick = () => decide("dismiss");
  byId("rp-override").onchange = showState;
  clear();
  byId("review-proposal").showModal();
  await read(id);
}

function clear() {
  shown = null;
  byId("rp-victims").replaceChildren();
  byId("rp-summary").textContent = "";
  byId("rp-override").checked = false;
  showState();
}

async function read(id) {
  try {
    const { value } = await call("GET", `/api/v1/preemptions/${id}/`);
    show(value);
  } catch (error) {
    showError(error);
  }
}

function show(found) {
  shown = found;
  const missed = found.broken_promises ? counted(found.broken_promises, "target") : "no target";
  byId("rp-title").textContent = `Preempt running jobs for ${found.job_name}?`;
  const lost = counted(found.lost_unit_seconds, "unit-second");
  const now = found.check?.can_apply ? `, ${grouped(found.check.lost_unit_seconds)} by now` : "";
  byId("rp-summary").textContent =
    `${counted(found.victims, "running job")} would be stopped and queued again: ${missed} missed, ` +
    `${lost} of work lost${now}.`;
  const table = dataTable(COLUMNS, found.named.map(row), { cls: "table tight flush", caption: "Victims" });
  byId("rp-victims").replaceChildren(scrollRegion("Victims", table));
  byId("rp-go").textContent = `Stop ${counted(found.victims, "job")}`;
  showState();
}

function row(victim) {
  const line = element("tr");
  const name = element("td");
  name.append(
    victim.id ? element("a", victim.name, "", { href: `/jobs/${victim.id}/` }) : "a job that you may not see",
  );
  const target = element("td");
  const missed = victim.breaks_promise;
  target.append(element("span", missed ? "missed" : "not missed", `badge ${missed ? "bad" : "ok"}`));
  line.append(
    name,
    element("td", grouped(victim.units), "num"),
    element("td", grouped(victim.lost_unit_seconds), "num"),
    target,
    element("td", victim.reason, "wrap"),
  );
  return line;
}

/* What keeps the proposal from being applied, and the buttons that may be used. */
function showState() {
  const check = shown?.check;
  const limits = check?.exceeded_limits ?? [];
  byId("rp-check").hidden = !shown || Boolean(check?.can_apply);
  byId("rp-check").textContent = check
    ? (check.difference?.message ?? "")
    : `The proposal is ${shown?.state}. ${shown?.message ?? ""}`;
  byId("rp-limits").hidden = limits.length === 0;
  byId("rp-exceeded").textContent = limits.map(({ message, setting }) => `${message} (${setting})`).join(" ");
  byId("rp-go").disabled = !check?.can_apply || (limits.length > 0 && !byId("rp-override").checked);
  byId("rp-dismiss").disabled = !check;
}

/* Apply or dismiss the proposal. If it is refused, show the proposal as it is now, or its successor. */
async function decide(verb, body) {
  const { id, job_name: name } = shown;
  byId("rp-go").disabled = true;
  byId("rp-dismiss").disabled = true;
  byId("rp-error").hidden = true;
  try {
    await call("POST", `/api/v1/preemptions/${id}/${verb}/`, body);
    byId("review-proposal").close();
    const done =
      verb === "apply" ? "The jobs are being stopped; their units are reserved" : "The proposal is dismissed";
    toast(`${done} for ${name}.`);
    await refreshRegions();
  } catch (error) {
    showError(error);
    if (error.status === 0) {
      showState(); // no answer: it can be sent again
      return;
    }
    clear();
    await read(error.problem.proposal ?? id);
  }
}

function showError(error) {
  if (!(error instanceof ApiError)) throw error;
  byId("rp-error").textContent = problemText(error.problem);
  byId("rp-error").hidden = false;
}
