/* Cordon, drain, take back: what would happen is said first, more than ten servers need their number typed. */
import { ApiError, call } from "./api.js";
import { problemText, toast } from "./notices.js";

const CONFIRM_ABOVE = 10;
const WORDS = {
  cordon: { verb: "Cordon", what: "takes no new work and keeps its jobs" },
  drain: { verb: "Drain", what: "takes no new work and is empty when its jobs have ended" },
  undrain: { verb: "Take back", what: "takes new work again" },
};
let pending = null;

/* servers: [{id, name}], jobs: number of jobs on them or null when not known */
export function changeServers(action, servers, jobs, done) {
  pending = { action, servers, done };
  const { verb, what } = WORDS[action];
  const n = servers.length;
  const who = n === 1 ? servers[0].name : `${n} servers`;
  document.getElementById("sc-title").textContent = `${verb} ${who}?`;
  const held = jobs === null || action === "undrain" ? "" : ` ${jobs} job${jobs === 1 ? "" : "s"} run${jobs === 1 ? "s" : ""} there now.`;
  document.getElementById("sc-what").textContent = `${n === 1 ? "It" : "Each of them"} ${what}.${held} This can be undone at any time.`;
  document.getElementById("sc-type").hidden = n <= CONFIRM_ABOVE;
  document.getElementById("sc-count").value = "";
  document.getElementById("sc-error").hidden = true;
  const go = document.getElementById("sc-go");
  go.textContent = verb;
  go.onclick = run;
  document.getElementById("sc-count").oninput = allow;
  document.getElementById("server-change").showModal();
  allow();
}

function allow() {
  const n = pending.servers.length;
  document.getElementById("sc-go").disabled = n > CONFIRM_ABOVE && document.getElementById("sc-count").value.trim() !== String(n);
}

async function run() {
  const { action, servers, done } = pending;
  let changed = 0;
  document.getElementById("sc-go").disabled = true;
  try {
    for (const server of servers) { await call("POST", `/api/v1/servers/${server.id}/${action}/`, {}); changed += 1; }
    document.getElementById("server-change").close();
    toast(`${changed} server${changed === 1 ? "" : "s"} changed.`);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const line = document.getElementById("sc-error");
    line.textContent = `${changed ? `${changed} changed, then it stopped. ` : ""}${problemText(error.problem)}`;
    line.hidden = false;
  }
  await done();
}
