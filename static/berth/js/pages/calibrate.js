/* Calibrate: placements one would accept become weights, are checked, tried on the running cluster, and come into force. */
import { Draft } from "../calibrate/draft.js";
import { startFronts, startNew } from "../calibrate/fronts.js";
import { model, tell } from "../calibrate/model.js";
import { startPanel } from "../calibrate/panel.js";
import { startScreens } from "../calibrate/screens.js";
import { startWeights } from "../calibrate/weights.js";
import { announce, byId } from "../calibrate/words.js";

export async function start() {
  model.page = byId("calibrate");
  startNew();
  if (!model.page.dataset.front) return;
  model.draft = new Draft(model.page.dataset.front, (what) => { announce(what); tell("draft"); });
  startScreens();
  startPanel();
  startWeights();
  document.addEventListener("click", (event) => { const button = event.target.closest("[data-act=hide-banner]"); if (button) button.closest(".banner").hidden = true; });
  await startFronts();
}
