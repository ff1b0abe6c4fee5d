/* Objectives that an address, a draft or a saved set names and that cannot be shown: what is left out, and why. */
import { call } from "../api.js";
import { model, publish, showBanner, updateAddress } from "./model.js";
import { isObjective, NAMES, OBJECTIVES } from "./objectives.js";

/* Leave out the objectives that the server refused; `refusals` is the problem of each. */
export function leaveOut(refusals) {
  const names = [...refusals.keys()];
  model.draft.keepObjectives(names);
  if (model.axes.some((o) => refusals.has(o))) {
    model.axes = [...OBJECTIVES];
    updateAddress({ axes: null });
  }
  publish("axes");
  if (names.some(isObjective)) showRefused(refusals);
  else showUnknown(names);
}

/* Forget the objectives that were deleted while the page is open. Returns their names. */
export async function forgetDeleted() {
  const { results } = (await call("GET", "/api/v1/objectives/")).value;
  const existing = new Set(results.map(({ name }) => name));
  const deleted = Object.keys(NAMES).filter((o) => !existing.has(o));
  for (const o of deleted) delete NAMES[o];
  return deleted;
}

/* Go on without objectives that were deleted meanwhile. Returns whether there were any: the draft has changed then. */
export async function leaveOutDeleted() {
  const deleted = await forgetDeleted();
  if (!deleted.length) return false;
  leaveOut(new Map(deleted.map((o) => [o, {}])));
  publish("draft");
  return true;
}

function showRefused(refusals) {
  const names = [...refusals.keys()].map((o) => NAMES[o] ?? o).join(", ");
  const reasons = [...refusals.values()].map(({ detail }) => detail).join(" ");
  const text = `${reasons} Plots and bounds of ${names} were left out.`;
  showBanner("cal-left-out", `This front cannot show ${names}`, text);
}

/* Say which objectives do not exist. */
export function showUnknown(names) {
  const isOne = names.length === 1;
  const title = `The objective${isOne ? "" : "s"} ${names.join(", ")} ${isOne ? "does" : "do"} not exist`;
  const owner = isOne ? "Its" : "Their";
  const text = `${owner} plots and bounds were left out, with picks that were accepted only on those plots.`;
  showBanner("cal-left-out", title, text);
}
