/* The preview of values set by hand: jobs that would be sized or placed differently. */
import { byId, dataTable, element, scrollRegion } from "../dom.js";
import { counted, grouped } from "../format.js";
import { estimateText } from "../performance.js";

const MAX_NAMES = 3;
const COLUMNS = [
  ["Job", ""],
  ["State", ""],
  ["Units now", "num"],
  ["After", "num"],
  ["Predicted now", "num"],
  ["After", "num"],
  ["Changes", ""],
];

const nameList = (names) =>
  names.length > MAX_NAMES
    ? `${names.slice(0, MAX_NAMES).join(", ")} and ${names.length - MAX_NAMES} more`
    : names.join(", ");

function unitsText(count, isFeasible) {
  if (count === null) return isFeasible ? "–" : "not feasible";
  return isFeasible ? counted(count, "unit") : `${counted(count, "unit")}, too few`;
}

/* The name of a resource in the list of cells. */
function resourceName(key) {
  const option = byId("ov-row").content.querySelector(`option[value="tolerated ${key}"]`);
  return option?.textContent.split(", ")[1] ?? key;
}

/* Changes of one job: feasibility, platforms, and servers within its tolerances. */
function changesText(job) {
  const { feasible, good_servers: suitable } = job;
  const changes = [];
  if (feasible.before && !feasible.after)
    changes.push(`can no longer meet its target${job.suggestion ? `: ${job.suggestion}` : ""}`);
  if (!feasible.before && feasible.after) changes.push("can meet its target");
  if (job.platforms_gained.length) changes.push(`also on ${nameList(job.platforms_gained)}`);
  if (job.platforms_lost.length) changes.push(`no longer on ${nameList(job.platforms_lost)}`);
  if (suitable && suitable.before !== suitable.after)
    changes.push(`${counted(suitable.after, "suitable server")} instead of ${grouped(suitable.before)}`);
  const contended = job.servers.filter(({ acceptable }) => acceptable.before && !acceptable.after);
  const acceptable = job.servers.filter((server) => !server.acceptable.before && server.acceptable.after);
  if (contended.length)
    changes.push(
      `${nameList(contended.map(({ server }) => server))} too contended (${resourceName(contended[0].tightest)})`,
    );
  if (acceptable.length) changes.push(`${nameList(acceptable.map(({ server }) => server))} acceptable`);
  return changes.join("; ");
}

function titleText({ jobs, total, examined }) {
  if (!total) return "The application has no running or waiting jobs";
  const jobsText = counted(total, "running or waiting job");
  const scope = total === examined ? jobsText : `${grouped(examined)} examined of ${jobsText}`;
  return `${jobs.length ? counted(jobs.length, "job") : "None"} of ${scope} would be sized or placed differently`;
}

/* Show the answer of the preview. */
export function showPreview(preview) {
  const { jobs, cells } = preview;
  const parts = [element("h3", titleText(preview), "check-title")];
  if (jobs.length) parts.push(jobTable(jobs));
  const derived = cells.length
    ? `${counted(cells.length, "other cell")} of the profile also ${cells.length === 1 ? "changes" : "change"}. `
    : "";
  const note = `${derived}Running jobs keep their units; waiting jobs are sized with the new profile. Nothing has been saved yet.`;
  byId("ov-preview").replaceChildren(...parts, element("p", note, "meta"));
}

function jobTable(jobs) {
  const caption = "Jobs that would be sized or placed differently";
  const table = dataTable(COLUMNS, jobs.map(jobRow), { cls: "table tight flush", caption });
  return scrollRegion("Jobs that would change", table, "table-wrap ov-jobs");
}

function jobRow(job) {
  const { units, predicted, feasible, unit } = job;
  const row = element("tr");
  const [name, unitsAfter, predictedAfter] = [element("td"), element("td", "", "num"), element("td", "", "num")];
  name.append(element("a", job.name, "", { href: `/jobs/${job.id}/` }));
  unitsAfter.append(element("b", unitsText(units.after, feasible.after)));
  predictedAfter.append(element("b", estimateText(predicted.after, unit)));
  row.append(
    name,
    element("td", job.state),
    element("td", unitsText(units.before, feasible.before), "num"),
    unitsAfter,
    element("td", estimateText(predicted.before, unit), "num"),
    predictedAfter,
    element("td", changesText(job), "t2"),
  );
  return row;
}
