/* What the solver itself returns under the weights: a star on the screens, and whether it lands among the picks. */
import { ApiError, call } from "../api.js";
import { problemText } from "../notices.js";
import { model, on, picking, tell } from "./model.js";
import { finding } from "./weights.js";
import { byId, debounce, duration, element, percent, spelled } from "./words.js";

const WAIT_MS = 400;
const TITLES = { inside: "The solver lands inside your picks", better: "The solver does better than your picks", outside: "The solver lands outside your picks" };
const NOTHING = "What the solver itself returns under these weights is shown here, and as a star on the screens.";
let turn = 0;
const later = debounce(check, WAIT_MS);

export function startCheck() {
  on("derived", () => { turn += 1; later.stop(); if (model.derived) { wait(); later(); } else clear(); });
}

function clear() {
  byId("cal-check-meta").textContent = "";
  const item = element("li");
  item.append(element("span"), element("p", NOTHING, "t3"));
  byId("cal-check").replaceChildren(item);
  tell("checked");
}

function wait() { byId("cal-check-meta").textContent = "solving…"; }

async function check() {
  const mine = (turn += 1);
  try {
    const { value } = await call("POST", "/api/v1/preference-sets/check/", picking());
    if (mine !== turn) return;
    model.checked = value;
    show();
  } catch (error) {
    if (mine !== turn) return;
    if (!(error instanceof ApiError)) throw error;
    model.checked = null;
    byId("cal-check-meta").textContent = "";
    const item = finding(false, error.problem.title, problemText({ ...error.problem, title: "" }));
    item.lastChild.append(offer("Check again", () => { wait(); check(); }));
    byId("cal-check").replaceChildren(item);
  }
  tell("checked");
}

function show() {
  const { star, position, sentence, unreachable } = model.checked;
  byId("cal-check-meta").textContent = star.optimal ? `proven best in ${duration(star.seconds)}` : `${star.gap === null ? "no bound" : star.gap < 0.0005 ? "gap under 0.1 %" : `gap ${percent(star.gap)}`} after ${duration(star.seconds)}`;
  const first = finding(position !== "outside", TITLES[position] ?? "The solver's own answer", sentence);
  const parts = [first];
  if (unreachable.length) parts.push(unreached(unreachable));
  byId("cal-check").replaceChildren(...parts);
}

function offer(text, work) {
  const box = element("div", "", "offers");
  const button = element("button", text, "btn small", { type: "button" });
  button.addEventListener("click", work);
  box.append(button);
  return box;
}

/* Picks that no weights can bring back, by their numbers, and what one may do about it. */
function unreached(points) {
  const numbers = points.map((point) => model.draft.state.picks.findIndex((pick) => pick.point === point) + 1).filter(Boolean);
  const named = numbers.length > 1 ? `Picks ${numbers.slice(0, -1).join(", ")} and ${numbers.at(-1)}` : `Pick ${numbers[0]}`;
  const few = numbers.length <= 4;
  const item = finding(false, few ? `${named} cannot be returned` : `${spelled(numbers.length)} picks cannot be returned`, `${few ? "" : `${named}. `}No weights lead there: a weighted sum only returns what no mix of other placements beats.`);
  const box = offer("Wish for centre", () => wish(points));
  const { nearest } = model.checked;
  if (model.points.has(nearest)) {
    const star = element("button", "Accept ★", "btn small", { type: "button", title: `Placement ${nearest} is the nearest to it on the front` });
    star.addEventListener("click", () => model.draft.accept(nearest, model.screen, model.points.name(nearest)));
    box.append(star);
  }
  const drop = element("button", "Remove", "btn small quiet", { type: "button" });
  const gone = new Set(points);
  drop.addEventListener("click", () => model.draft.follow(`remove ${named.toLowerCase()}`, { picks: model.draft.state.picks.filter((pick) => !gone.has(pick.point)) }));
  box.append(drop);
  item.lastChild.append(box);
  return item;
}

/* A reference point reaches where weights from spread do not: begin it at the centre of those picks. */
function wish(points) {
  const values = points.map((point) => model.points.values(point));
  const reference = Object.fromEntries(["P", "D", "C"].map((o) => [o, values.reduce((sum, one) => sum + one[o], 0) / values.length]));
  model.draft.follow("wish for the centre of picks that cannot be returned", { rule: "reference", reference });
}
