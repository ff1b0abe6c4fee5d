/* The table of saved preference sets. */
import { byId, element } from "../dom.js";
import { counted } from "../format.js";
import { mayChange, model } from "./model.js";
import { OBJECTIVES, RULES } from "./objectives.js";
import { setById, sets } from "./sets.js";

const COLUMNS = [
  ["Compare", "sr"],
  ["Name", ""],
  ["Weights", ""],
  ["From", "from"],
  ["Actions", "sr"],
];
const compared = new Set(); // ids

export const comparedSets = () => sets.filter((set) => compared.has(set.id));
export const pickCount = (set) => new Set(Object.values(set.picks).flat()).size;
export const parentName = (set) => setById(set.parent)?.name ?? "";

export function startSetList() {
  byId("cal-sets").addEventListener("change", ({ target }) => {
    if (target.checked) compared.add(target.value);
    else compared.delete(target.value);
  });
}

export function showSets() {
  const host = byId("cal-sets");
  if (!sets.length) {
    const row = element("tr");
    const text = "No set has been saved yet. A set stores picks, rule and weights under a name.";
    row.append(element("td", text, "t2 wrap-cell"));
    host.replaceChildren(row);
    return;
  }
  const headings = element("tr");
  for (const [name, cls] of COLUMNS) {
    const heading = element("th", "", cls === "from" ? "from" : "", { scope: "col" });
    heading.append(element("span", name, cls));
    headings.append(heading);
  }
  const [head, body] = [element("thead"), element("tbody")];
  head.append(headings);
  body.append(...sets.map(setRow));
  host.replaceChildren(element("caption", "Saved preference sets", "sr"), head, body);
}

function setRow(set) {
  const row = element("tr", "", set.id === model.draft.state.parent ? "sel" : "");
  const [check, name, weights, actions] = [element("td"), element("td"), element("td"), element("td", "", "num")];
  const box = element("input", "", "", { type: "checkbox", value: set.id, "aria-label": `Compare ${set.name}` });
  box.checked = compared.has(set.id);
  check.append(box);
  name.append(element("b", set.name));
  if (parentName(set)) name.append(element("span", ` derived from ${parentName(set)}`, "t3"));
  if (set.is_in_force) name.append(" ", element("span", "in force", "badge acc"));
  weights.append(...OBJECTIVES.flatMap((o) => [element("span", `${o} ${set.weights[o].toFixed(2)}`, "weight"), " "]));
  actions.append(actionButton("Load", set, "btn small"));
  if (mayChange() && !set.activations) actions.append(" ", actionButton("Delete", set, "btn small quiet"));
  row.append(check, name, weights, originCell(set), actions);
  return row;
}

function originCell(set) {
  const source = set.rule === "spread" ? counted(pickCount(set), "pick") : RULES[set.rule];
  const date = new Date(set.created_at).toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  const cell = element("td", set.front_name ? `${source} of ${set.front_name} v${set.version}` : source, "t2 from");
  cell.append(element("span", `${set.created_by}, ${date}`, "by"));
  return cell;
}

function actionButton(text, set, cls) {
  const names = { [`data-${text.toLowerCase()}`]: set.id, "aria-label": `${text} ${set.name}` };
  return element("button", text, cls, { type: "button", ...names });
}
