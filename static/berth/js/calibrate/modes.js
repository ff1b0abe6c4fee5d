/* What the pointer does on the screens, what has been gathered with it, and what can be taken away as a file. */
import { clearRanges } from "./axes.js";
import { call } from "../api.js";
import { letGo } from "./lasso.js";
import { chosen, keepAddress, model, on, tell } from "./model.js";
import { picture } from "./picture.js";
import { isTable, lines } from "./twin.js";
import { announce, byId, many } from "./words.js";

const MODES = ["pick", "reject", "lasso", "axes"];
const SUBS = {
  pick: "Click or Enter accepts, Alt-click or R rejects, arrow keys walk. Shaded: the range of your picks. Inner ticks normalised, outer ticks raw.",
  reject: "Click or tap rejects, once more takes it back, Alt-click accepts. What is rejected changes no weights; where they prefer it to all you accepted, that is said.",
  lasso: "Draw around placements to gather them; then accept or reject all. A click still accepts one. Esc lets them go.",
  axes: "A line is a placement. Drag along an axis to keep a range, click it to let go, or type its ends below; the rest is dimmed on the screens too.",
};

export function startModes() {
  for (const button of document.querySelectorAll("[data-mode]")) if (button.matches("button")) button.addEventListener("click", () => choose(button.dataset.mode));
  for (const button of document.querySelectorAll("[data-gathered]")) button.addEventListener("click", () => gathered(button.dataset.gathered));
  for (const button of document.querySelectorAll("[data-save]")) button.addEventListener("click", () => save(button.dataset.save));
  document.addEventListener("keydown", (event) => { if (event.key === "Escape" && !document.querySelector("dialog[open]") && letGo()) announce("Let go"); });
  on("chosen", offer);
  on("points", offer);
  const wanted = new URLSearchParams(location.search).get("mode");
  choose(MODES.includes(wanted) ? wanted : "pick");
}

function choose(mode) {
  if (model.mode !== mode && ["pick", "reject"].includes(mode)) letGo();
  model.mode = mode;
  for (const button of document.querySelectorAll("button[data-mode]")) button.setAttribute("aria-pressed", String(button.dataset.mode === mode));
  byId("cal-sub").textContent = SUBS[mode];
  byId("cal-three").hidden = isTable() || mode === "axes";
  byId("cal-axes").hidden = isTable() || mode !== "axes";
  keepAddress({ mode: mode === "pick" ? null : mode });
  tell("mode");
}

/* What the lasso, ranges or "between these two" hold, and what may be done with all of it. */
function offer() {
  const inside = model.points ? chosen() : null;
  const box = byId("cal-gathered");
  box.hidden = !inside;
  byId("cal-sub").hidden = Boolean(inside);
  if (!inside) return;
  const where = model.between ? "between the two picks" : model.lasso ? "inside the lasso" : "inside the ranges";
  byId("cal-gathered-text").textContent = `${many(inside.size, "placement")} ${where}, for ${model.screen}`;
  for (const button of box.querySelectorAll("[data-gathered=accept], [data-gathered=reject]")) button.disabled = !inside.size;
}

function gathered(what) {
  const inside = [...(chosen() ?? [])];
  if (what === "accept") model.draft.acceptAll(inside, model.screen);
  if (what === "reject") model.draft.reject(inside, many(inside.length, "placement"));
  letGo();
  if (Object.keys(model.ranges).length) clearRanges();
}

async function save(kind) {
  const name = `${model.front.name}-v${model.version}`;
  if (kind === "csv") keep(`${name}.csv`, new Blob([lines().map((line) => line.map(quoted).join(",")).join("\r\n")], { type: "text/csv" }));
  if (kind === "json") keep(`${name}.json`, new Blob([JSON.stringify((await call("GET", byId("cal-rest").href)).value, null, 1)], { type: "application/json" }));
  if (kind === "png") keep(`${name}.png`, await picture());
}

const quoted = (value) => (/[",\n]/.test(String(value)) ? `"${String(value).replaceAll('"', '""')}"` : value);

function keep(name, blob) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}
