/* Pointer modes of the screens, actions on the selected placements, and exports. */

import { call } from "../api.js";
import { byId, once } from "../dom.js";
import { counted, csv } from "../format.js";
import { announce } from "./announce.js";
import { clearArea } from "./lasso.js";
import { isTable, model, publish, selection, subscribe, updateAddress } from "./model.js";

/* Pieces that are loaded when they are first used. */
const lines = once(async () => {
  const piece = await import("./axes.js");
  piece.startAxes();
  return piece;
});
const table = once(async () => {
  const piece = await import("./table.js");
  piece.startTable();
  return piece;
});
const MODES = ["pick", "reject", "lasso", "zoom", "axes"];
const HINTS = {
  pick: "Click or Enter accepts, Alt-click or R rejects, arrow keys move. Shaded: the range of your picks. Inner ticks are normalised values, outer ticks raw values.",
  reject:
    "Click or tap rejects, again to undo, Alt-click accepts. Rejected placements do not change the weights; a warning appears if the weights prefer one of them to all accepted placements.",
  lasso:
    "Draw around placements to select them, then accept or reject all. A click accepts a single placement. Esc clears the selection.",
  zoom: "Draw a rectangle to show only that part. In every mode: Ctrl and the wheel or two fingers zoom; on a focused plot + and − zoom, Shift and arrow keys move, 0 shows the whole front.",
  axes: "One line per placement. Drag along an axis to select a range, click the axis to remove it, or enter the limits below. Other placements are dimmed here and on the plots.",
};

export function startModes() {
  for (const button of document.querySelectorAll("[data-mode]"))
    if (button.matches("button")) button.addEventListener("click", () => selectMode(button.dataset.mode));
  for (const button of document.querySelectorAll("[data-gathered]"))
    button.addEventListener("click", () => actOnSelection(button.dataset.gathered));
  for (const button of document.querySelectorAll("[data-save]"))
    button.addEventListener("click", () => exportAs(button.dataset.save));
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && !document.querySelector("dialog[open]") && clearArea()) announce("Selection cleared");
  });
  subscribe("chosen", showSelection);
  subscribe("points", showSelection);
  byId("cal-table").addEventListener("click", async () => (await table()).toggleTable());
  const address = new URLSearchParams(location.search);
  if (address.has("ranges")) lines();
  const requested = address.get("mode");
  selectMode(MODES.includes(requested) ? requested : "pick");
}

function selectMode(mode) {
  if (model.mode !== mode && ["pick", "reject"].includes(mode)) clearArea();
  model.mode = mode;
  for (const button of document.querySelectorAll("button[data-mode]"))
    button.setAttribute("aria-pressed", String(button.dataset.mode === mode));
  byId("cal-sub").textContent = HINTS[mode];
  if (mode === "axes") lines();
  byId("cal-three").hidden = isTable() || mode === "axes";
  byId("cal-axes").hidden = isTable() || mode !== "axes";
  updateAddress({ mode: mode === "pick" ? null : mode });
  publish("mode");
}

/* Show the number of selected placements, with actions for all of them. */
function showSelection() {
  const inside = model.points ? selection() : null;
  const box = byId("cal-gathered");
  box.hidden = !inside;
  byId("cal-sub").hidden = Boolean(inside);
  if (!inside) return;
  const place = model.between ? "between the two picks" : model.lasso ? "inside the lasso" : "inside the ranges";
  byId("cal-gathered-text").textContent = `${counted(inside.size, "placement")} ${place}, for ${model.screen}`;
  for (const button of box.querySelectorAll("[data-gathered=accept], [data-gathered=reject]"))
    button.disabled = !inside.size;
}

async function actOnSelection(action) {
  const inside = [...(selection() ?? [])];
  if (action === "accept") model.draft.acceptAll(inside, model.screen);
  if (action === "reject") model.draft.reject(inside, counted(inside.length, "placement"));
  clearArea();
  if (Object.keys(model.ranges).length) (await lines()).clearRanges();
}

async function exportAs(format) {
  const { download } = await import("../download.js");
  const name = `${model.front.name}-v${model.version}`;
  if (format === "csv") download(`${name}.csv`, new Blob([csv((await table()).tableRows())], { type: "text/csv" }));
  if (format === "json")
    download(
      `${name}.json`,
      new Blob([JSON.stringify((await call("GET", byId("cal-rest").href)).value, null, 1)], {
        type: "application/json",
      }),
    );
  if (format === "png") download(`${name}.png`, await (await import("./export.js")).screensImage());
}
