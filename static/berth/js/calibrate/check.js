/* The solver result under the weights: a star on the plots, and whether it is inside the range of the picks. */
import { ApiError, call } from "../api.js";
import { byId, debounce, element, showExplained } from "../dom.js";
import { counted, duration, grouped, mean, percent, spelled } from "../format.js";
import { problemText } from "../notices.js";
import { boundText } from "./bounds.js";
import { model, publish, setRequest, subscribe } from "./model.js";
import { HIGHER, isRefusedObjective, OBJECTIVES } from "./objectives.js";
import { statusItem } from "./weights.js";

const DELAY_MS = 400;
const BUSY = 503;
const MAX_RETRIES = 2;
const MAX_NAMED = 4; // picks named in a title
const RETRY_S = 2; // without a Retry-After header
const TITLES = {
  inside: "The solver result is inside your picks",
  better: "The solver result is better than your picks",
  outside: "The solver result is outside your picks",
};
const NO_RESULT = "The solver result under these weights is shown here and as a star on the plots.";
let run = 0; // number of the current weights
let isRequesting = false;
let isOutdated = false; // the weights changed during a request
const checkLater = debounce(check, DELAY_MS);

export function startCheck() {
  subscribe("derived", () => {
    run += 1;
    checkLater.stop();
    if (model.derived) {
      showWaiting();
      checkLater();
    } else clear();
  });
}

function showItems(meta, ...items) {
  showExplained(byId("cal-check-meta"), meta);
  byId("cal-check").replaceChildren(...items);
  dim(false);
}

function noResultItem() {
  const item = element("li");
  item.append(element("span"), element("p", NO_RESULT, "t3"));
  return item;
}

function clear() {
  showItems("", noResultItem());
  publish("checked");
}

/* Dim the result of earlier weights until the new one arrives; an earlier error is removed. */
function showWaiting() {
  if (model.checked) byId("cal-check-meta").textContent = "solving…";
  else showItems("solving…", noResultItem());
  dim(Boolean(model.checked));
}

function dim(isOld) {
  byId("cal-check").classList.toggle("old", isOld);
  byId("cal-three").classList.toggle("solving", isOld);
}

/* Only one request runs at a time. If the weights change meanwhile, the last ones are requested next. */
async function check() {
  if (isRequesting) {
    isOutdated = true;
    return;
  }
  isRequesting = true;
  try {
    do {
      isOutdated = false;
      await request(run);
    } while (isOutdated && model.derived);
  } finally {
    isRequesting = false;
  }
}

async function request(current) {
  for (let retries = 0; current === run; retries += 1) {
    try {
      const { value } = await call("POST", "/api/v1/preference-sets/check/", setRequest());
      if (current !== run) return;
      model.checked = value;
      show();
      publish("checked");
      return;
    } catch (error) {
      if (current !== run) return;
      if (!(error instanceof ApiError)) throw error;
      if (isRefusedObjective(error) && (await (await import("./left_out.js")).leaveOutDeleted())) return;
      if (error.status !== BUSY || retries === MAX_RETRIES) {
        showRefusal(error);
        return;
      }
      byId("cal-check-meta").textContent = "The solver is busy, retrying";
      await new Promise((resolve) => {
        setTimeout(resolve, 1000 * (error.retryAfter ?? RETRY_S));
      });
    }
  }
}

function showRefusal({ status, problem }) {
  model.checked = null;
  const item =
    status === BUSY
      ? statusItem(
          false,
          "The solver is busy",
          problemText({
            ...problem,
            title: "",
            detail: "It did not respond to three requests. The weights are still valid.",
          }),
        )
      : statusItem(false, problem.title, problemText({ ...problem, title: "" }));
  item.lastChild.append(
    buttonBox("Check again", () => {
      showWaiting();
      check();
    }),
  );
  showItems("", item);
  publish("checked");
}

/* Warnings about the solver result, as { title, detail }. */
export function checkWarnings() {
  const { position, sentence, unreachable = [] } = model.checked ?? {};
  const broken = boundWarning();
  const bounds = broken ? [broken] : [];
  if (position !== "outside") return bounds;
  const names = unreachable.length ? [unreachableText(unreachable)] : [];
  return [...bounds, { title: TITLES.outside, detail: sentence }, ...names];
}

function show() {
  const { star, position, sentence, unreachable } = model.checked;
  const meta = star.optimal
    ? `proven optimal in ${duration(star.seconds)}`
    : `${star.gap === null ? "no bound" : star.gap < 0.0005 ? "gap under 0.1 %" : `gap ${percent(star.gap)}`} after ${duration(star.seconds)}`;
  const parts = [statusItem(position !== "outside", TITLES[position] ?? "Solver result", sentence)];
  const dominated = dominatedBy(star.normalised);
  if (dominated) parts.push(shortSearchItem(dominated));
  const outside = boundItem();
  if (outside) parts.push(outside);
  if (unreachable.length) parts.push(unreachableItem(unreachable, position));
  showItems(meta, ...parts);
}

const CLEARLY = 1e-6; // normalised

/* Number of placements on the front that are worse than the solver result in every objective. */
function dominatedBy(star) {
  const { points } = model;
  const isBetter = (i) => OBJECTIVES.every((o) => (star[o] - points.normalised[o][i]) * (HIGHER[o] ? 1 : -1) > CLEARLY);
  return points.every.filter(isBetter).length;
}

/* The solver result dominates no placement of a front whose search was long enough. */
function shortSearchItem(dominated) {
  const all = model.points.size;
  const placements =
    dominated === all
      ? "every placement of this front"
      : `${grouped(dominated)} of the ${counted(all, "placement")} of this front`;
  return statusItem(
    "note",
    "The search for this front was too short",
    `The solver result is better in power, diversity and crossing traffic than ${placements}. Search for a new front with a longer search time.`,
  );
}

/* The bounds that the solver result breaks, as { title, detail }, or null. */
function boundWarning() {
  const { broken = [], bounded } = model.checked ?? {};
  if (!broken.length) return null;
  const { bounds } = model.draft.state;
  const texts = broken.map((o) => boundText(o, bounds[o])).join(" and ");
  const best =
    bounded === null
      ? "No placement of this front keeps all your bounds."
      : `The best placement of this front within your bounds is ${bounded} (☆). No weights may lead to it.`;
  return {
    title: `The solver result breaks ${broken.length === 1 ? "your bound" : "your bounds"}`,
    detail: `${texts}. ${best} Plans follow the weights, not the bounds.`,
  };
}

function boundItem() {
  if (!Object.keys(model.draft.state.bounds).length) return null;
  const warning = boundWarning();
  if (!warning) return statusItem(true, "The solver result keeps your bounds");
  const item = statusItem(false, warning.title, warning.detail);
  const { bounded } = model.checked;
  if (bounded !== null)
    item.lastChild.append(
      buttonBox(`Accept placement ${bounded}`, () =>
        model.draft.accept(bounded, model.screen, model.points.name(bounded)),
      ),
    );
  return item;
}

function buttonBox(text, work) {
  const box = element("div", "", "offers");
  const button = element("button", text, "btn small", { type: "button" });
  button.addEventListener("click", work);
  box.append(button);
  return box;
}

/* Picks that no weights can return, with actions. A warning only if the solver result is
   outside the picks. */
function unreachableItem(points, position) {
  const { title, detail } = unreachableText(points);
  const item = statusItem(position === "outside" ? false : "note", title, detail);
  item.lastChild.append(unreachableActions(points, pickNames(pickNumbers(points))));
  return item;
}

const pickNumbers = (points) =>
  points
    .map((point) => model.draft.state.picks.findIndex((pick) => pick.point === point) + 1)
    .filter(Boolean)
    .sort((a, b) => a - b);

function unreachableText(points) {
  const numbers = pickNumbers(points);
  const names = pickNames(numbers);
  const isOne = numbers.length === 1;
  const isShort = numbers.length <= MAX_NAMED;
  return {
    title: `${isShort ? names : `${spelled(numbers.length)} picks`} ${isOne ? "sets" : "set"} a direction only`,
    detail: `${isShort ? "" : `${names}. `}A weighted sum returns only placements on the convex part of a front, and ${isOne ? "this pick is" : "these picks are"} not on it. The picks still count for the weights. Plans use the solver result (★).`,
  };
}

const pickNames = (numbers) =>
  numbers.length > 1 ? `Picks ${numbers.slice(0, -1).join(", ")} and ${numbers.at(-1)}` : `Pick ${numbers[0]}`;

function unreachableActions(points, names) {
  const { draft, checked } = model;
  const { nearest } = checked;
  const box = buttonBox("Use centre as reference", () => useCentre(points));
  const add = (text, cls, title, work) => {
    const button = element("button", text, cls, { type: "button", title });
    button.addEventListener("click", work);
    box.append(button);
  };
  if (model.points.has(nearest))
    add(
      "Accept nearest to ★",
      "btn small",
      `Accept placement ${nearest}, the placement nearest to the solver result`,
      () => draft.accept(nearest, model.screen, model.points.name(nearest)),
    );
  const remaining = draft.state.picks.filter((pick) => !points.includes(pick.point));
  add("Remove", "btn small quiet", `Remove ${names.toLowerCase()}`, () =>
    draft.commit(`remove ${names.toLowerCase()}`, { picks: remaining }),
  );
  return box;
}

/* Switch to the reference-point rule, which can return such placements, starting at the centre of the picks. */
function useCentre(points) {
  const values = points.map((point) => model.points.values(point));
  const reference = Object.fromEntries(OBJECTIVES.map((o) => [o, mean(values.map((value) => value[o]))]));
  model.draft.commit("use the centre of unreachable picks as reference point", { rule: "reference", reference });
}
