/* The list of picks, and the placements between two of them. */
import { call } from "../api.js";
import { byId, element } from "../dom.js";
import { counted, grouped } from "../format.js";
import { announce } from "./announce.js";
import { guarded } from "./fronts.js";
import { model, publish, subscribe } from "./model.js";
import { MIN_PICKS, OBJECTIVES, SCREENS } from "./objectives.js";
import { point } from "./screens.js";

let paired = [];

export function startPicks() {
  byId("cal-clear").addEventListener("click", () => model.draft.clear());
  byId("cal-undo").addEventListener("click", () => model.draft.undo());
  byId("cal-redo").addEventListener("click", () => model.draft.redo());
  byId("cal-between-go").addEventListener("click", findBetween);
  byId("cal-picks").addEventListener("change", (event) => {
    const chosen = Number(event.target.value);
    paired = event.target.checked ? [...paired, chosen] : paired.filter((other) => other !== chosen);
    showBetween();
  });
  document.addEventListener("keydown", (event) => {
    if (
      !(event.ctrlKey || event.metaKey) ||
      event.key.toLowerCase() !== "z" ||
      event.target.closest("input:not([type=range]):not([type=checkbox]), textarea")
    )
      return;
    event.preventDefault();
    if (event.shiftKey) model.draft.redo();
    else model.draft.undo();
  });
  subscribe("draft", show);
  subscribe("derived", spreadRow);
}

function show() {
  const { draft, points } = model;
  byId("cal-undo").disabled = !draft.past.length;
  byId("cal-redo").disabled = !draft.future.length;
  byId("cal-undo").title = draft.past.length ? `Undo ${draft.past.at(-1).action}, Ctrl-Z` : "Undo, Ctrl-Z";
  byId("cal-redo").title = draft.future.length
    ? `Redo ${draft.future.at(-1).action}, Ctrl-Shift-Z`
    : "Redo, Ctrl-Shift-Z";
  if (!points) return;
  const { picks, rejected } = draft.state;
  byId("cal-clear").disabled = !picks.length && !rejected.length;
  const counts = SCREENS.map(({ name }) => [name, draft.byScreen[name].length]);
  const isEnough = counts.every(([, count]) => count >= MIN_PICKS);
  byId("cal-count").textContent =
    `${counts.map(([name, count]) => `${name} ${count}`).join(", ")}${isEnough ? "" : `; ${MIN_PICKS} each`}`;
  byId("cal-count").title = `Accepted on each plot; the rule needs at least ${MIN_PICKS} on each`;
  paired = paired.filter((point) => picks.some((pick) => pick.point === point));
  byId("cal-picks").replaceChildren(...picks.map(row));
  spreadRow();
  rejectedList();
  showBetween();
}

const MAX_REJECTED = 12; // shown as buttons

/* The rejected placements as buttons that undo the rejection. */
function rejectedList() {
  const { rejected } = model.draft.state;
  byId("cal-rejected").hidden = !rejected.length;
  const buttons = rejected.slice(0, MAX_REJECTED).map((name) => {
    const button = element("button", `${name} ×`, "btn small", {
      type: "button",
      "aria-label": `No longer reject placement ${name}`,
      title: `No longer reject: ${model.points.line(name)}`,
    });
    button.addEventListener("click", () => model.draft.reject([name], model.points.name(name)));
    button.addEventListener("pointerenter", () => point(name));
    button.addEventListener("pointerleave", () => point(null));
    return button;
  });
  const more = rejected.length - buttons.length;
  if (more) buttons.push(element("span", `and ${grouped(more)} more, in the table`, "meta"));
  byId("cal-rejected-list").replaceChildren(...buttons);
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
  const remove = element("button", "×", "btn quiet small icon", {
    type: "button",
    "aria-label": `Remove pick ${k + 1}`,
    title: "Remove",
  });
  remove.addEventListener("click", () => model.draft.remove(pick.point, `pick ${k + 1}`));
  const last = element("td", "", "num");
  last.append(remove);
  tr.append(
    first,
    ...OBJECTIVES.map((o) => element("td", values[o].toFixed(2), "num", { title: `${values[o].toFixed(4)}` })),
    element("td", pick.screens.map((name) => name.replace("-", "")).join(" "), "on-col"),
    last,
  );
  tr.addEventListener("pointerenter", () => point(pick.point));
  tr.addEventListener("pointerleave", () => point(null));
  return tr;
}

/* Standard deviation of each objective over the picks, as the rule uses it. */
function spreadRow() {
  byId("cal-picks").querySelector(".sdrow")?.remove();
  const { spread } = model.derived ?? {};
  if (!spread || !("P" in spread) || model.draft.state.rule !== "spread") return;
  const tr = element("tr", "", "sdrow");
  tr.append(
    element("td", "sd", "", { title: "Standard deviation over the picks" }),
    ...OBJECTIVES.map((o) => element("td", spread[o].toFixed(3), "num")),
    element("td"),
    element("td"),
  );
  byId("cal-picks").append(tr);
}

function showBetween() {
  const box = byId("cal-between");
  box.hidden = paired.length !== 2;
  box.querySelector(".meta").textContent = "";
}

/* Show the placements of the front between two picks. */
async function findBetween() {
  const points = [...paired];
  await guarded(async () => {
    const { value } = await call("POST", "/api/v1/preference-sets/between/", {
      front: model.front.id,
      version: model.version,
      points,
    });
    const between = value.points.filter((point) => !points.includes(point));
    const text = between.length ? `${counted(between.length, "placement")} between them` : "no placements between them";
    byId("cal-between").querySelector(".meta").textContent = text;
    announce(text);
    model.lasso = null;
    model.between = between.length ? new Set(between) : null;
    publish("chosen");
  });
}
