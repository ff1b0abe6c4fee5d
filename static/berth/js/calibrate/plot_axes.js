/* The objectives that the three plots show: any three of the registry. Objectives that a front was not searched by are
   evaluated on its stored placements by the server. */
import { announce } from "./announce.js";
import { loadOthers } from "./front_versions.js";
import { guarded } from "./fronts.js";
import { model, publish, updateAddress } from "./model.js";
import { addObjective, NAMES, OBJECTIVES } from "./objectives.js";

const selects = () => [...document.querySelectorAll(".input.ax")];

export function startPlotAxes() {
  for (const { value, dataset } of selects()[0].options) if (dataset.unit !== undefined) addObjective(value, dataset);
  const given = (new URLSearchParams(location.search).get("axes") ?? "").split(",");
  if (given.length === 3 && new Set(given).size === 3 && given.every((o) => o in NAMES)) model.axes = given;
  for (const [k, select] of selects().entries()) select.addEventListener("change", () => choose(k, select.value));
  show();
}

function show() {
  for (const [k, select] of selects().entries()) select.value = model.axes[k];
}

/* Show an objective on an axis; if another axis shows it, the two are exchanged. */
async function choose(k, objective) {
  const axes = model.axes.map((o) => (o === objective ? model.axes[k] : o));
  axes[k] = objective;
  await guarded(async () => {
    await loadOthers(model.points, axes);
    model.axes = axes;
    updateAddress({ axes: axes.join() === OBJECTIVES.join() ? null : axes.join() });
    publish("axes");
    announce(`The plots show ${axes.map((o) => NAMES[o]).join(", ")}`);
  });
  show();
}
