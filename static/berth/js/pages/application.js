/* One application: profile it anew, set values by hand (after a preview of the jobs it changes), withdraw them. */
import { ApiError, call } from "../api.js";
import { problemText, toast } from "../notices.js";
import { refreshRegions } from "../regions.js";

const base = () => `/api/v1${decodeURI(location.pathname).split("/").map(encodeURIComponent).join("/")}`;
const byId = (id) => document.getElementById(id);
const many = (count, one) => `${count.toLocaleString("en-GB")} ${one}${count === 1 ? "" : "s"}`;
let seen = "";
let withdrawn = "";

export function start() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-override], [data-withdraw], [data-cancel-run]");
    if (!button) return;
    if ("cancelRun" in button.dataset) cancelRun(button);
    else if ("withdraw" in button.dataset) askWithdraw(button); else openOverride(button.dataset);
  });
  byId("rp-go")?.addEventListener("click", reprofile);
  byId("wd-go")?.addEventListener("click", withdraw);
  byId("ov-add")?.addEventListener("click", () => addRow().querySelector("select").focus());
  byId("ov-go")?.addEventListener("click", setValues);
  byId("ov-form")?.addEventListener("input", changed);
  byId("ov-form")?.addEventListener("submit", (event) => { event.preventDefault(); preview(); });
}

function element(tag, text = "", cls = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  if (cls) made.className = cls;
  return made;
}

function complain(id, error) {
  if (!(error instanceof ApiError)) throw error;
  const line = byId(id);
  for (const one of error.problem.errors ?? []) {
    const row = byId("ov-cells")?.children[one.pointer?.match(/^\/cells\/(\d+)/)?.[1]];
    row?.querySelector("[data-part=value]").setAttribute("aria-invalid", "true");
  }
  const fields = (error.problem.errors ?? []).map((one) => one.detail).join(" ");
  line.textContent = [problemText(error.problem), fields].filter(Boolean).join(" ");
  line.hidden = false;
}

async function reprofile() {
  const button = byId("rp-go");
  button.disabled = true;
  byId("rp-error").hidden = true;
  try {
    const reason = byId("rp-reason").value.trim();
    await call("POST", `${base()}profiling-runs/`, reason ? { reason } : {});
    byId("reprofile").close();
    toast("It is being profiled; the run is listed below.");
    await refreshRegions();
  } catch (error) { complain("rp-error", error); } finally { button.disabled = false; }
}

async function cancelRun(button) {
  button.disabled = true;
  try {
    await call("POST", `/api/v1/operations/${button.dataset.cancelRun}/cancel/`, {});
    toast("The run is being cancelled.");
    await refreshRegions();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    toast(problemText(error.problem), { tone: "bad", stays: true });
  } finally { button.disabled = false; }
}

/* ---- values by hand ---- */

function openOverride({ matrix = "", column = "", value = "" }) {
  byId("ov-cells").replaceChildren();
  byId("ov-reason").value = "";
  byId("ov-error").hidden = true;
  byId("ov-preview").replaceChildren();
  addRow(matrix ? `${matrix} ${column}` : "", value);
  changed();
  byId("override").showModal();
  byId("ov-cells").querySelector("[data-part=value]").focus();
}

function addRow(cell = "") {
  const row = byId("ov-row").content.firstElementChild.cloneNode(true);
  const select = row.querySelector("[data-part=cell]");
  const input = row.querySelector("[data-part=value]");
  const n = byId("ov-cells").children.length + 1;
  select.setAttribute("aria-label", `Cell ${n}`);
  input.setAttribute("aria-label", `Value of cell ${n}`);
  if (cell) select.value = cell;
  const describe = () => {
    const { now, unit, value } = select.selectedOptions[0].dataset;
    row.querySelector("[data-part=now]").textContent = `now ${now}`;
    row.querySelector("[data-part=unit]").textContent = unit;
    input.placeholder = value;
  };
  select.addEventListener("change", () => { describe(); changed(); });
  row.querySelector("[data-part=drop]").addEventListener("click", () => {
    if (byId("ov-cells").children.length > 1) { row.remove(); changed(); }
  });
  describe();
  byId("ov-cells").append(row);
  changed();
  return row;
}

/* The cells typed, or null where one is no number; the fields say so themselves. */
function cells() {
  const found = [];
  let wrong = null;
  for (const row of byId("ov-cells").children) {
    const input = row.querySelector("[data-part=value]");
    const option = row.querySelector("[data-part=cell]").selectedOptions[0];
    const typed = Number(input.value.trim().replace(",", "."));
    const good = input.value.trim() !== "" && Number.isFinite(typed);
    input.removeAttribute("aria-invalid");
    if (!good) { input.setAttribute("aria-invalid", "true"); wrong ??= input; continue; }
    const [matrix, column] = option.value.split(" ");
    found.push({ matrix, column, value: typed * Number(option.dataset.factor) });
  }
  wrong?.focus();
  return wrong ? null : found;
}

/* What was previewed is what may be set: any change asks for a new preview. */
function changed() {
  const now = JSON.stringify([...byId("ov-cells").children].map((row) => [row.querySelector("select").value, row.querySelector("[data-part=value]").value]));
  const stale = seen !== now;
  byId("ov-go").disabled = stale;
  if (stale) byId("ov-preview").replaceChildren();
  const n = byId("ov-cells").children.length;
  byId("ov-go").textContent = n === 1 ? "Set the value" : `Set ${n} values`;
  for (const drop of byId("ov-cells").querySelectorAll("[data-part=drop]")) drop.hidden = n === 1;
  return now;
}

async function preview() {
  const wanted = cells();
  byId("ov-error").hidden = true;
  if (!wanted) return;
  const button = byId("ov-look");
  button.disabled = true;
  try {
    const { value } = await call("POST", `${base()}overrides/preview/`, { cells: wanted, reason: byId("ov-reason").value.trim() || "preview" });
    seen = "";
    seen = changed();
    byId("ov-go").disabled = false;
    draw(value);
  } catch (error) { complain("ov-error", error); } finally { button.disabled = false; }
}

const plain = (value, digits = 3) => Number(value.toPrecision(digits)).toLocaleString("en-GB", { maximumFractionDigits: 6 });
const listed = (names) => (names.length > 3 ? `${names.slice(0, 3).join(", ")} and ${names.length - 3} more` : names.join(", "));

function performanceText(estimate, unit) {
  if (!estimate) return "–";
  const { value } = estimate;
  if (unit === "instructions/s") return value >= 1e9 ? `${plain(value / 1e9)} G instr./s` : `${plain(value / 1e6)} M instr./s`;
  if (unit !== "seconds") return `${plain(value / 1e6)} MB/s`;
  if (value < 1) return `${plain(1000 * value)} ms`;
  return value < 120 ? `${plain(value)} s` : `${plain(value / 60)} min`;
}

function unitsText(count, feasible) {
  if (count === null) return feasible ? "–" : "not possible";
  return feasible ? many(count, "unit") : `${many(count, "unit")}, too few`;
}

/* A resource as the list of cells calls it. */
function sourceName(key) {
  return byId("ov-row").content.querySelector(`option[value="tolerated ${key}"]`)?.textContent.split(", ")[1] ?? key;
}

/* What becomes of one job, in words: whether it can be done, where, and whether it is quiet enough there. */
function consequences(job) {
  const said = [];
  if (job.feasible.before && !job.feasible.after) said.push(`cannot meet its target any more${job.suggestion ? `: ${job.suggestion}` : ""}`);
  if (!job.feasible.before && job.feasible.after) said.push("can meet its target");
  if (job.platforms_gained.length) said.push(`also on ${listed(job.platforms_gained)}`);
  if (job.platforms_lost.length) said.push(`no longer on ${listed(job.platforms_lost)}`);
  if (job.good_servers && job.good_servers.before !== job.good_servers.after) said.push(`${job.good_servers.after} instead of ${many(job.good_servers.before, "server")} quiet enough`);
  const noisy = job.servers.filter((one) => one.acceptable.before && !one.acceptable.after);
  const quiet = job.servers.filter((one) => !one.acceptable.before && one.acceptable.after);
  if (noisy.length) said.push(`${listed(noisy.map((one) => one.server))} too noisy for it (${sourceName(noisy[0].tightest)})`);
  if (quiet.length) said.push(`${listed(quiet.map((one) => one.server))} quiet enough after all`);
  return said.join("; ");
}

function draw(found) {
  const of = found.total === found.examined ? many(found.examined, "running or waiting job") : `${found.examined.toLocaleString("en-GB")} examined of ${many(found.total, "running or waiting job")}`;
  const title = element("h3", found.jobs.length
    ? `${many(found.jobs.length, "job")} of ${of} would be sized or placed differently`
    : found.total ? `None of ${of} would be sized or placed differently` : "No job of it runs or waits", "check-title");
  const parts = [title];
  if (found.jobs.length) parts.push(table(found.jobs));
  const cellsChanged = found.cells.length ? `${many(found.cells.length, "cell")} of the profile change${found.cells.length === 1 ? "s" : ""} with it. ` : "";
  parts.push(element("p", `${cellsChanged}Running jobs keep their units; waiting ones are sized by the new profile when their turn comes. Nothing has been written yet.`, "meta"));
  byId("ov-preview").replaceChildren(...parts);
}

const COLUMNS = [["Job", ""], ["State", ""], ["Units now", "num"], ["Then", "num"], ["Predicted now", "num"], ["Then", "num"], ["What changes", ""]];

function table(jobs) {
  const box = element("div", "", "table-wrap ov-jobs");
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", "Jobs that would change");
  const made = element("table", "", "table tight flush");
  made.append(element("caption", "Jobs that would be sized or placed differently", "sr"));
  const head = element("tr");
  for (const [name, cls] of COLUMNS) {
    const th = element("th", name, cls);
    th.scope = "col";
    head.append(th);
  }
  const top = element("thead");
  top.append(head);
  const body = element("tbody");
  for (const job of jobs) body.append(line(job));
  made.append(top, body);
  box.append(made);
  return box;
}

function line(job) {
  const tr = element("tr");
  const link = element("a", job.name);
  link.href = `/jobs/${job.id}/`;
  const name = element("td");
  name.append(link);
  const units = element("td", "", "num");
  units.append(element("b", unitsText(job.units.after, job.feasible.after)));
  const predicted = element("td", "", "num");
  predicted.append(element("b", performanceText(job.predicted.after, job.unit)));
  tr.append(
    name, element("td", job.state), element("td", unitsText(job.units.before, job.feasible.before), "num"), units,
    element("td", performanceText(job.predicted.before, job.unit), "num"), predicted, element("td", consequences(job), "t2"),
  );
  return tr;
}

async function setValues() {
  const wanted = cells();
  const reason = byId("ov-reason");
  const missing = byId("ov-reason-error");
  missing.hidden = Boolean(reason.value.trim());
  missing.textContent = "Say why: it is recorded with the change.";
  reason.removeAttribute("aria-invalid");
  if (!missing.hidden) { reason.setAttribute("aria-invalid", "true"); reason.focus(); return; }
  if (!wanted) return;
  byId("ov-go").disabled = true;
  try {
    await call("POST", `${base()}overrides/`, { cells: wanted, reason: reason.value.trim() });
    seen = "";
    byId("override").close();
    toast(`${many(wanted.length, "value")} set. The profile is drawn anew in a moment.`);
    await refreshRegions();
  } catch (error) { complain("ov-error", error); byId("ov-go").disabled = false; }
}

function askWithdraw(button) {
  withdrawn = button.dataset.withdraw;
  byId("wd-title").textContent = `Withdraw ${button.dataset.what}?`;
  byId("wd-error").hidden = true;
  byId("withdraw").showModal();
}

async function withdraw() {
  const button = byId("wd-go");
  button.disabled = true;
  try {
    await call("DELETE", `${base()}overrides/${withdrawn}/`);
    byId("withdraw").close();
    toast("Withdrawn. The profile is drawn anew in a moment.");
    await refreshRegions();
  } catch (error) { complain("wd-error", error); } finally { button.disabled = false; }
}
