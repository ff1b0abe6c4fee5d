/* Versions of a front: their placements, and the picks that move from one version to another. */
import { call } from "../api.js";
import { byId } from "../dom.js";
import { counted } from "../format.js";
import { model, showBanner, updateAddress } from "./model.js";
import { NAMES } from "./objectives.js";
import { Points } from "./points.js";

export const MAX_POINTS = 2000;
const SAME = 1e-9; // normalised distance
const DELETED = 400; // status of an objective that does not exist
const REFUSED = [409, DELETED]; // 409: a curve lacks a rack of the front
const versions = new Map();

export const frontUrl = (tail = "") => `/api/v1/fronts/${model.page.dataset.front}/${tail}`;
export const versionNumbers = () => model.front.versions.map((version) => version.number);
export const isStored = (number) => versionNumbers().includes(number);
export const newestVersion = () => versionNumbers().at(-1) ?? 0;
export const versionInAddress = () => Number(new URLSearchParams(location.search).get("version")) || 0;
export const storeVersionInAddress = (number) => updateAddress({ version: number === newestVersion() ? null : number });
const retentionText = (sentence) =>
  `Intermediate versions of a front are deleted one day after its search, unless a preference set of them was saved. ${sentence}`;

/* The version to show first: from the address, from the draft of this tab, or the newest. */
export function firstVersion() {
  const [requested, { version }] = [versionInAddress(), model.draft.state];
  if (isStored(requested)) return requested;
  const number = !model.draft.isEmpty && isStored(version) ? version : newestVersion();
  if (requested) {
    showBanner("cal-carried", `Version ${requested} does not exist`, retentionText(`Showing version ${number}.`));
    updateAddress({ version: null });
  }
  return number;
}

async function loadPoints(number) {
  if (!versions.has(number)) {
    const { value } = await call("GET", frontUrl(`points/?version=${number}&most=${MAX_POINTS}`));
    versions.set(number, new Points(value));
  }
  return versions.get(number);
}

/* The placements of a version, thinned to the number chosen. */
export async function loadVersion(number) {
  const stored = model.front.versions.find((version) => version.number === number);
  const [points, index] = await Promise.all([loadPoints(number), shownIndex(number, stored?.shown ?? 0)]);
  points.thin(index);
  await loadUsed(points);
  return points;
}

/* Load the objectives of the plots and bounds. Those that the server refuses are left out, so that an address or a draft
   cannot block the page. Returns whether there were any. */
export async function loadUsed(points) {
  const refusals = new Map(); // problem by objective
  const load = async (o) => {
    try {
      await loadOthers(points, [o]);
    } catch (error) {
      if (!REFUSED.includes(error.status)) throw error;
      if (error.status === DELETED) delete NAMES[o];
      refusals.set(o, error.problem);
    }
  };
  await Promise.all([...new Set([...model.axes, ...Object.keys(model.draft.state.bounds)])].map(load));
  if (refusals.size) (await import("./left_out.js")).leaveOut(refusals);
  return refusals.size > 0;
}

/* Say which objectives do not exist, if any. */
export async function showUnknown(names) {
  if (names.length) (await import("./left_out.js")).showUnknown(names);
}

/* Load the values of objectives that the front was not searched by. */
export async function loadOthers(points, objectives) {
  const missing = objectives.filter((o) => !points.normalised[o]);
  if (!missing.length) return;
  const query = `version=${points.version}&most=${MAX_POINTS}&objectives=${missing.join()}&fields=objectives`;
  points.add((await call("GET", frontUrl(`points/?${query}`))).value.objectives);
}

/* Show at most as many placements as chosen; the server selects which. */
export async function thinPoints(points) {
  points.thin(await shownIndex(points.version, points.size));
}

/* The placements to show of a version with so many; null for all. */
async function shownIndex(version, size) {
  const max = Number(byId("cal-thin").value);
  if (size <= max) return null;
  return (await call("GET", frontUrl(`points/?version=${version}&most=${max}`))).value.index;
}

/* Move the draft to a version: its picks are mapped if their version can still be loaded, else dropped. */
export async function moveDraft(points) {
  const { draft } = model;
  const { version } = draft.state;
  if (version !== points.version) {
    if (!version || draft.isEmpty) draft.amend({ version: points.version });
    else if (versions.has(version) || isStored(version)) mapPicks(await loadPoints(version), points);
    else dropPicks(points);
  }
  draft.amend(existingOnly(draft.state, points));
}

/* A draft stored in the tab may name placements that a version does not have. */
function existingOnly({ picks, rejected, answers }, points) {
  const exists = (point) => points.has(point);
  return {
    picks: picks.filter((pick) => exists(pick.point)),
    rejected: rejected.filter(exists),
    answers: answers.filter((answer) => exists(answer.better) && exists(answer.worse)),
  };
}

/* Map placements of one version to the nearest of another, counting equal and moved ones. */
export function pointMapper(from, to) {
  const mapped = new Map();
  const counts = { equal: 0, moved: 0, maxDistance: 0 };
  const map = (point) => {
    if (!mapped.has(point)) {
      const { point: target, distance } = to.nearest(from.values(point));
      if (distance < SAME) counts.equal += 1;
      else {
        counts.moved += 1;
        counts.maxDistance = Math.max(counts.maxDistance, distance);
      }
      mapped.set(point, target);
    }
    return mapped.get(point);
  };
  return { map, counts };
}

/* The selection of a draft on another version: picks that fall together are merged. */
export function mapSelection({ picks, rejected, answers }, map) {
  const merged = [];
  for (const pick of picks) {
    const point = map(pick.point);
    const existing = merged.find((other) => other.point === point);
    if (existing) existing.screens = [...new Set([...existing.screens, ...pick.screens])];
    else merged.push({ point, screens: pick.screens });
  }
  return {
    picks: merged,
    rejected: [...new Set(rejected.map(map))].filter((point) => !merged.some((pick) => pick.point === point)),
    answers: answers
      .map((answer) => ({ ...answer, better: map(answer.better), worse: map(answer.worse) }))
      .filter((answer) => answer.better !== answer.worse),
  };
}

function mapPicks(from, to) {
  const { draft } = model;
  const count = draft.state.picks.length;
  const { map, counts } = pointMapper(from, to);
  const selection = mapSelection(draft.state, map);
  draft.commitSilently(`switch to version ${to.version}`, { version: to.version, ...selection });
  const merged = count - selection.picks.length;
  const undo = isStored(from.version)
    ? `Undo returns to version ${from.version}.`
    : `Version ${from.version} no longer exists.`;
  showBanner(
    "cal-carried",
    `Your picks were moved to version ${to.version}`,
    `${mappingText(counts, merged)}. ${undo}`,
  );
}

function mappingText({ equal, moved, maxDistance }, merged) {
  const distance = moved ? `, at most ${maxDistance.toFixed(3)} away` : "";
  const mergedText = merged ? `; ${counted(merged, "pick")} merged with another` : "";
  return `${counted(equal, "placement")} unchanged, ${moved} mapped to the nearest${distance}${mergedText}`;
}

/* Without its version, the numbers of a draft's placements mean nothing. */
function dropPicks(points) {
  const { version } = model.draft.state;
  model.draft.amend({ version: points.version, picks: [], rejected: [], answers: [] });
  const text = `Showing version ${points.version}. Pick placements again, and save a set to store them.`;
  showBanner("cal-carried", `Version ${version} and its picks no longer exist`, retentionText(text));
}
