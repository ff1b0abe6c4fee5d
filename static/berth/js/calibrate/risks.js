/* Warnings about the weights, the solver result and the effect on the running cluster, the worst first. The Check
   section shows them, and activating weights asks to accept each one. */
import { byId } from "../dom.js";
import { counted, percent, spelled } from "../format.js";
import { bounds, brokenBy } from "./bounds.js";
import { checkWarnings } from "./check.js";
import { mayChange, model, subscribe } from "./model.js";
import { formatRaw, HIGHER, NAMES, OBJECTIVES } from "./objectives.js";
import { rawOf, valuesAt } from "./reach.js";
import { statusItem, weightWarnings } from "./weights.js";

const MAX_GAP = 0.02; // of the solver result
const CLEARLY = 1e-6; // normalised

export function startRisks() {
  if (!mayChange()) return;
  for (const topic of ["derived", "checked", "reached", "reach"]) subscribe(topic, show);
}

function show() {
  byId("cal-risks").replaceChildren(...effectWarnings().map(({ title, detail }) => statusItem(false, title, detail)));
}

/* All warnings, as { title, detail }. */
export const warnings = () => [
  ...effectWarnings(),
  ...(model.reach ? [] : [{ title: "The effect on the running cluster is unknown", detail: "No preview has ended." }]),
  ...checkWarnings(),
  ...(model.checked ? [] : [{ title: "The solver has not checked these weights", detail: "" }]),
  ...weightWarnings(),
];

const effectWarnings = () => [fallenJobs(), shortOfPicks(), outsideBounds(), unproven()].filter(Boolean);

/* Attainment of a job now and after the migrations allowed. */
export const attainments = ({ attainment, ratio }) => [attainment, attainment * ratio[model.reach.index]];

/* Jobs that would miss their target, lowest first; at most twenty are known by name. */
export function fallenList() {
  const { curve } = model.reach;
  return curve.falling
    .filter((job) => job.attainment >= 1 && attainments(job)[1] < 1)
    .sort((a, b) => attainments(a)[1] - attainments(b)[1]);
}

function fallenJobs() {
  if (!model.reach) return null;
  const count = model.reach.curve.fallen[model.reach.index];
  if (!count) return null;
  const [worst] = fallenList();
  const [before, after] = attainments(worst);
  return {
    title: `${count === 1 ? "One job misses its target" : `${spelled(count)} jobs miss their targets`}`,
    detail: `Worst: ${worst.name}, from ${before.toFixed(2)} to ${after.toFixed(2)} × target.`,
  };
}

/* Objectives in which the reachable placement is worse than every pick. */
function shortOfPicks() {
  const { picks, rule } = model.draft.state;
  if (!model.reach || rule !== "spread" || !picks.length) return null;
  const reached = valuesAt(model.reach.index);
  const parts = OBJECTIVES.map((o) => {
    const values = picks.map((pick) => model.points.values(pick.point)[o]);
    const [low, high] = [Math.min(...values), Math.max(...values)];
    const isWorse = HIGHER[o] ? reached[o] < low - CLEARLY : reached[o] > high + CLEARLY;
    if (!isWorse) return "";
    const text = (value) => formatRaw(o, rawOf(o, value));
    return `${NAMES[o]} ${text(reached[o])}, your picks ${text(low)} to ${text(high)}`;
  }).filter(Boolean);
  if (!parts.length) return null;
  const count = counted(model.reach.curve.moves[model.reach.index], "migration");
  return { title: "◆ stops short of your picks", detail: `After ${count}: ${parts.join("; ")}.` };
}

/* Bounds that the reachable placement breaks. */
function outsideBounds() {
  if (!model.reach) return null;
  const broken = brokenBy(valuesAt(model.reach.index));
  if (!broken.length) return null;
  const reached = valuesAt(model.reach.index);
  const parts = broken.map(
    (o) => `${NAMES[o]} ${formatRaw(o, rawOf(o, reached[o]))}, bound ${formatRaw(o, rawOf(o, bounds()[o]))}`,
  );
  const count = counted(model.reach.curve.moves[model.reach.index], "migration");
  return { title: "◆ is outside your bounds", detail: `After ${count}: ${parts.join("; ")}.` };
}

function unproven() {
  const { optimal, gap } = model.checked?.star ?? { optimal: true };
  if (optimal || (gap !== null && gap <= MAX_GAP)) return null;
  const detail =
    gap === null ? "The solver has no bound." : `Solver gap ${percent(gap)}, limit ${percent(MAX_GAP, 0)}.`;
  return { title: "The free optimum is not proven best", detail };
}
