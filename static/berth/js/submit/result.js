/* The result of a check: where the job would be placed, and its predicted performance. */
import { dataTable, definitionList, element, icon, scrollRegion } from "../dom.js";
import { counted, duration, grouped } from "../format.js";
import { performanceText, significantText } from "../performance.js";

const MAX_SERVERS = 6;
const FILTERS = {
  busy: "allocated to other jobs",
  closed: "on servers closed to new jobs",
  platform: "on other platforms",
  label: "without the required labels",
  labels: "without the required labels",
  capacity: "without enough memory, network or storage",
  locality: "too far from the other units of the job",
  spread: "too close to the other units of the job",
  noisy: "too contended",
  excluded: "on excluded servers",
  reserved: "reserved for other jobs",
  quota: "free, but beyond the quota of the project",
  admission: "free, but the job waits for better ones",
};
/* Heading and field of each score, with and without a quality: of a policy that computes none, all have a score only. */
const QUALITY_SCORES = [
  ["Quality", "quality"],
  ["Needs", "target"],
  ["Match", "closeness"],
];
const PLAIN_SCORES = [["Score", "closeness"]];

export function banner(tone, title, lines, requestId = "") {
  const box = element("div", "", `banner ${tone}`, { role: "alert" });
  const text = element("div");
  text.append(element("b", title), ...lines.map((line) => element("p", line)));
  if (requestId) {
    const line = element("p", "Request ");
    line.append(element("code", requestId));
    text.append(line);
  }
  box.append(icon(tone === "bad" ? "trib" : "tri"), text);
  return box;
}

/* Sections of a check's result; `useTarget` is called with a suggested target. */
export function resultSections(check, jobDocument, useTarget) {
  const { kind } = (jobDocument.spec ?? jobDocument).target;
  const dropped = Object.entries(check.dropped);
  const heading = (text) => element("h3", text, "check-title");
  return [
    summary(check),
    ...(check.warnings?.length ? [banner("warn", "Check these fields", check.warnings)] : []),
    ...(check.known
      ? []
      : [
          element(
            "p",
            "The application has no profile entries yet (n = 0), so there is no estimate.",
            "meta check-facts",
          ),
        ]),
    ...(check.suggestions.length
      ? [heading("Nearest feasible target"), suggestionButtons(check.suggestions, useTarget)]
      : []),
    factList(facts(check, kind)),
    ...(check.feasibility ? [feasibilityChart(jobDocument, check.start)] : []),
    ...(check.candidates.length
      ? [heading(candidatesTitle(check)), candidateTable(check.candidates, isCut(check))]
      : []),
    ...(dropped.length
      ? [
          heading("Units removed by filters"),
          factList(
            dropped.map(([name, count]) => [FILTERS[name] ?? name.replaceAll("_", " "), counted(count, "unit")]),
          ),
        ]
      : []),
    element("p", "Nothing was submitted. The decision is made again when the job is placed.", "meta"),
  ];
}

function summary({ outcome, summary: text, next_action: nextAction }) {
  if (outcome === "placed") return element("h2", text, "check-title");
  return banner(outcome === "infeasible" ? "bad" : "warn", text, [nextAction]);
}

const factList = (pairs) =>
  definitionList(
    pairs.filter(([, value]) => value),
    "kv check-facts",
  );

function facts(check, kind) {
  const {
    units,
    servers,
    platforms,
    probability_met: probability,
    units_eligible: eligible,
    guarantee,
    snapshot,
  } = check;
  const more = servers.length - MAX_SERVERS;
  return [
    ["Array", check.members ? `${counted(check.members, "member")}; the result is that of one` : ""],
    ["Units", units === null ? "" : counted(units, "unit")],
    ["Platforms", platforms.join(", ")],
    ["Servers", servers.slice(0, MAX_SERVERS).join(", ") + (more > 0 ? ` and ${more} more` : "")],
    ["Starts", startText(check.start)],
    ["Predicted", predictedText(check.predicted, kind)],
    ["Probability of meeting the target", probability === null ? "" : `${significantText(100 * probability)} %`],
    ["Examined", eligible ? `${counted(check.units_examined, "unit")} of ${grouped(eligible)} eligible` : ""],
    ["Guarantee", guarantee?.statement],
    ["Snapshot", snapshot ? grouped(snapshot) : ""],
  ];
}

/* When a job that waits is predicted to start, in cluster time from now. */
function startText(start) {
  if (!start) return "";
  const { p50_seconds: p50, p90_seconds: p90 } = start;
  if (p50 === null) return "unknown: the time when units become free cannot be predicted";
  return p90 === null
    ? `in ${duration(p50)} (p50; p90 unknown)`
    : `in ${duration(p50)} to ${duration(p90)} (p50 to p90)`;
}

function predictedText(predicted, kind) {
  if (!predicted) return "";
  const { value, low, high } = predicted;
  const interval =
    low === null || high === null ? "" : ` [${performanceText(kind, low)}, ${performanceText(kind, high)}]`;
  return performanceText(kind, value) + interval;
}

/* Predicted performance by number of units, for the same job and start. */
function feasibilityChart(jobDocument, start) {
  const chart = document.getElementById("feasibility").content.firstElementChild.cloneNode(true);
  const query = new URLSearchParams({ spec: JSON.stringify(jobDocument), start: start?.p50_seconds ?? "" });
  chart.dataset.figure = `${chart.dataset.figure}?${query}`;
  chart.classList.add("feasibility");
  return chart;
}

function suggestionButtons(suggestions, useTarget) {
  const box = element("div", "", "chips");
  for (const { text, target } of suggestions) {
    const button = element("button", `Set target: ${text}`, "btn small", { type: "button" });
    button.addEventListener("click", () => useTarget(target));
    box.append(button);
  }
  return box;
}

/* Merge equal candidates on one server that follow each other. */
export function mergeEqual(candidates) {
  const rows = [];
  for (const candidate of candidates) {
    const last = rows.at(-1);
    const isEqual = last && ["server", "verdict_text", "closeness"].every((key) => last[key] === candidate[key]);
    if (isEqual) last.units += 1;
    else rows.push({ ...candidate, units: 1 });
  }
  return rows;
}

/* A check has only the first candidates: fewer than the units of a large job. */
const isCut = ({ candidates, units_examined: examined }) => examined > candidates.length;

function candidatesTitle(check) {
  return isCut(check)
    ? `The best ${check.candidates.length} of ${counted(check.units_examined, "unit")} examined`
    : "Candidates";
}

/* A table of candidates; without numbers of units if more were examined, as these would be too small. */
export function candidateTable(candidates, withoutUnits = false) {
  const scores = candidates.some(({ quality }) => quality !== null) ? QUALITY_SCORES : PLAIN_SCORES;
  const units = withoutUnits ? [] : [["Units", "num"]];
  const columns = [["Server"], ...units, ...scores.map(([heading]) => [heading, "num"]), ["Verdict"]];
  const rows = mergeEqual(candidates).map((candidate) => candidateRow(candidate, scores, withoutUnits));
  const table = dataTable(columns, rows, { cls: "table tight flush", caption: "Candidates, best first" });
  explain(table);
  return scrollRegion("Candidates", table);
}

/* Replace the headings that the glossary explains; the page has them as templates. */
function explain(table) {
  for (const heading of table.querySelectorAll("th")) {
    const term = document.getElementById(`term-${heading.textContent.toLowerCase()}`);
    if (term) heading.replaceChildren(term.content.cloneNode(true));
  }
}

function candidateRow(candidate, scores, withoutUnits) {
  const row = element("tr", "", candidate.verdict === "chosen" ? "sel" : "");
  const server = element("td", candidate.server, "mono");
  if (candidate.units > 1 && !withoutUnits) server.title = `${candidate.units} equal units`;
  const values = scores.map(([, name]) => candidate[name]);
  row.append(
    server,
    ...(withoutUnits ? [] : [element("td", String(candidate.units), "num")]),
    ...values.map((score) => element("td", score === null ? "–" : score.toFixed(3), "num")),
    element("td", candidate.verdict === "chosen" ? "would be chosen" : candidate.verdict_text),
  );
  return row;
}
