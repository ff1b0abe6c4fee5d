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
  byId("ov-look")?.addEventListener("click", preview);
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
    input.toggleAttribute("aria-invalid", !good);
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

function units(count, feasible) { return feasible === false ? "not possible" : count === null || count === undefined ? "–" : many(count, "unit"); }

function draw(found) {
  const jobs = found.jobs ?? [];
  const examined = many(found.examined ?? jobs.length, "running and queued job");
  const title = element("h3", jobs.length
    ? `${many(jobs.length, "job")} of ${examined} would be sized or placed differently`
    : `None of ${examined} would be sized or placed differently`, "check-title");
  const parts = [title];
  if (jobs.length) parts.push(table(jobs));
  parts.push(element("p", "Running jobs keep their units; queued ones are sized by the new profile when their turn comes.", "meta"));
  byId("ov-preview").replaceChildren(...parts);
}

function table(jobs) {
  const box = element("div", "", "table-wrap ov-jobs");
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", "Jobs that would change");
  const made = element("table", "", "table tight flush");
  made.append(element("caption", "Jobs that would be sized or placed differently", "sr"));
  const head = element("tr");
  for (const [name, cls] of [["Job", ""], ["State", ""], ["Now", "num"], ["Then", "num"]]) {
    const th = element("th", name, cls);
    th.scope = "col";
    head.append(th);
  }
  const top = element("thead");
  top.append(head);
  const body = element("tbody");
  for (const job of jobs) {
    const tr = element("tr");
    const link = element("a", job.name);
    link.href = `/jobs/${job.id}/`;
    const name = element("td");
    name.append(link);
    const then = element("td", "", "num");
    then.append(element("b", units(job.units_after, job.feasible_after)));
    tr.append(name, element("td", job.state), element("td", units(job.units_before, job.feasible_before), "num"), then);
    body.append(tr);
  }
  made.append(top, body);
  box.append(made);
  return box;
}

async function setValues() {
  const wanted = cells();
  const reason = byId("ov-reason");
  const missing = byId("ov-reason-error");
  missing.hidden = Boolean(reason.value.trim());
  missing.textContent = "Say why: it is recorded with the change.";
  reason.toggleAttribute("aria-invalid", !missing.hidden);
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
