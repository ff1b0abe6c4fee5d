/* The list of picks, and what may be done with two of them. */
import { call } from "../api.js";
import { guarded } from "./fronts.js";
import { model, on, tell } from "./model.js";
import { point } from "./screens.js";
import { FEWEST, OBJECTIVES, SCREENS, announce, byId, element, grouped, many } from "./words.js";

let paired = [];

export function startPanel() {
  byId("cal-words-open").addEventListener("click", (event) => {
    const words = byId("cal-words");
    words.hidden = !words.hidden;
    event.target.setAttribute("aria-expanded", String(!words.hidden));
  });
  byId("cal-clear").addEventListener("click", () => model.draft.clear());
  byId("cal-undo").addEventListener("click", () => model.draft.undo());
  byId("cal-redo").addEventListener("click", () => model.draft.redo());
  byId("cal-between-go").addEventListener("click", between);
  byId("cal-picks").addEventListener("change", (event) => {
    const chosen = Number(event.target.value);
    paired = event.target.checked ? [...paired, chosen] : paired.filter((other) => other !== chosen);
    offer();
  });
  document.addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.key.toLowerCase() !== "z" || event.target.closest("input:not([type=range]):not([type=checkbox]), textarea")) return;
    event.preventDefault();
    if (event.shiftKey) model.draft.redo(); else model.draft.undo();
  });
  on("draft", show);
  on("derived", spreadRow);
}

function show() {
  const { draft, points } = model;
  byId("cal-undo").disabled = !draft.past.length;
  byId("cal-redo").disabled = !draft.future.length;
  byId("cal-undo").title = draft.past.length ? `Undo ${draft.past.at(-1).what}, Ctrl-Z` : "Undo, Ctrl-Z";
  byId("cal-redo").title = draft.future.length ? `Redo ${draft.future.at(-1).what}, Ctrl-Shift-Z` : "Redo, Ctrl-Shift-Z";
  if (!points) return;
  const { picks, rejected } = draft.state;
  byId("cal-clear").disabled = !picks.length && !rejected.length;
  const counts = SCREENS.map(({ name }) => [name, draft.byScreen[name].length]);
  const isMet = counts.every(([, count]) => count >= FEWEST);
  byId("cal-count").textContent = `${counts.map(([name, count]) => `${name} ${count}`).join(", ")}${isMet ? "" : `; ${FEWEST} each`}`;
  byId("cal-count").title = `Accepted on each screen; the rule wants at least ${FEWEST} on each`;
  paired = paired.filter((one) => picks.some((pick) => pick.point === one));
  byId("cal-picks").replaceChildren(...picks.map(row));
  spreadRow();
  rejectedList();
  offer();
}

const MOST_REJECTED = 12; // named one by one

/* What is rejected, each to be taken back by a click. */
function rejectedList() {
  const { rejected } = model.draft.state;
  byId("cal-rejected").hidden = !rejected.length;
  const named = rejected.slice(0, MOST_REJECTED).map((name) => {
    const button = element("button", `${name} ×`, "btn small", { type: "button", "aria-label": `No longer reject placement ${name}`, title: `No longer reject: ${model.points.line(name)}` });
    button.addEventListener("click", () => model.draft.reject([name], model.points.name(name)));
    button.addEventListener("pointerenter", () => point(name));
    button.addEventListener("pointerleave", () => point(null));
    return button;
  });
  const more = rejected.length - named.length;
  if (more) named.push(element("span", `and ${grouped(more)} more, in the table`, "meta"));
  byId("cal-rejected-list").replaceChildren(...named);
}

function row(pick, k) {
  const { points } = model;
  const tr = element("tr");
  const values = points.values(pick.point);
  const first = element("td");
  const label = element("label", "", "pick-label", { title: `Placement ${pick.point}, ${points.line(pick.point)}` });
  const box = element("input", "", "", { type: "checkbox", value: pick.point, "aria-label": `Choose pick ${k + 1}` });
  box.checked = paired.includes(pick.point);
  label.append(box, element("span", String(k + 1), "pnum"));
  first.append(label);
  const remove = element("button", "×", "btn quiet small icon", { type: "button", "aria-label": `Remove pick ${k + 1}`, title: "Remove" });
  remove.addEventListener("click", () => model.draft.remove(pick.point, `pick ${k + 1}`));
  const last = element("td", "", "num");
  last.append(remove);
  tr.append(first, ...OBJECTIVES.map((o) => element("td", values[o].toFixed(2), "num", { title: `${values[o].toFixed(4)}` })), element("td", pick.screens.map((name) => name.replace("-", "")).join(" "), "on-col"), last);
  tr.addEventListener("pointerenter", () => point(pick.point));
  tr.addEventListener("pointerleave", () => point(null));
  return tr;
}

/* Standard deviation of each objective over the picks, as the rule takes it. */
function spreadRow() {
  byId("cal-picks").querySelector(".sdrow")?.remove();
  const { spread } = model.derived ?? {};
  if (!spread || !("P" in spread) || model.draft.state.rule !== "spread") return;
  const tr = element("tr", "", "sdrow");
  tr.append(element("td", "sd", "", { title: "Standard deviation over the picks" }), ...OBJECTIVES.map((o) => element("td", spread[o].toFixed(3), "num")), element("td"), element("td"));
  byId("cal-picks").append(tr);
}

function offer() {
  const box = byId("cal-between");
  box.hidden = paired.length !== 2;
  box.querySelector(".meta").textContent = "";
}

/* Show what lies between two picks on the front. */
async function between() {
  const points = [...paired];
  await guarded(async () => {
    const { value } = await call("POST", "/api/v1/preference-sets/between/", { front: model.front.id, version: model.version, points });
    const found = value.points.filter((one) => !points.includes(one));
    const said = found.length ? `${many(found.length, "placement")} between them` : "none lies between them";
    byId("cal-between").querySelector(".meta").textContent = said;
    announce(said);
    model.lasso = null;
    model.between = found.length ? new Set(found) : null;
    tell("chosen");
  });
}
