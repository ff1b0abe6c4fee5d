/* One decision: repeat it, decide it again with something changed, and find such changes. */
import { call } from "../api.js";
import { byId, dataTable, element, scrollRegion } from "../dom.js";
import { counted, percent, significant } from "../format.js";
import { toastProblem } from "../notices.js";

const MAX_LOSERS = 5;
const SEPARATORS = /[\s,]+/;
const WEIGHT = /^[a-z_]+=[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i;
const address = () => `/api/v1/decisions/${byId("again").dataset.decision}/`;

export function start() {
  const box = byId("again");
  if (!box) return;
  byId("again-replay").addEventListener("click", ({ currentTarget }) => show(currentTarget, replay));
  byId("again-flips").addEventListener("click", ({ currentTarget }) => show(currentTarget, flips));
  byId("again-form").addEventListener("submit", (event) => {
    event.preventDefault();
    if (!hasValidWeights()) return;
    show(event.submitter ?? byId("again-try"), () => redecide(changes()));
  });
  if ("try" in byId("again-form").dataset) show(byId("again-try"), () => redecide(changes()));
}

/* Whether each weight is a name and a number; says at the field which one is not. */
function hasValidWeights() {
  const field = byId("again-weights");
  const wrong = field.value.split(SEPARATORS).find((part) => part && !WEIGHT.test(part));
  field.setCustomValidity(wrong ? `Enter names and numbers such as "spread=0 neighbours=1", not "${wrong}".` : "");
  field.oninput = () => field.setCustomValidity("");
  return field.reportValidity();
}

/* Show what `work` returns below the buttons, in place of an earlier answer; the button is disabled meanwhile. */
async function show(button, work) {
  button.disabled = true;
  byId("again-answer").replaceChildren();
  try {
    byId("again-answer").replaceChildren(...(await work()));
  } catch (error) {
    toastProblem(error);
  } finally {
    button.disabled = false;
  }
}

async function replay() {
  const { value } = await call("POST", `${address()}replay/`, {});
  const { verdict, differences, changed, jobs, position } = value;
  if (verdict === "unavailable") return [element("p", `The decision cannot be repeated: ${value.detail}.`, "meta")];
  const together = jobs === 1 ? "Decided alone." : `Job ${position + 1} of ${jobs} decided together.`;
  const changedText = changed.map(({ field, stored, now }) => `${field} was ${text(stored)}, is ${text(now)}`);
  const note = element("p", [together, ...changedText].join(" "), "meta");
  if (verdict === "identical") return [element("h3", "Identical in every field"), note];
  const rows = differences.map(({ field, stored, now }) => row([field, text(stored), text(now)]));
  const table = dataTable([["Field"], ["Stored"], ["Now"]], rows, { cls: "table tight flush", caption: "Differences" });
  return [
    element("h3", counted(differences.length, "field differs", "fields differ")),
    scrollRegion("Differences", table),
    note,
  ];
}

/* The changes of the form, as the body of a counterfactual. */
function changes() {
  const data = new FormData(byId("again-form"));
  const parts = (name) => (data.get(name) || "").split(SEPARATORS).filter(Boolean);
  const body = {};
  if (data.get("policy")) body.policy = data.get("policy");
  if (data.get("sample_size")) body.sample_size = Number(data.get("sample_size"));
  if (parts("without").length) body.without_servers = parts("without");
  const weights = parts("weights").map((part) => part.split("="));
  if (weights.length) body.parameters = Object.fromEntries(weights.map(([name, value]) => [name, Number(value)]));
  const { target, key } = byId("again-form").dataset;
  if (data.get("target")) body.target = { ...JSON.parse(target), [key]: Number(data.get("target")) };
  return body;
}

async function redecide(body) {
  const { value } = await call("POST", `${address()}counterfactuals/`, body);
  const { before, after } = value;
  const rows = [
    row(["Policy", before.policy, after.policy]),
    row(["Placement", serversText(before), serversText(after)]),
    row(["Predicted performance", ...both(before, after, "performance")]),
    row(["After interference", ...both(before, after, "own")]),
    row(["Neighbours keep", ...both(before, after, "neighbours")]),
    row(["Jobs that lose", losersText(before), losersText(after)]),
  ];
  const columns = [["Outcome"], ["As decided"], ["With the change"]];
  const table = dataTable(columns, rows, { cls: "table tight flush", caption: "Both outcomes" });
  const note = "Performance is relative to the highest-end platform alone. Nothing has been changed.";
  return [element("h3", verdict(value)), scrollRegion("Both outcomes", table), element("p", note, "meta")];
}

/* What the change would change; `_verdict` of the command line says the same. */
function verdict({ is_same: isSame, before, after }) {
  const isPlaced = after.outcome === "placed";
  if (before.outcome !== after.outcome)
    return `The job would be ${isPlaced ? "placed instead of refused" : "refused instead of placed"}`;
  if (!isPlaced) return `The job would be refused ${isSame ? "as before" : "for another reason"}`;
  if (isSame) return "The same units would be chosen";
  const isOnSameServers = unitsByServer(before) === unitsByServer(after);
  return `Other units ${isOnSameServers ? "of the same servers " : ""}would be chosen`;
}

const unitsByServer = ({ servers }) =>
  servers
    .map(({ server, units }) => `${units} on ${server}`)
    .sort()
    .join();

async function flips() {
  const { value } = await call("GET", `${address()}flips/`);
  if (value.server === null) return [element("p", "No other server was examined.", "meta")];
  const title = element("h3", `${value.server} would have been chosen`);
  if (!value.flips.length) return [title, element("p", "No single change was found.", "meta")];
  const list = element("ul", "", "flips");
  for (const flip of value.flips) {
    const item = element("li");
    const button = element("button", "Try", "btn small", { type: "button" });
    button.addEventListener("click", () => show(button, () => redecide(flip.change)));
    item.append(element("span", flip.effect), button);
    list.append(item);
  }
  return [title, list, element("p", "Each change was verified on the cluster as it was.", "meta")];
}

const both = (before, after, name) =>
  [before, after].map(({ prediction }) => (prediction ? percent(prediction[name]) : "–"));

function serversText({ outcome, servers, reason_text: reason, detail }) {
  if (outcome !== "placed") return detail ? `${reason} ${detail.charAt(0).toUpperCase()}${detail.slice(1)}.` : reason;
  return servers.map(({ server, units, platform }) => `${units} on ${server} (${platform})`).join(", ");
}

function losersText({ losers }) {
  const named = losers.jobs.slice(0, MAX_LOSERS).map(({ name, loss }) => `${name} ${percent(loss)}`);
  const rest = losers.jobs.length - named.length;
  if (rest) named.push(`${rest} more`);
  if (losers.others) named.push(`${losers.others} of other projects, at most ${percent(losers.largest_other)}`);
  return named.join(", ") || "none";
}

function row(texts) {
  const line = element("tr");
  line.append(...texts.map((value) => element("td", value, "wrap")));
  return line;
}

const text = (value) =>
  typeof value === "number" ? significant(value, 6) : typeof value === "string" ? value : JSON.stringify(value);
