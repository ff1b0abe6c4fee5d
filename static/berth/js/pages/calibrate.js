/* Calibrate: placements one would accept become weights, are checked, tried on the running cluster, and come into force. */
import { startAxes } from "../calibrate/axes.js";
import { startCheck } from "../calibrate/check.js";
import { Draft } from "../calibrate/draft.js";
import { startForce } from "../calibrate/force.js";
import { followDraft, startFronts, startNew } from "../calibrate/fronts.js";
import { model } from "../calibrate/model.js";
import { startModes } from "../calibrate/modes.js";
import { startPanel } from "../calibrate/panel.js";
import { startPreview } from "../calibrate/preview.js";
import { startRules } from "../calibrate/rules.js";
import { startScreens } from "../calibrate/screens.js";
import { startSets } from "../calibrate/sets.js";
import { startTwin } from "../calibrate/twin.js";
import { startWeights } from "../calibrate/weights.js";
import { announce, byId } from "../calibrate/words.js";

export async function start() {
  model.page = byId("calibrate");
  startNew();
  if (!model.page.dataset.front) return;
  model.draft = new Draft(model.page.dataset.front, (what) => { announce(what); followDraft(); });
  for (const begin of [startScreens, startAxes, startTwin, startModes, startPanel, startRules, startWeights, startCheck, startPreview, startSets, startForce]) begin();
  document.addEventListener("click", (event) => { const button = event.target.closest("[data-act=hide-banner]"); if (button) button.closest(".banner").hidden = true; });
  await startFronts();
}
