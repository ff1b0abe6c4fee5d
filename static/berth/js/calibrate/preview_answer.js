/* The answer of a preview: measures before and after, and the jobs that change. */
import { byId, dataTable, element, scrollRegion, svgElement } from "../dom.js";
import { counted, duration, grouped, percent, signed, spelled, watts } from "../format.js";
import { drawMaps } from "./maps.js";
import { model } from "./model.js";
import { freeValue, isAll, measuresAt } from "./reach.js";

const JOB_COLUMNS = [
  ["Job", ""],
  ["Migrations", "num"],
  ["Predicted after", "num"],
  ["Gains", ""],
  ["Loses", ""],
];
const ZERO_PX = 26; // of the line of no change
const MAX_BAR_PX = 66; // a change by half

export function showAnswer(answer) {
  const state = reachedState(answer);
  byId("cal-preview-title").textContent = `Running cluster: ${effectText(state)}`;
  const body = byId("cal-preview-body");
  const isOpen = body.querySelector("details")?.open ?? false;
  const [left, wrap] = [element("div"), element("div", "", "table-wrap")];
  wrap.append(measureTable(answer, state));
  left.append(wrap);
  if (answer.jobs.length) left.append(jobDetails(answer, isOpen));
  body.classList.remove("old");
  body.replaceChildren(left, element("div", "", "maps", { id: "cal-maps" }));
  drawMaps(answer);
}

/* Measures before and after the migrations that the slider allows. */
export function reachedState(answer) {
  const { before, after, moves, move_seconds: seconds } = answer;
  if (!model.reach || isAll()) return { before, after, moves, seconds, isWhole: true };
  const { curve, index } = model.reach;
  return {
    before,
    after: { ...after, ...measuresAt(index) },
    moves: curve.moves[index],
    seconds: curve.seconds[index],
    isWhole: false,
  };
}

/* A change of power with its sign, as in the heading. */
export const powerChange = (change) => (change < 0.5 ? "" : "+") + watts(Math.round(change) || 0);

/* The effect in one line: power, targets and migrations. */
export function effectText({ before, after, moves }) {
  if (!moves) return "no migrations";
  const saved = before.watts - after.watts;
  const power = Math.abs(saved) < 0.5 ? "same power" : `${watts(Math.abs(saved))} ${saved > 0 ? "less" : "more"}`;
  return `${power}${targetsText(after.targets_met - before.targets_met)}, ${counted(moves, "migration")}`;
}

function targetsText(change) {
  if (!change) return "";
  const count = Math.abs(change);
  const verb = count === 1 ? "job meets its target" : "jobs meet their target";
  return `, ${spelled(count).toLowerCase()} ${change > 0 ? "more" : "fewer"} ${verb}`;
}

/* ---- jobs ---- */

const attainmentAfter = (job) => (job.attainment === null ? null : job.attainment * (job.ratio ?? 1));

/* Whether a job meets its target now and would miss it afterwards. */
export const missesTarget = (job) => job.attainment !== null && job.attainment >= 1 && attainmentAfter(job) < 1;

/* The job farthest below a target that it meets now; without one, the job slowed down most. */
export function worstJob({ jobs, worst }) {
  const missing = [...jobs, ...(worst ? [worst] : [])].filter(missesTarget);
  const isWorse = (job, other) => attainmentAfter(job) < attainmentAfter(other);
  return missing.reduce((lowest, job) => (!lowest || isWorse(job, lowest) ? job : lowest), null) ?? worst;
}

const attainmentText = (attainment, unit = "") => (attainment == null ? "–" : `${attainment.toFixed(2)}${unit}`);

function targetText({ attainment }, misses) {
  if (attainment === null) return "has no target";
  if (misses) return "would miss its target";
  return attainment >= 1 ? "still meets its target" : "already misses its target";
}

function worstJobMeasure(job) {
  const misses = missesTarget(job);
  return {
    name: `Most affected job: ${job.name}`,
    href: `/jobs/${job.id}/`,
    description: targetText(job, misses),
    before: attainmentText(job.attainment),
    after: attainmentText(attainmentAfter(job), " × target"),
    change: percent(job.ratio - 1).replace("-", "−"),
    improvement: job.ratio - 1,
    isHarmless: job.attainment !== null && job.attainment >= 1 && !misses,
  };
}

/* ---- measures ---- */

/* Relative change; positive is better. `direction` is 1 if higher is better, else −1. */
export const improvementOf = (before, after, direction) =>
  before ? (direction * (after - before)) / Math.abs(before) : 0;

function measures(answer, { before, after, moves, seconds, isWhole }) {
  const free = (o, text) => (model.reach && freeValue(o) !== null ? text(freeValue(o)) : "");
  const measure = (name, description, key, direction, digits = 0) => ({
    name,
    description,
    before: grouped(before[key], digits),
    after: grouped(after[key], digits),
    change: signed(after[key] - before[key], digits),
    improvement: improvementOf(before[key], after[key], direction),
  });
  const worst = isWhole ? worstJob(answer) : null;
  return [
    {
      ...measure("Power, modelled", "unused servers are off, units in use at full load", "watts", -1),
      before: watts(before.watts),
      after: watts(after.watts),
      change: powerChange(after.watts - before.watts),
      free: free("P", watts),
    },
    {
      ...measure("Diversity", "intensity of containers without a conflicting neighbour", "diversity", 1, 1),
      free: free("D", (value) => grouped(value, 1)),
    },
    {
      ...measure("Crossing traffic", "containers outside the server or rack of their job", "crossing", -1),
      free: free("C", (value) => grouped(value)),
      remark: isWhole ? answer.apart?.meaning : "",
    },
    {
      ...measure("Jobs meeting their target", "", "targets_met", 1),
      after: `${grouped(after.targets_met)} of ${grouped(after.targets_measured)}`,
    },
    measure("Servers on", "", "servers_on", -1),
    ...(worst ? [worstJobMeasure(worst)] : []),
    {
      name: `Cost of ${counted(moves, "migration")}`,
      before: "",
      after: duration(seconds),
      change: "container downtime",
      improvement: null,
    },
  ];
}

export function measureTable(answer, state) {
  const columns = [
    ["Measure", ""],
    ["Now ◇", "num"],
    ["Reachable ◆", "num"],
    ["Change", "num"],
    ["Free ★", "num free"],
    ["worse", "axis"],
  ];
  const rows = measures(answer, state).flatMap((measure) =>
    measure.remark ? [measureRow(measure), remarkRow(measure.remark)] : [measureRow(measure)],
  );
  const caption = "Effect of the weights on the running cluster";
  const table = dataTable(columns, rows, { cls: "table tight ba", caption });
  table.querySelector("th.axis").append(element("span", "better"));
  return table;
}

function measureRow({ name, href, description, before, after, change, free = "", improvement, isHarmless }) {
  const row = element("tr");
  const [label, axis] = [element("td"), element("td", "", "axis")];
  label.append(href ? element("a", name, "", { href }) : name);
  if (description) label.append(element("span", description, "what"));
  if (improvement !== null) axis.append(changeBar(improvement, isHarmless));
  row.append(
    label,
    element("td", before, "num"),
    element("td", after, "num th"),
    element("td", change, "num"),
    element("td", free, "num free"),
    axis,
  );
  return row;
}

function remarkRow(text) {
  const row = element("tr", "", "more");
  row.append(element("td", text, "wrap-cell", { colspan: "6" }));
  return row;
}

function changeBar(improvement, isHarmless = false) {
  const svg = svgElement("svg", { viewBox: "0 0 96 12", class: "swing", "aria-hidden": "true" });
  const length = Math.max(-ZERO_PX, Math.min(MAX_BAR_PX, improvement * 2 * MAX_BAR_PX));
  const cls = isHarmless ? "fn" : improvement < 0 ? "fm" : "fp";
  const x = Math.min(ZERO_PX, ZERO_PX + length);
  svgElement("rect", { x, y: 2, width: Math.abs(length), height: 8, class: cls }, svg);
  svgElement("path", { d: `M${ZERO_PX} -8v28`, class: "st", opacity: 0.5 }, svg);
  return svg;
}

/* ---- jobs that change ---- */

/* Number of jobs that gain, lose or both; only the most changed jobs are listed. */
function changesText({ jobs, jobs_changed: total }) {
  const count = (gains, loses) =>
    jobs.filter((job) => Boolean(job.gains) === gains && Boolean(job.loses) === loses).length;
  const both = count(true, true);
  const bothText = both ? `, ${counted(both, "does both", "do both")}` : "";
  const text = `${counted(count(true, false), "job gains", "jobs gain")}, ${counted(count(false, true), "loses", "lose")}${bothText}`;
  if (total <= jobs.length) return text;
  return `${counted(total, "job changes", "jobs change")}; of the ${grouped(jobs.length)} most changed, ${text}`;
}

/* Jobs that would miss their target first, then the most changed. */
function jobDetails(answer, isOpen) {
  const { jobs } = answer;
  const ordered = [...jobs.filter(missesTarget), ...jobs.filter((job) => !missesTarget(job))];
  const table = dataTable(JOB_COLUMNS, ordered.map(jobRow), { cls: "table tight flush" });
  const box = element("details");
  box.open = isOpen;
  box.append(element("summary", changesText(answer)), scrollRegion("Jobs that gain or lose", table));
  return box;
}

function jobRow(job) {
  const row = element("tr");
  const name = element("td");
  name.append(element("a", job.name, "", { href: `/jobs/${job.id}/` }));
  const predicted = element("td", job.ratio === null ? "–" : `${signed(100 * (job.ratio - 1), 1)} %`, "num");
  if (missesTarget(job)) {
    const text = `misses target, ${attainmentText(attainmentAfter(job), " × target")}`;
    predicted.append(element("span", text, "fallen"));
  }
  row.append(
    name,
    element("td", grouped(job.moves), "num"),
    predicted,
    element("td", job.gains),
    element("td", job.loses),
  );
  return row;
}
