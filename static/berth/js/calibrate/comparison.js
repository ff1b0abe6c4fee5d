/* Saved sets in columns, with the solver result and the effect on the running cluster of each. */
import { call } from "../api.js";
import { byId, element, svgElement } from "../dom.js";
import { counted, percent, watts } from "../format.js";
import { showProblem, toast } from "../notices.js";
import { forgetDeleted } from "./left_out.js";
import { mayChange, publish } from "./model.js";
import { formatRaw, hasObjectives, isObjective, NAMES, OBJECTIVES, RULES } from "./objectives.js";
import { requestPreview } from "./preview.js";
import { comparedSets, parentName, pickCount } from "./set_list.js";
import { SETS_URL } from "./sets.js";

const PREVIEW_LIMIT_S = 2;
const POLL_MS = 250;

/* Show the columns, then fill in the results one by one until the dialog is closed. */
export async function compare() {
  const sets = comparedSets();
  if (sets.length < 2) {
    toast("Select two or more sets under Saved sets to compare them.");
    byId("cal-sets").scrollIntoView({ block: "center" });
    byId("cal-sets").querySelector("input")?.focus({ preventScroll: true });
    return;
  }
  const dialog = byId("cal-compare-dialog");
  const cells = showColumns(sets);
  dialog.addEventListener("close", () => publish("compared"), { once: true });
  dialog.showModal();
  const isOpen = () => dialog.open && byId("cp-table").contains(cells[0].result);
  for (const [k, set] of sets.entries()) if (isOpen()) await fillCell(cells[k].result, () => solverResult(set));
  for (const [k, set] of sets.entries()) if (isOpen()) await fillCell(cells[k].preview, () => previewResult(set));
}

async function fillCell(cell, loadLines) {
  try {
    cell.replaceChildren(...(await loadLines()).map((line) => element("div", line)));
  } catch (error) {
    showProblem(cell, error);
  }
}

/* Fill the table. Returns the cells of the results, by set. */
function showColumns(sets) {
  const cells = sets.map(() => ({ result: element("td", "solving…", "t2"), preview: element("td", "waiting…", "t2") }));
  const row = (name, cellOf) => {
    const tr = element("tr");
    tr.append(element("th", name, "", { scope: "row" }), ...sets.map(cellOf));
    return tr;
  };
  const textRow = (name, textOf) => row(name, (set) => element("td", textOf(set)));
  const [head, body, headings] = [element("thead"), element("tbody"), element("tr")];
  headings.append(element("td"), ...sets.map((set) => element("th", set.name, "", { scope: "col" })));
  head.append(headings);
  body.append(
    row("Weights", weightsCell),
    textRow("Rule", (set) => RULES[set.rule]),
    textRow("Picks", (set) => (pickCount(set) ? counted(pickCount(set), "placement") : "none")),
    textRow("Derived from", (set) => parentName(set) || "–"),
    row("Solver result", (_, k) => cells[k].result),
    row("Running cluster", (_, k) => cells[k].preview),
    textRow("Note", (set) => set.note || "–"),
  );
  byId("cp-table").replaceChildren(head, body);
  return cells;
}

function weightsCell({ weights }) {
  const label = OBJECTIVES.map((o) => `${NAMES[o]} ${weights[o].toFixed(2)}`).join(", ");
  const svg = svgElement("svg", { viewBox: "0 0 180 64", class: "plot", role: "img", "aria-label": label });
  for (const [k, o] of OBJECTIVES.entries()) {
    svgElement("text", { x: 0, y: 14 + 21 * k }, svg, o);
    svgElement("rect", { x: 14, y: 5 + 21 * k, width: 130 * weights[o], height: 11, class: "fa" }, svg);
    svgElement("text", { x: 180, y: 14 + 21 * k, class: "end strong" }, svg, weights[o].toFixed(2));
  }
  const cell = element("td");
  cell.append(svg);
  return cell;
}

async function solverResult(set) {
  if (!set.front) return ["–"];
  if (namedIn(set).some((o) => !OBJECTIVES.includes(o))) await forgetDeleted();
  const { value } = await call("POST", `${SETS_URL}check/`, checkRequest(set));
  const lines = [...OBJECTIVES.map((o) => formatRaw(o, value.star.raw[o])), value.sentence];
  const deleted = deletedIn(set);
  return deleted.length ? [...lines, `without ${deleted.join(" and ")}, which no longer exists`] : lines;
}

/* The objectives of the plots and bounds of a set. */
const namedIn = ({ picks, bounds }) => [
  ...new Set([...Object.keys(bounds), ...Object.keys(picks).flatMap((screen) => screen.split("-"))]),
];

const deletedIn = (set) => namedIn(set).filter((o) => !isObjective(o));

/* A set whose objectives were deleted is checked without them, under the weights that it has stored. */
function checkRequest(set) {
  const { front, version, rule, picks, rejected, wanted, bounds, weights } = set;
  if (!deletedIn(set).length) return { front, version, rule, picks, rejected, wanted, bounds };
  const kept = (entries, isKept) => Object.fromEntries(Object.entries(entries).filter(([name]) => isKept(name)));
  return {
    front,
    version,
    rule: "direct",
    picks: kept(picks, hasObjectives),
    rejected,
    wanted: kept(weights, (o) => OBJECTIVES.includes(o)),
    bounds: kept(bounds, isObjective),
  };
}

async function previewResult({ weights }) {
  if (!mayChange()) return ["requires the role operator"];
  const id = await requestPreview({ weights, racks: [], limit_seconds: PREVIEW_LIMIT_S });
  while (byId("cal-compare-dialog").open) {
    const { state, answer, problem } = (await call("GET", `/api/v1/previews/${id}/`)).value;
    if (!["waiting", "searching"].includes(state)) return answer ? answerLines(answer) : [problem || "no result"];
    await new Promise((resolve) => {
      setTimeout(resolve, POLL_MS);
    });
  }
  return ["stopped"];
}

const answerLines = ({ before, after, moves, gap }) => [
  `${watts(before.watts)} to ${watts(after.watts)}`,
  `${before.targets_met} to ${after.targets_met} of ${after.targets_measured} targets met`,
  `${counted(moves, "migration")}, gap ${percent(gap)}`,
];
