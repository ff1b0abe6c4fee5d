/* Cordon, drain or return servers to service, after a confirmation; more than ten need their number typed. */
import { ApiError, call } from "./api.js";
import { counted } from "./format.js";
import { problemText, toast } from "./notices.js";

const CONFIRM_ABOVE = 10;
const CHANGES = {
  cordon: { verb: "Cordon", effect: "takes no new jobs; running jobs continue" },
  drain: { verb: "Drain", effect: "takes no new jobs and is empty when its jobs have ended" },
  undrain: { verb: "Return to service", effect: "takes new jobs again" },
};
let pending = null;

/* Ask for confirmation. servers: [{ id, name }]; jobs: number of jobs on them, or null if unknown. */
export function changeServers(action, servers, jobs, afterwards) {
  pending = { action, servers, afterwards };
  const { verb, effect } = CHANGES[action];
  const n = servers.length;
  const target = n === 1 ? servers[0].name : `${n} servers`;
  document.getElementById("sc-title").textContent = `${verb} ${target}?`;
  const running = jobs === null || action === "undrain" ? "" : ` ${counted(jobs, "job runs", "jobs run")} there now.`;
  document.getElementById("sc-what").textContent =
    `${n === 1 ? "The server" : "Each server"} ${effect}.${running} You can undo this at any time.`;
  document.getElementById("sc-type").hidden = n <= CONFIRM_ABOVE;
  document.getElementById("sc-count").value = "";
  document.getElementById("sc-error").hidden = true;
  const go = document.getElementById("sc-go");
  go.textContent = verb;
  go.onclick = applyChange;
  document.getElementById("sc-count").oninput = updateButton;
  document.getElementById("server-change").showModal();
  updateButton();
}

function updateButton() {
  const n = pending.servers.length;
  document.getElementById("sc-go").disabled =
    n > CONFIRM_ABOVE && document.getElementById("sc-count").value.trim() !== String(n);
}

async function applyChange() {
  const { action, servers, afterwards } = pending;
  let changed = 0;
  document.getElementById("sc-go").disabled = true;
  try {
    for (const server of servers) {
      await call("POST", `/api/v1/servers/${server.id}/${action}/`, {});
      changed += 1;
    }
    document.getElementById("server-change").close();
    toast(`${counted(changed, "server")} changed.`);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const line = document.getElementById("sc-error");
    line.textContent = `${changed ? `${counted(changed, "server")} changed before the error. ` : ""}${problemText(error.problem)}`;
    line.hidden = false;
    updateButton();
  }
  await afterwards();
}
