/* The dialog that activates weights: what they do, and the warnings to accept. */
import { call } from "../api.js";
import { byId, dataTable, definitionList, element } from "../dom.js";
import { counted, grouped, spelled } from "../format.js";
import { showProblem } from "../notices.js";
import { model } from "./model.js";
import { weightsText } from "./objectives.js";
import { effectText, measureTable, reachedState } from "./preview_answer.js";
import { attainments, fallenList, warnings } from "./risks.js";
import { savedSet } from "./sets.js";

const LOOP_TEXTS = {
  off: "The loop is off. Plans are made on request only.",
  advise: "The loop proposes plans with these weights. Containers are migrated only after approval.",
  automatic: "The loop runs plans with these weights without approval. Containers may be migrated within a minute.",
};

/* Ask for confirmation and show the consequences. Returns the warnings that are to be accepted. */
export function showDialog(current) {
  const name = byId("cal-name").value.trim();
  const sentence = `${name} ${savedSet() ? "" : "is saved and "}applies to all future plans. Plans already running are not changed.`;
  const overridden = warnings();
  const loop = element("p", "Loading the mode of the loop…");
  byId("ac-what").replaceChildren(
    element("p", sentence),
    ...effectParts(),
    ...warningParts(overridden),
    definitionList(activationFacts(current)),
    loop,
    replayLink(),
  );
  byId("cal-activate-dialog").showModal();
  showLoop(loop);
  return overridden;
}

/* A link to the form of the Lab, filled in with these weights. */
function replayLink() {
  const weights = Object.entries(model.derived.weights).map(([name, value]) => `${name}=${Number(value.toFixed(4))}`);
  const query = new URLSearchParams({ hours: 24, weights: savedSet()?.name ?? weights.join(",") });
  const line = element("p", "", "meta");
  const link = element("a", "Replay the last 24 h with these weights", "", {
    href: `/lab/?${query}`,
    target: "_blank",
  });
  line.append(link, " in the Lab, before you activate them.");
  return line;
}

async function showLoop(loop) {
  try {
    const { value } = await call("GET", "/api/v1/placement-loop/");
    loop.textContent = LOOP_TEXTS[value.mode];
  } catch (error) {
    showProblem(loop, error);
  }
}

/* The figures of the preview on the page, and the jobs that would miss their target. */
function effectParts() {
  const answer = model.preview?.answer;
  if (!answer) return [];
  const state = reachedState(answer);
  const text = effectText(state);
  const parts = [element("h3", text.charAt(0).toUpperCase() + text.slice(1)), measureTable(answer, state)];
  if (!state.isWhole) {
    const all = { ...answer, after: answer.after };
    parts.push(element("p", `Plans continue while migrations pay. All that pay: ${effectText(all)}.`, "meta"));
  }
  const fallen = fallenList();
  if (fallen.length) parts.push(element("h3", fallenTitle()), fallenTable(fallen));
  return parts;
}

function fallenTitle() {
  const { curve, index } = model.reach;
  const measured = model.preview.answer.after.targets_measured;
  return `${counted(curve.fallen[index], "job")} of ${grouped(measured)} with a measured target would miss it`;
}

function fallenTable(jobs) {
  const rows = jobs.map((job) => {
    const row = element("tr");
    const name = element("td");
    name.append(element("a", job.name, "", { href: `/jobs/${job.id}/` }));
    const [before, after] = attainments(job).map((value) => value.toFixed(2));
    row.append(name, element("td", before, "num"), element("td", after, "num th"));
    return row;
  });
  const columns = [
    ["Job", ""],
    ["Now", "num"],
    ["Then, × target", "num"],
  ];
  return dataTable(columns, rows, { cls: "table tight", caption: "Jobs that would miss their target" });
}

/* The warnings of the page, each to be accepted before the weights are activated. */
function warningParts(overridden) {
  const showLeft = (count) => {
    byId("ac-go").disabled = count > 0;
    const left = count
      ? `${counted(count, "warning")} left to accept`
      : "All warnings accepted. The audit log keeps them.";
    byId("ac-left").textContent = overridden.length ? left : "";
  };
  const list = acceptList(overridden, showLeft);
  if (!overridden.length) return [];
  const count = overridden.length === 1 ? "one warning" : `${spelled(overridden.length).toLowerCase()} warnings`;
  return [element("h3", `You override ${count}`), list];
}

function activationFacts(current) {
  const racks = byId("cal-racks").value;
  return [
    ["Weights", weightsText(model.derived.weights)],
    ["In force now", current ? `${weightsText(current.weights)}, ${current.name}` : "none"],
    ["Scope", racks ? `${racks} only, to start with` : "the whole cluster"],
    ["Automatic revert", byId("cal-guard").checked ? "if targets met drop by 2 points for 10 min" : "never"],
  ];
}

/* ---- accepting ---- */

/* A list of the warnings with a box to accept each; `onChange` is called with the number left. */
function acceptList(listed, onChange) {
  const list = element("ol", "", "accepts");
  const boxes = listed.map(({ title, detail }, k) => {
    const item = element("li");
    const words = element("div");
    words.append(element("b", title), element("p", detail));
    const label = element("label", "", "chk");
    const box = element("input", "", "", { type: "checkbox", "aria-label": `Accept: ${title}` });
    label.append(box, "Accept");
    item.append(element("span", String(k + 1), "rank"), words, label);
    list.append(item);
    return box;
  });
  const count = () => boxes.filter((box) => !box.checked).length;
  list.addEventListener("change", () => onChange(count()));
  onChange(count());
  return list;
}
