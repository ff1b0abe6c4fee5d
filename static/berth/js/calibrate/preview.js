/* What the weights would change on the running cluster: asked half a second after the last change, first answered in
   about two seconds, refined in place, stopped at any time. Nothing is written. */
import { ApiError, call } from "../api.js";
import { problemText } from "../notices.js";
import { drawMaps } from "./maps.js";
import { mayChange, model, on, tell } from "./model.js";
import { byId, debounce, drawn, duration, element, grouped, many, percent, signed, spelled, watts } from "./words.js";

const WAIT_MS = 500;
const LIMIT_S = 60;
const FIRST_MS = 250;
const REFINE_MS = 1000;
const REST = "Nothing is written.";
let turn = 0;
let open = null;
let lastWeights = "";
let answered = 0; // seconds after asking, of the answer shown
const later = debounce(begin, WAIT_MS);

export function startPreview() {
  if (!mayChange()) { say("What weights would change names jobs of every project: it needs the role operator.", null); return; }
  on("derived", changed);
  on("compared", () => { lastWeights = ""; changed(); }); // a person has one preview at a time
  byId("cal-racks").addEventListener("change", changed);
  byId("cal-preview-stop").addEventListener("click", () => stop());
  document.addEventListener("berth:theme", () => { if (model.preview?.answer) drawMaps(model.preview.answer); });
  window.addEventListener("pagehide", () => { if (open) call("DELETE", `/api/v1/previews/${open}/`).catch(() => {}); });
}

const racks = () => (byId("cal-racks").value ? [byId("cal-racks").value] : []);

function changed() {
  const wanted = model.derived ? JSON.stringify([model.derived.weights, racks()]) : "";
  if (wanted === lastWeights) return;
  lastWeights = wanted;
  turn += 1;
  later.stop();
  drop();
  if (!wanted) { empty(); return; }
  say("A change: the preview is searched anew. Nothing is written.", null);
  byId("cal-preview-body").classList.add("old");
  later();
}

function empty() {
  model.preview = null;
  byId("cal-preview-title").textContent = "On the running cluster";
  say("Once there are weights, what they would change is searched here. Nothing is written.", null);
  byId("cal-preview-body").replaceChildren();
}

function drop() {
  if (open) call("DELETE", `/api/v1/previews/${open}/`).catch(() => {});
  open = null;
}

function stop() {
  drop();
  turn += 1;
  say(`${model.preview?.answer ? `Stopped after ${refinement(model.preview.answer)}` : "Stopped before the first answer"}. ${REST}`, null);
}

async function begin() {
  const mine = (turn += 1);
  say(`Searching for moves that pay for themselves. ${REST}`, 0);
  try {
    const { value } = await call("POST", "/api/v1/previews/", { weights: model.derived.weights, racks: racks(), limit_seconds: LIMIT_S });
    if (mine !== turn) { call("DELETE", `/api/v1/previews/${value.id}/`).catch(() => {}); return; }
    open = value.id;
    await follow(mine, performance.now());
  } catch (error) {
    if (mine !== turn) return;
    if (!(error instanceof ApiError)) throw error;
    open = null;
    say(`${problemText(error.problem)}. ${REST}`, null);
  }
}

async function follow(mine, began) {
  let shown = 0;
  while (mine === turn) {
    const { value } = await call("GET", `/api/v1/previews/${open}/`);
    if (mine !== turn) return;
    const elapsed = (performance.now() - began) / 1000;
    if (value.answer && value.answer.refined !== shown) { shown = value.answer.refined; model.preview = value; answered = elapsed; show(value.answer); }
    if (!["waiting", "searching"].includes(value.state)) { open = null; over(value); return; }
    progress(value, elapsed);
    await new Promise((resolve) => { setTimeout(resolve, value.answer ? REFINE_MS : FIRST_MS); });
  }
}

/* How good the answer is known to be. */
const refinement = (answer) => `${duration(answered)}, solver gap ${percent(answer.gap)}`;

function progress(value, elapsed) {
  if (value.answer) say(`${REST} Answer after ${refinement(value.answer)}, refining to ${LIMIT_S} s`, elapsed);
  else say(`${value.state === "waiting" ? "Waiting for a worker" : "Searching for moves that pay for themselves"}. ${REST}`, elapsed);
}

function over(value) {
  if (value.state === "failed") { say(`The preview could not be made: ${value.problem || "the search ended with an error"}. ${REST}`, null); return; }
  if (value.answer) say(`${REST} ${value.state === "done" ? "Nothing better was found" : "Stopped"} after ${refinement(value.answer)}.`, null);
  else say(`The search ended without an answer. ${REST}`, null);
}

function say(text, elapsed) {
  byId("cal-preview-sub").textContent = text;
  const bar = byId("cal-preview-progress");
  bar.hidden = elapsed === null;
  byId("cal-preview-stop").hidden = elapsed === null;
  if (elapsed === null) return;
  const share = Math.min(1, elapsed / LIMIT_S);
  bar.setAttribute("aria-valuenow", String(Math.round(share * LIMIT_S)));
  const svg = drawn("svg", { viewBox: "0 0 100 4", preserveAspectRatio: "none", "aria-hidden": "true" });
  drawn("rect", { width: 100 * share, height: 4, class: "fa" }, svg);
  bar.replaceChildren(svg);
}

/* ---- the answer ---- */

function show(answer) {
  byId("cal-preview-title").textContent = headline(answer);
  const body = byId("cal-preview-body");
  const isOpen = body.querySelector("details")?.open ?? false;
  const left = element("div");
  const wrap = element("div", "", "table-wrap");
  wrap.append(table(answer));
  left.append(wrap);
  if (answer.jobs.length) left.append(jobs(answer, isOpen));
  const right = element("div", "", "maps");
  right.id = "cal-maps";
  body.classList.remove("old");
  body.replaceChildren(left, right);
  drawMaps(answer);
  tell("preview");
}

function headline({ before, after, moves }) {
  if (!moves) return "On the running cluster: nothing would move";
  const saved = before.watts - after.watts;
  const met = after.targets_met - before.targets_met;
  const power = Math.abs(saved) < 0.5 ? "as much power" : `${watts(Math.abs(saved))} ${saved > 0 ? "less" : "more"}`;
  const jobs = met ? `, ${spelled(Math.abs(met)).toLowerCase()} ${met > 0 ? "more" : "fewer"} ${Math.abs(met) === 1 ? "job meets its target" : "jobs meet their target"}` : "";
  return `On the running cluster: ${power}${jobs}, ${many(moves, "container moves", "containers move")}`;
}

/* Measure, what that is, now, then, change, and where better lies: +1 up, −1 down. */
function rows(answer) {
  const { before, after, moves, move_seconds: seconds } = answer;
  const count = (name, what, key, good, digits = 0) => ({ name, what, now: grouped(before[key], digits), then: grouped(after[key], digits), change: signed(after[key] - before[key], digits), share: share(before[key], after[key], good) });
  const found = [
    { name: "Power", what: "of the servers", now: watts(before.watts), then: watts(after.watts), change: `${signed((after.watts - before.watts) / 1000, 1)} kW`, share: share(before.watts, after.watts, -1) },
    count("Diversity", "points of containers that no other disturbs", "diversity", 1, 1),
    { ...count("Crossing traffic", "containers away from their job", "crossing", -1), more: answer.apart?.meaning },
    { name: "Jobs meeting their target", now: grouped(before.targets_met), then: `${grouped(after.targets_met)} of ${grouped(after.targets_measured)}`, change: signed(after.targets_met - before.targets_met), share: share(before.targets_met, after.targets_met, 1) },
    count("Servers on", "", "servers_on", -1),
  ];
  const worst = worstHit(answer);
  if (worst) found.push(hit(worst));
  found.push({ name: `Cost of ${many(moves, "move")}`, now: "", then: duration(seconds), change: "standing still", share: null });
  return found;
}

const then = (job) => (job.attainment === null ? null : job.attainment * (job.ratio ?? 1));
const falls = (job) => job.attainment !== null && job.attainment >= 1 && then(job) < 1;

/* The job that ends farthest below a target it meets now; where none does, the one slowed most. */
function worstHit({ jobs: list, worst }) {
  const fallen = [...list, ...(worst ? [worst] : [])].filter(falls);
  return fallen.reduce((most, job) => (!most || then(job) < then(most) ? job : most), null) ?? worst;
}

function hit(job) {
  const [isMet, what] = job.attainment === null ? [false, "it has no target"] : falls(job) ? [false, "falls below its target"] : job.attainment >= 1 ? [true, "meets its target all the same"] : [false, "below its target already"];
  return { name: `Worst hit, ${job.name}`, href: `/jobs/${job.id}/`, what, now: attained(job.attainment), then: attained(then(job), true), change: percent(job.ratio - 1).replace("-", "−"), share: job.ratio - 1, isHarmless: isMet };
}

const share = (before, after, good) => (before ? (good * (after - before)) / Math.abs(before) : 0);
const attained = (value, isThen = false) => (value === null || value === undefined ? "–" : `${value.toFixed(2)}${isThen ? " × target" : ""}`);

function table(answer) {
  const made = element("table", "", "table tight ba");
  made.append(element("caption", "What the weights would change on the running cluster", "sr"));
  const head = element("tr");
  head.append(element("th", "Measure", "", { scope: "col" }), ...["Now", "Then", "Change"].map((name) => element("th", name, "num", { scope: "col" })));
  const axis = element("th", "worse", "axis", { scope: "col" });
  axis.append(element("span", "better"));
  head.append(axis);
  const top = element("thead");
  top.append(head);
  const body = element("tbody");
  for (const row of rows(answer)) {
    body.append(line(row));
    if (row.more) body.append(remark(row.more));
  }
  made.append(top, body);
  return made;
}

function line(row) {
  const tr = element("tr");
  const name = element("td");
  name.append(row.href ? Object.assign(element("a", row.name), { href: row.href }) : row.name);
  if (row.what) name.append(element("span", row.what, "what"));
  const axis = element("td", "", "axis");
  if (row.share !== null) axis.append(bar(row.share, row.isHarmless));
  tr.append(name, element("td", row.now, "num"), element("td", row.then, "num th"), element("td", row.change, "num"), axis);
  return tr;
}

function remark(text) {
  const tr = element("tr", "", "more");
  tr.append(element("td", text, "wrap-cell", { colspan: "5" }));
  return tr;
}

const ZERO = 26, HALF = 66; // px of the line of no change, and of the longest bar; a change by half fills it

function bar(share, isHarmless = false) {
  const svg = drawn("svg", { viewBox: "0 0 96 12", class: "swing", "aria-hidden": "true" });
  const length = Math.max(-ZERO, Math.min(HALF, share * 2 * HALF));
  drawn("rect", { x: Math.min(ZERO, ZERO + length), y: 2, width: Math.abs(length), height: 8, class: isHarmless ? "fn" : share < 0 ? "fm" : "fp" }, svg);
  drawn("path", { d: `M${ZERO} -8v28`, class: "st", opacity: 0.5 }, svg);
  return svg;
}

/* How many jobs change, and which way; of many only the most changed are known. */
function changes({ jobs: list, jobs_changed: all }) {
  const count = (gains, loses) => list.filter((job) => Boolean(job.gains) === gains && Boolean(job.loses) === loses).length;
  const both = count(true, true);
  const ways = `${many(count(true, false), "job gains", "jobs gain")}, ${many(count(false, true), "loses", "lose")}${both ? `, ${many(both, "does both", "do both")}` : ""}`;
  return all > list.length ? `${many(all, "job changes", "jobs change")}; of the ${grouped(list.length)} most changed, ${ways}` : ways;
}

/* Jobs that gain or lose: those that fall below their target first, then the most changed. */
function jobs(answer, isOpen) {
  const box = element("details");
  box.open = isOpen;
  box.append(element("summary", changes(answer)));
  const wrap = element("div", "", "table-wrap", { tabindex: "0", role: "region", "aria-label": "Jobs that gain or lose" });
  const made = element("table", "", "table tight flush");
  const head = element("tr");
  head.append(...[["Job", ""], ["Moves", "num"], ["Predicted then", "num"], ["Gains", ""], ["Loses", ""]].map(([name, cls]) => element("th", name, cls, { scope: "col" })));
  const top = element("thead");
  top.append(head);
  const body = element("tbody");
  for (const job of [...answer.jobs.filter(falls), ...answer.jobs.filter((one) => !falls(one))]) {
    const tr = element("tr");
    const name = element("td");
    name.append(Object.assign(element("a", job.name), { href: `/jobs/${job.id}/` }));
    const predicted = element("td", job.ratio === null ? "–" : `${signed(100 * (job.ratio - 1), 1)} %`, "num");
    if (falls(job)) predicted.append(element("span", `below target, ${attained(then(job), true)}`, "fallen"));
    tr.append(name, element("td", grouped(job.moves), "num"), predicted, element("td", job.gains), element("td", job.loses));
    body.append(tr);
  }
  made.append(top, body);
  wrap.append(made);
  box.append(wrap);
  return box;
}
