/* The placements as a table: sorted, filtered, with buttons to accept and reject without a pointer. */

import { byId, debounce, element } from "../dom.js";
import { counted, grouped } from "../format.js";
import { jobName } from "./job_names.js";
import { columnValue, isTable, model, selection, subscribe } from "./model.js";
import { formatRaw, NAMES, OBJECTIVES, SCREENS } from "./objectives.js";
import { point } from "./screens.js";

const ROWS = 50;
const COLUMNS = [
  ["index", "Placement"],
  ...OBJECTIVES.map((o) => [o, `${o} ${NAMES[o]}`]),
  ["nodes_on", "Servers on"],
  ["jobs_protected", "Protected"],
  ["jobs_exposed", "Exposed"],
  ["jobs_split", "Split"],
  ["worst_job", "Worst job"],
];
const table = { by: "P", isDown: false, page: 0 };

export function startTable() {
  byId("cal-filter").addEventListener("change", () => {
    table.page = 0;
    fill();
  });
  byId("cal-find").addEventListener(
    "input",
    debounce(() => {
      table.page = 0;
      fill();
    }, 150),
  );
  byId("cal-twin").querySelector("tbody").addEventListener("click", onClick);
  byId("cal-twin").querySelector("thead").addEventListener("click", sort);
  for (const topic of ["draft", "points", "chosen", "names"]) subscribe(topic, fill);
}

export function toggleTable() {
  const isOn = !isTable();
  byId("cal-table").setAttribute("aria-pressed", String(isOn));
  byId("cal-twin").hidden = !isOn;
  byId("cal-three").hidden = isOn || model.mode === "axes";
  byId("cal-axes").hidden = isOn || model.mode !== "axes";
  fill();
}

/* Positions of the rows that pass the filter, in order. */
function filteredRows() {
  const { points, draft } = model;
  const which = byId("cal-filter").value;
  const text = byId("cal-find").value.trim().toLowerCase();
  const marked = new Set([...draft.state.picks.map((pick) => pick.point), ...draft.state.rejected]);
  const inside = which === "inside" ? (selection() ?? new Set()) : null;
  const among = which === "picked" ? points.every : points.shown;
  const matching = among.filter((i) => {
    const name = points.index[i];
    if (which === "picked" && !marked.has(name)) return false;
    if (inside && !inside.has(name)) return false;
    return !text || String(name) === text || jobName(points.worst_job[i]).toLowerCase().includes(text);
  });
  const key = (i) =>
    table.by === "index"
      ? points.index[i]
      : table.by === "worst_job"
        ? jobName(points.worst_job[i])
        : columnValue(table.by, i);
  const sign = table.isDown ? -1 : 1;
  return matching.sort((a, b) => {
    const [x, y] = [key(a), key(b)];
    return sign * (x < y ? -1 : x > y ? 1 : a - b);
  });
}

function fill() {
  if (!isTable() || !model.points) return;
  const all = filteredRows();
  const pages = Math.max(1, Math.ceil(all.length / ROWS));
  table.page = Math.min(table.page, pages - 1);
  const focused = focusedSelector();
  head();
  const body = byId("cal-twin").querySelector("tbody");
  body.replaceChildren(...all.slice(table.page * ROWS, (table.page + 1) * ROWS).map(row));
  if (!all.length) {
    const tr = element("tr");
    tr.append(element("td", "No placement matches.", "t2", { colspan: String(COLUMNS.length + 1) }));
    body.append(tr);
  }
  byId("cal-twin-count").textContent =
    `${counted(all.length, "placement")}${pages > 1 ? `, page ${table.page + 1} of ${pages}` : ""}`;
  const nav = byId("cal-twin-pages");
  nav.replaceChildren(
    ...[
      ["Previous", -1],
      ["Next", 1],
    ]
      .filter(([, by]) => table.page + by >= 0 && table.page + by < pages)
      .map(([name, by]) => {
        const button = element("button", name, "btn small", { type: "button", "data-by": by });
        button.addEventListener("click", () => {
          table.page += by;
          fill();
        });
        return button;
      }),
  );
  if (focused) byId("cal-twin").querySelector(focused)?.focus();
}

/* A selector of the focused button, to focus it again after the rows are replaced. */
function focusedSelector() {
  const { activeElement } = document;
  if (activeElement?.tagName !== "BUTTON" || !byId("cal-twin").contains(activeElement)) return "";
  return Object.entries(activeElement.dataset)
    .map(([name, value]) => `[data-${name}="${value}"]`)
    .join("");
}

function head() {
  const tr = element("tr");
  for (const [key, name] of COLUMNS) {
    const th = element("th", "", key === "index" || key === "worst_job" ? "" : "num", { scope: "col" });
    if (key === table.by) th.setAttribute("aria-sort", table.isDown ? "descending" : "ascending");
    th.append(element("button", name, "", { type: "button", "data-key": key }));
    tr.append(th);
  }
  tr.append(element("th", "Accept on", "", { scope: "col" }));
  byId("cal-twin").querySelector("thead").replaceChildren(tr);
}

function sort(event) {
  const key = event.target.dataset?.key;
  if (!key) return;
  table.isDown = key === table.by ? !table.isDown : false;
  table.by = key;
  table.page = 0;
  fill();
}

function row(i) {
  const { points, draft } = model;
  const name = points.index[i];
  const pick = draft.state.picks.find(({ point: picked }) => picked === name);
  const tr = element("tr", "", pick ? "sel" : "");
  tr.append(
    element("td", String(name)),
    ...OBJECTIVES.map((o) => valueCell(points.normalised[o][i], formatRaw(o, points.raw[o][i]))),
  );
  for (const key of ["nodes_on", "jobs_protected", "jobs_exposed", "jobs_split"])
    tr.append(element("td", grouped(points[key][i]), "num"));
  tr.append(element("td", jobName(points.worst_job[i]) || "none"));
  const buttons = element("td", "", "marks");
  for (const { name: screen } of SCREENS)
    buttons.append(
      toggleButton(
        name,
        screen,
        screen.replace("-", ""),
        Boolean(pick?.screens.includes(screen)),
        `Accept placement ${name} on ${screen}`,
      ),
    );
  buttons.append(toggleButton(name, "reject", "×", draft.state.rejected.includes(name), `Reject placement ${name}`));
  tr.append(buttons);
  tr.addEventListener("pointerenter", () => point(name));
  return tr;
}

/* A cell with the normalised value, and the measured value below it. */
function valueCell(normalised, measured) {
  const td = element("td", normalised.toFixed(3), "num both");
  td.append(element("span", measured, "what"));
  return td;
}

function toggleButton(name, target, text, isOn, label) {
  return element("button", text, target === "reject" ? "btn no" : "btn", {
    type: "button",
    "data-point": name,
    "data-on": target,
    "aria-pressed": String(isOn),
    "aria-label": label,
  });
}

function onClick(event) {
  const button = event.target.closest("[data-on]");
  if (!button) return;
  const name = Number(button.dataset.point);
  if (button.dataset.on === "reject") model.draft.reject([name], model.points.name(name));
  else model.draft.accept(name, button.dataset.on, model.points.name(name));
}

/* The placements shown as rows of values, for export. */
export function tableRows() {
  const { points } = model;
  const keys = COLUMNS.map(([key]) => key);
  const headings = ["placement", ...OBJECTIVES.flatMap((o) => [o, `${o}_raw`]), ...keys.slice(4)];
  return [
    headings,
    ...points.shown.map((i) => [
      points.index[i],
      ...OBJECTIVES.flatMap((o) => [points.normalised[o][i], points.raw[o][i]]),
      ...keys.slice(4).map((key) => points[key][i] ?? ""),
    ]),
  ];
}
