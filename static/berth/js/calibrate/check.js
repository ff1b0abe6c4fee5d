/* What the solver itself returns under the weights: a star on the screens, and whether it lands among the picks. */
import { ApiError, call } from "../api.js";
import { problemText } from "../notices.js";
import { model, on, picking, tell } from "./model.js";
import { finding } from "./weights.js";
import { HIGHER, OBJECTIVES, byId, debounce, duration, element, grouped, many, percent, spelled } from "./words.js";

const WAIT_MS = 400;
const BUSY = 503;
const MOST_RETRIES = 2;
const RETRY_S = 2; // where a busy server does not say when
const TITLES = { inside: "The solver lands inside your picks", better: "The solver does better than your picks", outside: "The solver lands outside your picks" };
const NOTHING = "What the solver itself returns under these weights is shown here, and as a star on the screens.";
let turn = 0;
let isAsking = false;
let isNext = false; // a newer question waits for the answer to the one under way
const later = debounce(check, WAIT_MS);

export function startCheck() {
  on("derived", () => { turn += 1; later.stop(); if (model.derived) { wait(); later(); } else clear(); });
}

function say(meta, ...items) {
  byId("cal-check-meta").textContent = meta;
  byId("cal-check").replaceChildren(...items);
  dim(false);
}

function quiet() {
  const item = element("li");
  item.append(element("span"), element("p", NOTHING, "t3"));
  return item;
}

function clear() {
  say("", quiet());
  tell("checked");
}

/* What was found for other weights stays to be read, dimmed; what went wrong then is of no use any more. */
function wait() {
  if (model.checked) byId("cal-check-meta").textContent = "solving…"; else say("solving…", quiet());
  dim(Boolean(model.checked));
}

function dim(isOld) {
  byId("cal-check").classList.toggle("old", isOld);
  byId("cal-three").classList.toggle("solving", isOld);
}

/* One question is under way at a time; of those asked meanwhile only the last is asked. */
async function check() {
  if (isAsking) { isNext = true; return; }
  isAsking = true;
  try {
    do { isNext = false; await ask(turn); } while (isNext && model.derived);
  } finally { isAsking = false; }
}

async function ask(mine) {
  for (let retries = 0; mine === turn; retries += 1) {
    try {
      const { value } = await call("POST", "/api/v1/preference-sets/check/", picking());
      if (mine !== turn) return;
      model.checked = value;
      show();
      tell("checked");
      return;
    } catch (error) {
      if (mine !== turn) return;
      if (!(error instanceof ApiError)) throw error;
      if (error.status !== BUSY || retries === MOST_RETRIES) { refused(error); return; }
      byId("cal-check-meta").textContent = "The solver is busy, trying again";
      await new Promise((resolve) => { setTimeout(resolve, 1000 * (error.retryAfter ?? RETRY_S)); });
    }
  }
}

function refused({ status, problem }) {
  model.checked = null;
  const item = status === BUSY
    ? finding(false, "The solver is busy", problemText({ ...problem, title: "", detail: "It was asked three times and has not answered. The weights stand all the same." }))
    : finding(false, problem.title, problemText({ ...problem, title: "" }));
  item.lastChild.append(offer("Check again", () => { wait(); check(); }));
  say("", item);
  tell("checked");
}

function show() {
  const { star, position, sentence, unreachable } = model.checked;
  const meta = star.optimal ? `proven best in ${duration(star.seconds)}` : `${star.gap === null ? "no bound" : star.gap < 0.0005 ? "gap under 0.1 %" : `gap ${percent(star.gap)}`} after ${duration(star.seconds)}`;
  const parts = [finding(position !== "outside", TITLES[position] ?? "The solver's own answer", sentence)];
  const beaten = beatenBy(star.normalised);
  if (beaten) parts.push(tooBrief(beaten));
  if (unreachable.length) parts.push(unreached(unreachable, position));
  say(meta, ...parts);
}

const CLEARLY = 1e-6; // normalised

/* Placements of the front that the solver's answer is better than in everything. */
function beatenBy(star) {
  const { points } = model;
  const isBetter = (i) => OBJECTIVES.every((o) => (star[o] - points.normalised[o][i]) * (HIGHER[o] ? 1 : -1) > CLEARLY);
  return points.every.filter(isBetter).length;
}

/* No placement of a front that was searched to its end is beaten in everything. */
function tooBrief(beaten) {
  const all = model.points.size;
  const what = beaten === all ? "every placement of this front" : `${grouped(beaten)} of the ${many(all, "placement")} of this front`;
  return finding("note", "This front was searched too briefly", `The solver's answer is better in power, diversity and crossing traffic than ${what}. A new front with more time comes closer to it.`);
}

function offer(text, work) {
  const box = element("div", "", "offers");
  const button = element("button", text, "btn small", { type: "button" });
  button.addEventListener("click", work);
  box.append(button);
  return box;
}

/* Picks that no weights bring back, by their numbers, and what one may do about it. That is usual, and no fault: only
   where the star lies off the picks it is worth a warning. */
function unreached(points, position) {
  const numbers = points.map((point) => model.draft.state.picks.findIndex((pick) => pick.point === point) + 1).filter(Boolean).sort((a, b) => a - b);
  const named = numbers.length > 1 ? `Picks ${numbers.slice(0, -1).join(", ")} and ${numbers.at(-1)}` : `Pick ${numbers[0]}`;
  const few = numbers.length <= 4;
  const show_ = numbers.length > 1 ? "show" : "shows";
  const item = finding(position === "outside" ? false : "note", few ? `${named} ${show_} a direction only` : `${spelled(numbers.length)} picks ${show_} a direction only`, `${few ? "" : `${named}. `}A weighted sum returns only placements on the convex part of a front, and ${numbers.length > 1 ? "these lie" : "this lies"} off it. The picks count for the weights all the same; what will be done is the star.`);
  const box = offer("Wish for centre", () => wish(points));
  const { nearest } = model.checked;
  if (model.points.has(nearest)) {
    const star = element("button", "Accept nearest to ★", "btn small", { type: "button", title: `Accepts placement ${nearest}, the placement of the front nearest to the star` });
    star.addEventListener("click", () => model.draft.accept(nearest, model.screen, model.points.name(nearest)));
    box.append(star);
  }
  const drop = element("button", "Remove", "btn small quiet", { type: "button", title: `Remove ${named.toLowerCase()}` });
  const gone = new Set(points);
  drop.addEventListener("click", () => model.draft.follow(`remove ${named.toLowerCase()}`, { picks: model.draft.state.picks.filter((pick) => !gone.has(pick.point)) }));
  box.append(drop);
  item.lastChild.append(box);
  return item;
}

/* A reference point reaches where weights from spread do not: begin it at the centre of those picks. */
function wish(points) {
  const values = points.map((point) => model.points.values(point));
  const reference = Object.fromEntries(OBJECTIVES.map((o) => [o, values.reduce((sum, one) => sum + one[o], 0) / values.length]));
  model.draft.follow("wish for the centre of picks that cannot be returned", { rule: "reference", reference });
}
