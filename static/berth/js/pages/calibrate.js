/* Calibrate: weights are derived from accepted placements, checked, previewed on the running cluster and activated. */

import { startActivation } from "../calibrate/activation.js";
import { announce } from "../calibrate/announce.js";
import { startBounds } from "../calibrate/bounds.js";
import { startCheck } from "../calibrate/check.js";
import { Draft } from "../calibrate/draft.js";
import { showDraft, startFronts } from "../calibrate/fronts.js";
import { model } from "../calibrate/model.js";
import { startModes } from "../calibrate/modes.js";
import { startPicks } from "../calibrate/picks.js";
import { addObjectives, startPlotAxes } from "../calibrate/plot_axes.js";
import { startPreview } from "../calibrate/preview.js";
import { startReach } from "../calibrate/reach.js";
import { startRisks } from "../calibrate/risks.js";
import { startRules } from "../calibrate/rules.js";
import { startScreens } from "../calibrate/screens.js";
import { startSetList } from "../calibrate/set_list.js";
import { startSets } from "../calibrate/sets.js";
import { startTrail } from "../calibrate/trail.js";
import { startWeights } from "../calibrate/weights.js";
import { startZoom } from "../calibrate/zoom.js";
import { byId, once } from "../dom.js";

const STARTS = [
  startPlotAxes, // before what uses the axes
  startZoom,
  startBounds,
  startScreens,
  startModes,
  startPicks,
  startRules,
  startWeights,
  startCheck,
  startReach, // before the preview, whose answers it receives first
  startPreview,
  startRisks,
  startTrail,
  startSets,
  startSetList,
  startActivation,
];

const newFront = once(async () => {
  const piece = await import("../calibrate/new_front.js");
  piece.startNewFront();
  return piece;
});

export async function start() {
  model.page = byId("calibrate");
  for (const id of ["cal-new", "cal-first"])
    byId(id)?.addEventListener("click", async () => (await newFront()).openNewFront());
  if (!model.page.dataset.front) return;
  addObjectives();
  model.draft = new Draft(model.page.dataset.front, (action) => {
    announce(action);
    showDraft();
  });
  for (const startPart of STARTS) startPart();
  byId("cal-compare").addEventListener("click", async () => (await import("../calibrate/comparison.js")).compare());
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-act=hide-banner]");
    if (button) button.closest(".banner").hidden = true;
  });
  await startFronts();
}
