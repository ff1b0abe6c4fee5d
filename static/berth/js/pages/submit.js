/* Submit: a form and its JSON side by side, a server-side check, then the submission with its key. */
import { ApiError, call } from "../api.js";
import { clearProblems, showProblems } from "../fields.js";
import { startCharts } from "../charts.js";
import { icon, toast } from "../notices.js";

const form = document.getElementById("submit-form");
const raw = document.getElementById("raw");
const result = document.getElementById("p-check");
const note = document.getElementById("submit-note");
const keyHost = document.getElementById("key");
let chosen = false; // the kind of target, by hand
let typed = null; // the JSON when it was edited by hand after the form

export function start() {
  const wanted = new URLSearchParams(location.search).get("application");
  if (wanted) { form.application.value = wanted; suggestKind(); }
  form.kind.addEventListener("change", () => { chosen = true; });
  form.application.addEventListener("change", suggestKind);
  form.addEventListener("input", (event) => { if (event.target !== raw) { typed = null; fill(); } });
  form.addEventListener("change", () => { kinds(); if (!typed) fill(); });
  raw.addEventListener("input", () => { typed = raw.value; programs(); });
  form.addEventListener("submit", (event) => { event.preventDefault(); check(); });
  document.getElementById("submit-btn").addEventListener("click", submit);
  tabs();
  kinds();
  fill();
}

/* Whether the application is known: by which profile, or that it is measured first. */
function sayKnown(name, option) {
  const hint = document.getElementById("h-application");
  hint.textContent = "An unknown application is profiled first, a few short runs.";
  if (!name || !option) return;
  const link = element("a", name);
  link.href = `/applications/${name.split("/").map(encodeURIComponent).join("/")}/`;
  if (option.dataset.profile) hint.replaceChildren("Known: ", link, `, profile no. ${option.dataset.profile}.`);
  else hint.replaceChildren(link, " has no profile yet; it is profiled first, a few short runs.");
}

/* A known application brings the kind of target it is usually given, until a person chose one. */
function suggestKind() {
  const name = form.application.value.trim();
  const known = [...document.getElementById("known").options].find((option) => option.value === name);
  sayKnown(name, known);
  const kind = { latency_critical: "throughput_latency", single_node: "ips", analytics: "completion_time" }[known?.dataset.kind];
  if (chosen || !kind || form.kind.value === kind) return;
  form.kind.value = kind;
  kinds();
  fill();
}

function kinds() {
  for (const field of form.querySelectorAll("[data-kind]")) field.hidden = !field.dataset.kind.split(" ").includes(form.kind.value);
}

function number(name, scale = 1) {
  const text = form[name].value.trim();
  if (!text) return undefined;
  const value = Number(text);
  return Number.isNaN(value) ? text : value * scale;
}

function target() {
  const kind = form.kind.value;
  if (kind === "completion_time") return { kind, seconds: number("seconds") };
  if (kind === "throughput_latency") return { kind, qps: number("qps"), latency_seconds: number("latency_ms", 0.001), percentile: number("percentile") };
  if (kind === "ips") return { kind, ips: number("ips") };
  return { kind };
}

function pick(object) { return Object.fromEntries(Object.entries(object).filter(([, value]) => value !== undefined && value !== "")); }

function document_() {
  if (typed !== null) return JSON.parse(typed);
  const labels = Object.fromEntries(form.labels.value.split(/\s+/).filter(Boolean).map((part) => part.split("=", 2)).map(([k, v]) => [k, v ?? ""]));
  const platforms = [...form.platforms.selectedOptions].map((option) => option.value);
  const constraints = pick({ platforms: platforms.length ? platforms : undefined, locality: form.locality.value, spread: form.spread.value });
  const runs = ["throughput_latency", "ips"].includes(form.kind.value);
  const input = number("input_gb", 1e9);
  return {
    metadata: pick({ name: form.elements.name.value.trim(), project: form.project.value, labels: Object.keys(labels).length ? labels : undefined }),
    spec: pick({
      application: form.application.value.trim(),
      target: pick(target()),
      input_bytes: form.kind.value === "throughput_latency" ? undefined : typeof input === "number" ? Math.round(input) : input,
      tasks: ["completion_time", "best_effort"].includes(form.kind.value) ? number("tasks") : undefined,
      duration_seconds: runs ? number("duration_seconds") : undefined,
      units: number("units"),
      priority: number("priority") || undefined,
      gang: form.gang.checked,
      held: form.held.checked || undefined,
      constraints: Object.keys(constraints).length ? constraints : undefined,
    }),
  };
}

function fill() {
  raw.value = JSON.stringify(document_(), null, 2);
  programs();
}

function quoted(text) { return `'${text.replaceAll("'", "'\\''")}'`; }

function programs() {
  let body;
  try { body = document_(); } catch { return; }
  const { host } = form.dataset;
  const key = keyHost.textContent;
  const json = JSON.stringify(body);
  document.getElementById("code-curl").textContent = `curl -X POST ${host}/api/v1/jobs/ \\\n  -H "Authorization: Bearer $BERTH_TOKEN" \\\n  -H "Content-Type: application/json" \\\n  -H "Idempotency-Key: ${key}" \\\n  -d ${quoted(json)}`;
  document.getElementById("code-cli").textContent = `cat > job.json <<'EOF'\n${JSON.stringify(body, null, 2)}\nEOF\nberth submit -f job.json --key ${key}`;
  document.getElementById("code-python").textContent = `import os\n\nimport httpx\n\njob = ${JSON.stringify(body, null, 4).replaceAll("true", "True").replaceAll("false", "False").replaceAll("null", "None")}\nresponse = httpx.post(\n    "${host}/api/v1/jobs/",\n    json=job,\n    headers={\n        "Authorization": f"Bearer {os.environ['BERTH_TOKEN']}",\n        "Idempotency-Key": "${key}",\n    },\n)\nresponse.raise_for_status()\nprint(response.json()["metadata"]["id"])`;
}

function element(tag, text = "", cls = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  if (cls) made.className = cls;
  return made;
}

function banner(tone, title, lines, id = "") {
  const box = element("div", "", `banner ${tone}`);
  box.setAttribute("role", "alert");
  const words = element("div");
  words.append(element("b", title), ...lines.map((line) => element("p", line)));
  if (id) { const p = element("p", "Request "); p.append(element("code", id)); words.append(p); }
  box.append(icon(tone === "bad" ? "trib" : "tri", ""), words);
  return box;
}

async function check() {
  clearProblems(form);
  select("t-check");
  let body;
  try { body = document_(); } catch (error) { result.replaceChildren(banner("bad", "The JSON cannot be read", [error.message])); return; }
  result.setAttribute("aria-busy", "true");
  try {
    const { value } = await call("POST", "/api/v1/checks/", body);
    draw(value);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    refuse(error);
  } finally { result.removeAttribute("aria-busy"); }
}

function refuse(error) {
  const rest = showProblems(form, error.problem.errors);
  const lines = rest.map((one) => `${one.pointer}: ${one.detail}`);
  if (error.problem.detail && !lines.length) lines.push(error.problem.detail);
  result.replaceChildren(banner("bad", error.problem.title ?? "Refused", lines, error.problem.request_id));
}

function pairs(rows) {
  const dl = element("dl", "", "kv check-facts");
  for (const [name, value] of rows) if (value) dl.append(element("dt", name), element("dd", value));
  return dl;
}

const plain = (value, digits = 3) => Number(value.toPrecision(digits)).toLocaleString("en-GB", { maximumFractionDigits: 6 });
const many = (count, one) => `${count.toLocaleString("en-GB")} ${one}${count === 1 ? "" : "s"}`;

/* A performance in the unit of the kind of target. */
function performanceText(kind, value) {
  if (kind === "ips") return value >= 1e9 ? `${plain(value / 1e9)} G instr./s` : `${plain(value)} instr./s`;
  if (kind === "best_effort") return `${plain(3600 * value)} of the work per hour`;
  if (value < 1) return `${plain(1000 * value)} ms`;
  return value < 120 ? `${plain(value)} s` : `${plain(value / 60)} min`;
}

function predictedText(found, kind) {
  if (!found.predicted) return "";
  const { value, low, high } = found.predicted;
  const interval = low === null || high === null ? "" : ` [${performanceText(kind, low)}, ${performanceText(kind, high)}]`;
  return performanceText(kind, value) + interval;
}

function draw(found) {
  const sent = document_();
  const { kind } = (sent.spec ?? sent).target;
  const parts = [];
  if (found.outcome === "placed") parts.push(element("h2", found.summary, "check-title"));
  else parts.push(banner(found.outcome === "infeasible" ? "bad" : "warn", found.summary, [found.next_action]));
  if (!found.known) parts.push(element("p", "The estimate would be from n = 0 profile entries, so there is none yet.", "meta check-facts"));
  if (found.suggestions.length) parts.push(element("h3", "Nearest feasible target", "check-title"), chips(found.suggestions));
  const chance = found.probability_met === null ? "" : `${plain(100 * found.probability_met)} %`;
  parts.push(pairs([
    ["Units", found.units === null ? "" : many(found.units, "unit")],
    ["Platforms", found.platforms.join(", ")],
    ["Servers", found.servers.slice(0, 6).join(", ") + (found.servers.length > 6 ? ` and ${found.servers.length - 6} more` : "")],
    ["Predicted", predictedText(found, kind)],
    ["Chance to meet the target", chance],
    ["Examined", found.units_eligible ? `${many(found.units_examined, "unit")} of ${found.units_eligible.toLocaleString("en-GB")} eligible` : ""],
    ["Guarantee", found.guarantee ? `${plain(100 * found.guarantee.probability)} % chance that the best is outside the top ${plain(100 * (1 - found.guarantee.rank_threshold))} %, if sampling is uniform` : ""],
    ["Snapshot", found.snapshot ? found.snapshot.toLocaleString("en-GB") : ""],
  ]));
  if (found.feasibility) parts.push(curve(sent));
  if (found.candidates.length) parts.push(element("h3", "Candidates", "check-title"), candidates(found.candidates));
  const taken = Object.entries(found.dropped);
  if (taken.length) parts.push(element("h3", "What the filters took out", "check-title"), pairs(taken.map(([name, n]) => [TAKEN_OUT[name] ?? name.replaceAll("_", " "), many(n, "unit")])));
  parts.push(element("p", "Nothing was written. A sample is drawn anew when the job is placed.", "meta"));
  result.replaceChildren(...parts);
  startCharts();
}

const TAKEN_OUT = {
  busy: "allocated to other jobs", closed: "on servers that take no new work", platform: "on other platforms", label: "without the labels asked for",
  labels: "without the labels asked for", capacity: "without enough memory, network or storage", locality: "too far from the others",
  spread: "too near to the others", noisy: "too contended",
};

/* What any size would achieve: the figure asks for the same job. */
function curve(sent) {
  const made = document.getElementById("feasibility").content.firstElementChild.cloneNode(true);
  made.dataset.figure = `${made.dataset.figure}?${new URLSearchParams({ spec: JSON.stringify(sent) })}`;
  made.classList.add("feasibility");
  return made;
}

function chips(suggestions) {
  const box = element("div", "", "chips");
  for (const suggestion of suggestions) {
    const chip = element("button", `Use ${suggestion.text}`, "btn small");
    chip.type = "button";
    chip.addEventListener("click", () => use(suggestion.target));
    box.append(chip);
  }
  return box;
}

/* Units of one server that came out the same are one row. */
function grouped(rows) {
  const found = [];
  for (const row of rows) {
    const last = found.at(-1);
    if (last && last.server === row.server && last.verdict === row.verdict && last.closeness === row.closeness) last.alike += 1;
    else found.push({ ...row, alike: 1 });
  }
  return found;
}

const VERDICTS = { chosen: "would be chosen", outranked: "better than needed", too_noisy: "too contended", no_room: "no room beside the others" };

function candidates(rows) {
  const box = element("div", "", "table-wrap");
  box.tabIndex = 0;
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", "Candidates");
  const made = element("table", "", "table tight flush");
  const head = element("tr");
  for (const [name, cls] of [["Server", ""], ["Units", "num"], ["Quality", "num"], ["Needs", "num"], ["Match", "num"], ["Verdict", ""]]) {
    const th = element("th", name, cls);
    th.scope = "col";
    head.append(th);
  }
  const top = element("thead");
  top.append(head);
  const body = element("tbody");
  for (const row of grouped(rows)) {
    const tr = element("tr", "", row.verdict === "chosen" ? "sel" : "");
    tr.append(element("td", row.server, "mono"));
    tr.children[0].title = row.alike > 1 ? `${row.alike} units alike` : "";
    tr.append(element("td", String(row.alike), "num"));
    for (const value of [row.quality, row.target, row.closeness]) tr.append(element("td", value === null ? "–" : value.toFixed(3), "num"));
    tr.append(element("td", VERDICTS[row.verdict] ?? row.verdict));
    body.append(tr);
  }
  made.append(element("caption", "Candidates, best first", "sr"), top, body);
  box.append(made);
  return box;
}

function use(wanted) {
  const fields = { seconds: ["seconds", 1], qps: ["qps", 1], latency_seconds: ["latency_ms", 1000], percentile: ["percentile", 1], ips: ["ips", 1] };
  for (const [name, value] of Object.entries(wanted)) if (fields[name]) form[fields[name][0]].value = String(value * fields[name][1]);
  typed = null;
  fill();
  check();
}

async function submit() {
  clearProblems(form);
  const button = document.getElementById("submit-btn");
  let body;
  try { body = document_(); } catch (error) { select("t-check"); result.replaceChildren(banner("bad", "The JSON cannot be read", [error.message])); return; }
  button.disabled = true;
  note.textContent = "Submitting…";
  try {
    const { value, headers } = await call("POST", "/api/v1/jobs/", body, { "Idempotency-Key": keyHost.textContent });
    const url = `/jobs/${value.metadata.id}/`;
    if (headers.get("Idempotency-Replayed") === "true") {
      note.textContent = "";
      toast(`This key was used before: it is the job ${value.metadata.name}. Nothing new was submitted.`, { tone: "warn", link: { href: url, text: "Open it" }, stays: true });
    } else location.href = url;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    select("t-check");
    refuse(error);
    note.textContent = "Not submitted.";
  } finally { button.disabled = false; }
}

function tabs() {
  const list = [...document.querySelectorAll("[role=tab]")];
  for (const tab of list) tab.addEventListener("click", () => select(tab.id));
  document.querySelector("[role=tablist]").addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step) return;
    const next = list[(list.indexOf(document.activeElement) + step + list.length) % list.length];
    select(next.id);
    next.focus();
  });
}

function select(id) {
  for (const tab of document.querySelectorAll("[role=tab]")) {
    const on = tab.id === id;
    tab.setAttribute("aria-selected", String(on));
    tab.tabIndex = on ? 0 : -1;
    document.getElementById(tab.getAttribute("aria-controls")).hidden = !on;
  }
}
