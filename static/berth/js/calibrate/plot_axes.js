/* The objectives that the three plots show: any three of the registry. Objectives that a front was not searched by are
   evaluated on its stored placements by the server. */
import { announce } from "./announce.js";
import { loadOthers, showUnknown } from "./front_versions.js";
import { guarded } from "./fronts.js";
import { model, publish, subscribe, updateAddress } from "./model.js";
import { addObjective, isObjective, NAMES, OBJECTIVES } from "./objectives.js";

const selects = () => [...document.querySelectorAll(".input.ax")];

/* Add the objectives of the registry, before anything reads a name of one. */
export function addObjectives() {
  for (const { value, dataset } of selects()[0].options) if (dataset.unit !== undefined) addObjective(value, dataset);
}

export function startPlotAxes() {
  const given = (new URLSearchParams(location.search).get("axes") ?? "").split(",");
  const isPlots = given.length === 3 && new Set(given).size === 3;
  const unknown = isPlots ? given.filter((o) => !isObjective(o)) : [];
  if (unknown.length) updateAddress({ axes: null });
  else if (isPlots) model.axes = given;
  showUnknown([...new Set([...model.draft.unknown, ...unknown])]);
  for (const [k, select] of selects().entries()) select.addEventListener("change", () => choose(k, select.value));
  subscribe("axes", show);
  show();
}

function show() {
  for (const [k, select] of selects().entries()) {
    for (const option of [...select.options]) if (!isObjective(option.value)) option.remove();
    select.value = model.axes[k];
  }
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
