/* Weights from answers to "which of these two placements do you prefer?".

   The candidates are all weights on a grid over the triangle P + D + C = 1. An answer contradicts the weights under which
   the other placement is better; the weights that contradict the fewest answers remain. The derived weights are their
   mean, scaled so that the largest is 1. The next pair are the two placements, among those optimal under some remaining
   weights, that split the remaining weights most evenly, so that each answer halves them. The questions end when all
   remaining weights lead to one placement. */
import { counted, grouped } from "../format.js";
import { model } from "./model.js";
import { HIGHER, OBJECTIVES } from "./objectives.js";

const STEPS = 40;
const TOLERANCE = 1e-12;
const GRID = [];
for (let p = 0; p <= STEPS; p += 1)
  for (let d = 0; d <= STEPS - p; d += 1) GRID.push([p / STEPS, d / STEPS, (STEPS - p - d) / STEPS]);

/* The objectives of a placement, all to be minimised. */
function losses(point) {
  const values = model.points.values(point);
  return OBJECTIVES.map((o) => (HIGHER[o] ? 1 - values[o] : values[o]));
}

const weightedLoss = (weights, loss) => weights[0] * loss[0] + weights[1] * loss[1] + weights[2] * loss[2];

/* The weights that contradict the fewest answers, and the number of answers they contradict. */
export function remainingWeights(answers) {
  const preferences = answers
    .filter(({ skipped }) => !skipped)
    .map(({ better, worse }) => [losses(better), losses(worse)]);
  const contradicts = (weights, [better, worse]) =>
    weightedLoss(weights, worse) < weightedLoss(weights, better) - TOLERANCE;
  const counts = GRID.map((weights) => preferences.filter((preference) => contradicts(weights, preference)).length);
  const contradictions = Math.min(...counts);
  return { weights: GRID.filter((_, k) => counts[k] === contradictions), contradictions };
}

/* Placements optimal under some of the weights, as [point, losses]. */
function optimalPlacements(weights) {
  const { points } = model;
  const placements = points.shown.map((i) => [points.index[i], losses(points.index[i])]);
  const optimal = new Map();
  for (const candidate of weights) {
    let [best, minLoss] = [null, Infinity];
    for (const placement of placements) {
      const loss = weightedLoss(candidate, placement[1]);
      if (loss < minLoss) {
        minLoss = loss;
        best = placement;
      }
    }
    optimal.set(best[0], best[1]);
  }
  return [...optimal];
}

const pairKey = (a, b) => [a, b].sort().join();

/* The two placements to ask about next, or null. */
export function nextPair() {
  const { answers } = model.draft.state;
  const { weights } = remainingWeights(answers);
  const asked = new Set(answers.map(({ better, worse }) => pairKey(better, worse)));
  const placements = optimalPlacements(weights);
  let [pair, maxEvenness] = [null, 0];
  for (const [k, [a, lossA]] of placements.entries()) {
    for (const [b, lossB] of placements.slice(k + 1)) {
      if (asked.has(pairKey(a, b))) continue;
      const preferring = weights.filter((candidate) => weightedLoss(candidate, lossA) < weightedLoss(candidate, lossB));
      const share = preferring.length / weights.length;
      const evenness = Math.min(share, 1 - share);
      if (evenness > maxEvenness) {
        maxEvenness = evenness;
        pair = [a, b];
      }
    }
  }
  return pair;
}

/* The mean of the remaining weights, scaled so that the largest is 1. */
export function meanWeights(weights) {
  const sums = OBJECTIVES.map((_, k) => weights.reduce((sum, candidate) => sum + candidate[k], 0));
  const max = Math.max(...sums);
  return Object.fromEntries(OBJECTIVES.map((o, k) => [o, Number((sums[k] / max).toFixed(4))]));
}

/* Record an answer; the direct weights become the mean of the remaining ones. */
export function answerPair(better, worse, skipped = false) {
  const answers = [...model.draft.state.answers, { better, worse, skipped }];
  const direct = meanWeights(remainingWeights(answers).weights);
  model.draft.commit(skipped ? "skip a pair" : `prefer placement ${better} to ${worse}`, { answers, direct });
}

/* Progress of the questions as text, given the next pair or null. */
export function progressOf(pair) {
  const { answers } = model.draft.state;
  const { weights, contradictions } = remainingWeights(answers);
  const placements = optimalPlacements(weights);
  const count = counted(answers.length, "answer");
  const conflict = contradictions ? `; ${counted(contradictions, "answer")} in conflict with the others` : "";
  if (placements.length === 1)
    return {
      text: `Finished after ${count}: all remaining weights lead to placement ${placements[0][0]}${conflict}.`,
      isDone: true,
    };
  const remaining = `${grouped(placements.length)} placements`;
  if (pair) return { text: `${count}; ${remaining} remaining${conflict}`, isDone: false };
  return {
    text: `Finished after ${count}: no further pair distinguishes the ${remaining} remaining${conflict}. The weights are the mean of those that lead to them.`,
    isDone: true,
  };
}
