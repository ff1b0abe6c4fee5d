/* Weights from the picks or as given: asked of the server after every change, drawn as bars with the range they have
   when one pick is left out, and said in a sentence. */
import { ApiError, call } from "../api.js";
import { problemText } from "../notices.js";
import { model, on, picking, tell } from "./model.js";
import { measured } from "./screens.js";
import { FEWEST, NAMES, OBJECTIVES, byId, drawn, element, icon } from "./words.js";

let turn = 0;
let last = "";
let changedAt = 0;

export function startWeights() {
  on("draft", () => { changedAt = performance.now(); derive(); });
  new ResizeObserver(() => bars()).observe(byId("cal-bars"));
}

/* What the rule still lacks, or nothing. */
function lacking() {
  const { rule } = model.draft.state;
  if (rule === "reference") return model.draft.state.reference ? "" : "Say what value of each objective you would like to reach.";
  if (rule === "pairs" && !model.draft.state.answers.length) return "Say which of two placements you would rather have; each answer narrows the weights.";
  if (rule === "direct" || rule === "pairs") return OBJECTIVES.some((o) => model.draft.state.direct[o] > 0) ? "" : "At least one weight must be above 0.";
  const more = FEWEST - model.draft.state.picks.length;
  return more > 0 ? `Accept ${["", "one more placement", "two more placements"][more] ?? "at least three placements"} to derive weights; ${FEWEST} on each screen to save them.` : "";
}

async function derive() {
  if (!model.points) return;
  const body = JSON.stringify(picking());
  if (body === last && model.derived) return;
  last = body;
  const mine = (turn += 1);
  const missing = lacking();
  if (missing) { settle(null, missing); return; }
  const began = changedAt;
  try {
    const { value } = await call("POST", "/api/v1/preference-sets/derive/", JSON.parse(body));
    if (mine !== turn) return;
    settle(value, value.sentence);
    measured("calibrate.weights", began);
  } catch (error) {
    if (mine !== turn) return;
    if (!(error instanceof ApiError)) throw error;
    settle(null, problemText(error.problem));
  }
}

function settle(derived, said) {
  model.derived = derived;
  if (!derived) model.checked = null;
  byId("cal-say").textContent = said;
  bars();
  warnings();
  tell("derived");
}

const GUTTER = 112, TAIL = 34, HEAD = 14, STEP = 23, HEIGHT = 84;

/* Lowest and highest of each weight when one pick is left out. */
function whiskers() {
  const without = model.derived?.sensitivity ?? [];
  return Object.fromEntries(OBJECTIVES.map((o) => [o, without.length ? [Math.min(...without.map((one) => one.weights[o])), Math.max(...without.map((one) => one.weights[o]))] : null]));
}

function bars() {
  const host = byId("cal-bars");
  const width = host.clientWidth;
  host.hidden = !model.derived;
  if (!model.derived || !width) { if (!model.derived) host.replaceChildren(); return; }
  const { weights } = model.derived;
  const svg = drawn("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, height: HEIGHT, "aria-hidden": "true" });
  const X = (value) => GUTTER + value * (width - GUTTER - TAIL);
  for (const tick of [0, 0.5, 1]) {
    drawn("line", { x1: X(tick), x2: X(tick), y1: HEAD, y2: HEIGHT, class: tick ? "grid" : "axis", "shape-rendering": "crispEdges" }, svg);
    drawn("text", { x: X(tick), y: 9, class: "mid dim" }, svg, tick);
  }
  const ranges = whiskers();
  const order = [...OBJECTIVES].sort((a, b) => weights[b] - weights[a]);
  order.forEach((o, k) => {
    const y = HEAD + 13 + k * STEP;
    drawn("text", { x: 0, y: y + 4 }, svg, `${o} ${NAMES[o]}`);
    drawn("rect", { x: X(0), y: y - 6, width: Math.max(1, X(weights[o]) - X(0)), height: 12, class: "fa" }, svg);
    if (ranges[o]) whisker(svg, ranges[o].map(X), y);
    drawn("text", { x: width, y: y + 4, class: "end strong" }, svg, weights[o].toFixed(2));
  });
  host.replaceChildren(svg);
  host.setAttribute("aria-label", `Weights: ${order.map((o) => `${NAMES[o]} ${weights[o].toFixed(2)}${ranges[o] ? `, ${ranges[o][0].toFixed(2)} to ${ranges[o][1].toFixed(2)} when one pick is left out` : ""}`).join("; ")}`);
}

function whisker(svg, [low, high], y) {
  if (high - low < 1) return;
  drawn("path", { d: `M${low},${y}H${high}M${low},${y - 4}v8M${high},${y - 4}v8`, class: "st whisker" }, svg);
}

/* One thing found: a tick, a triangle, or where it is neither (`"note"`) an i; what it is, and what follows. */
export function finding(isFine, title, more = "") {
  const item = element("li", "", isFine ? "" : "no");
  const words = element("div");
  words.append(element("b", title));
  if (more) words.append(element("p", more));
  item.append(isFine === "note" ? icon("info") : icon(isFine ? "check" : "tri", `ic ${isFine ? "ok" : "warn"}`), words);
  return item;
}

const DECIDES = 0.3; // a weight that moves by more when one pick is left out hangs on that pick

/* Sentences name placements by their number on the front; the list on the page numbers the picks. */
function numbered(text) {
  return text.replace(/placement (\d+)/gi, (said, point) => {
    const k = model.draft.state.picks.findIndex((pick) => pick.point === Number(point));
    return k < 0 ? said : `${said} (pick ${k + 1})`;
  });
}

function warnings() {
  const { warnings: found = [], sensitivity = [] } = model.derived ?? {};
  const items = found.map((text) => finding(false, numbered(text)));
  const most = Math.max(0, ...sensitivity.map((one) => one.change));
  if (sensitivity.length && most <= DECIDES) items.push(finding(true, "No single pick decides", `Without one a weight moves by ${most.toFixed(2)} at most, limit ${DECIDES.toFixed(2)}.`));
  byId("cal-warnings").replaceChildren(...items);
}
