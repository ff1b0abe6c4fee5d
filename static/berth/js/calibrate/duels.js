/* Weights from answers to "which of these two?".

   All weights on a grid over the triangle P + D + C = 1 stand to begin with. An answer rules out those under which the
   placement not chosen would be the better one; where answers contradict each other, those that break the fewest stay.
   The weights derived are the mean of what stands, the largest scaled to 1. The next question is about the two
   placements that split what stands most evenly, among those that are best under some of it, so that each answer halves
   what is left; it is over when all that stands leads to one placement. */
import { model } from "./model.js";
import { HIGHER, OBJECTIVES, grouped, many } from "./words.js";

const STEPS = 40;
const GRID = [];
for (let p = 0; p <= STEPS; p += 1) for (let d = 0; d <= STEPS - p; d += 1) GRID.push([p / STEPS, d / STEPS, (STEPS - p - d) / STEPS]);

/* What is minimised, of one placement. */
function losses(name) {
  const values = model.points.values(name);
  return OBJECTIVES.map((o) => (HIGHER[o] ? 1 - values[o] : values[o]));
}

const worth = (weights, loss) => weights[0] * loss[0] + weights[1] * loss[1] + weights[2] * loss[2];

/* Weights that break the fewest answers, and how many each of them breaks. */
function standing(answers) {
  const decided = answers.filter((one) => !one.skipped).map((one) => [losses(one.better), losses(one.worse)]);
  const broken = GRID.map((weights) => decided.reduce((sum, [better, worse]) => sum + (worth(weights, worse) < worth(weights, better) - 1e-12), 0));
  const least = Math.min(...broken);
  return { weights: GRID.filter((_, k) => broken[k] === least), broken: least };
}

/* Placements that are best under some of the weights, each once. */
function best(weights) {
  const { points } = model;
  const all = points.shown.map((i) => [points.index[i], losses(points.index[i])]);
  const found = new Map();
  for (const one of weights) {
    let [winner, least] = [null, Infinity];
    for (const entry of all) { const value = worth(one, entry[1]); if (value < least) { least = value; winner = entry; } }
    found.set(winner[0], winner[1]);
  }
  return [...found];
}

/* The two placements to ask about next, or null. */
export function duel() {
  const { answers } = model.draft.state;
  const { weights } = standing(answers);
  const known = new Set(answers.map((one) => [one.better, one.worse].sort().join()));
  const names = best(weights);
  let [found, most] = [null, 0];
  for (let a = 0; a < names.length; a += 1) {
    for (let b = a + 1; b < names.length; b += 1) {
      if (known.has([names[a][0], names[b][0]].sort().join())) continue;
      const share = weights.reduce((sum, one) => sum + (worth(one, names[a][1]) < worth(one, names[b][1])), 0) / weights.length;
      const even = Math.min(share, 1 - share);
      if (even > most) { most = even; found = [names[a][0], names[b][0]]; }
    }
  }
  return found;
}

/* Take an answer; the weights it leaves become the direct ones. */
export function answerDuel(better, worse, skipped = false) {
  const answers = [...model.draft.state.answers, { better, worse, skipped }];
  const { weights } = standing(answers);
  const sums = OBJECTIVES.map((_, k) => weights.reduce((sum, one) => sum + one[k], 0));
  const largest = Math.max(...sums);
  const direct = Object.fromEntries(OBJECTIVES.map((o, k) => [o, Number((sums[k] / largest).toFixed(4))]));
  model.draft.follow(skipped ? "leave a question open" : `prefer placement ${better} to ${worse}`, { answers, direct });
}

/* How far the questions have come, with the next one or null. */
export function progressOf(pair) {
  const { answers } = model.draft.state;
  const { weights, broken } = standing(answers);
  const names = best(weights);
  const against = broken ? `; ${many(broken, "answer")} against the others` : "";
  if (names.length === 1) return { said: `Finished after ${many(answers.length, "answer")}: all weights left lead to placement ${names[0][0]}${against}.`, isDone: true };
  if (!pair) return { said: `Finished after ${many(answers.length, "answer")}: no question is left that would tell the ${grouped(names.length)} placements still possible apart${against}. The weights lie in the middle of what leads to them.`, isDone: true };
  return { said: `${many(answers.length, "answer")}; ${grouped(names.length)} placements still possible${against}`, isDone: false };
}
