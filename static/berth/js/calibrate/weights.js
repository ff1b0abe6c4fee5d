/* The weights: derived on the server after every change and shown as bars, with their range when one pick is left out,
   and in a sentence. */
import { ApiError, call } from "../api.js";
import { byId, element, icon, svgElement } from "../dom.js";
import { counted } from "../format.js";
import { problemText } from "../notices.js";
import { model, publish, setRequest, subscribe } from "./model.js";
import { isRefusedObjective, MIN_PICKS, NAMES, OBJECTIVES } from "./objectives.js";
import { measureUntilPainted } from "./screens.js";

let run = 0; // number of the last request
let lastRequest = "";
let changedAt = 0;

export function startWeights() {
  subscribe("draft", () => {
    changedAt = performance.now();
    derive();
  });
  new ResizeObserver(() => showBars()).observe(byId("cal-bars"));
}

/* The input that the rule still needs, as a sentence; empty if there is none. */
function missingInput() {
  const { rule } = model.draft.state;
  if (rule === "reference") return model.draft.state.reference ? "" : "Set a reference value for each objective.";
  if (rule === "pairs" && !model.draft.state.answers.length)
    return "Choose one of the two placements. Each answer narrows the weights.";
  if (rule === "direct" || rule === "pairs")
    return OBJECTIVES.some((o) => model.draft.state.direct[o] > 0) ? "" : "At least one weight must be greater than 0.";
  if (model.points.size < MIN_PICKS)
    return `This front has only ${counted(model.points.size, "placement")}, too few to derive weights from picks. Search for a new front when more jobs run, or choose the sliders.`;
  const more = MIN_PICKS - model.draft.state.picks.length;
  return more > 0
    ? `Accept ${["", "one more placement", "two more placements"][more] ?? "at least three placements"} to derive weights; ${MIN_PICKS} on each screen to save them.`
    : "";
}

async function derive() {
  if (!model.points) return;
  const body = JSON.stringify(setRequest());
  if (body === lastRequest && model.derived) return;
  lastRequest = body;
  run += 1;
  const current = run;
  const missing = missingInput();
  if (missing) {
    showWeights(null, missing);
    return;
  }
  const startedAt = changedAt;
  try {
    const { value } = await call("POST", "/api/v1/preference-sets/derive/", JSON.parse(body));
    if (current !== run) return;
    showWeights(value, value.sentence);
    measureUntilPainted("calibrate.weights", startedAt);
  } catch (error) {
    if (current !== run) return;
    if (!(error instanceof ApiError)) throw error;
    if (isRefusedObjective(error) && (await (await import("./left_out.js")).leaveOutDeleted())) return;
    if (current === run) showWeights(null, problemText(error.problem));
  }
}

function showWeights(derived, sentence) {
  model.derived = derived;
  if (!derived) model.checked = null;
  byId("cal-say").textContent = sentence;
  showBars();
  showWarnings();
  publish("derived");
}

const GUTTER = 112,
  TAIL = 34,
  HEAD = 14,
  STEP = 23,
  HEIGHT = 84;

const minMax = (values) => [Math.min(...values), Math.max(...values)];

/* Range of each weight when one pick is left out. */
function weightRanges() {
  const sensitivity = model.derived?.sensitivity ?? [];
  return Object.fromEntries(
    OBJECTIVES.map((o) => [o, sensitivity.length ? minMax(sensitivity.map(({ weights }) => weights[o])) : null]),
  );
}

function showBars() {
  const host = byId("cal-bars");
  const width = host.clientWidth;
  host.hidden = !model.derived;
  if (!model.derived || !width) {
    if (!model.derived) host.replaceChildren();
    return;
  }
  const { weights } = model.derived;
  const svg = svgElement("svg", { viewBox: `0 0 ${width} ${HEIGHT}`, height: HEIGHT, "aria-hidden": "true" });
  const X = (value) => GUTTER + value * (width - GUTTER - TAIL);
  for (const tick of [0, 0.5, 1]) {
    svgElement(
      "line",
      {
        x1: X(tick),
        x2: X(tick),
        y1: HEAD,
        y2: HEIGHT,
        class: tick ? "grid" : "axis",
        "shape-rendering": "crispEdges",
      },
      svg,
    );
    svgElement("text", { x: X(tick), y: 9, class: "mid dim" }, svg, tick);
  }
  const ranges = weightRanges();
  const order = [...OBJECTIVES].sort((a, b) => weights[b] - weights[a]);
  order.forEach((o, k) => {
    const y = HEAD + 13 + k * STEP;
    svgElement("text", { x: 0, y: y + 4 }, svg, `${o} ${NAMES[o]}`);
    svgElement("rect", { x: X(0), y: y - 6, width: Math.max(1, X(weights[o]) - X(0)), height: 12, class: "fa" }, svg);
    if (ranges[o]) whisker(svg, ranges[o].map(X), y);
    svgElement("text", { x: width, y: y + 4, class: "end strong" }, svg, weights[o].toFixed(2));
  });
  host.replaceChildren(svg);
  host.setAttribute(
    "aria-label",
    `Weights: ${order.map((o) => `${NAMES[o]} ${weights[o].toFixed(2)}${ranges[o] ? `, ${ranges[o][0].toFixed(2)} to ${ranges[o][1].toFixed(2)} when one pick is left out` : ""}`).join("; ")}`,
  );
}

function whisker(svg, [low, high], y) {
  if (high - low < 1) return;
  svgElement("path", { d: `M${low},${y}H${high}M${low},${y - 4}v8M${high},${y - 4}v8`, class: "st whisker" }, svg);
}

/* A list item with an icon: a tick, a warning triangle, or an i if `isFine` is "note". */
export function statusItem(isFine, title, more = "") {
  const item = element("li", "", isFine ? "" : "no");
  const words = element("div");
  words.append(element("b", title));
  if (more) words.append(element("p", more));
  item.append(isFine === "note" ? icon("info") : icon(isFine ? "check" : "tri", `ic ${isFine ? "ok" : "warn"}`), words);
  return item;
}

const MAX_CHANGE = 0.3; // of a weight when one pick is left out; above it, that pick decides

/* Add the number of the pick to each "placement N" in a text. */
function withPickNumbers(text) {
  return text.replace(/placement (\d+)/gi, (name, point) => {
    const k = model.draft.state.picks.findIndex((pick) => pick.point === Number(point));
    return k < 0 ? name : `${name} (pick ${k + 1})`;
  });
}

/* Warnings about the derived weights, as { title, detail }. */
export const weightWarnings = () =>
  (model.derived?.warnings ?? []).map((text) => ({ title: withPickNumbers(text), detail: "" }));

function showWarnings() {
  const { sensitivity = [] } = model.derived ?? {};
  const items = weightWarnings().map(({ title }) => statusItem(false, title));
  const maxChange = Math.max(0, ...sensitivity.map(({ change }) => change));
  if (sensitivity.length && maxChange <= MAX_CHANGE)
    items.push(
      statusItem(
        true,
        "No single pick decides the weights",
        `Without any one pick, weights change by at most ${maxChange.toFixed(2)} (limit ${MAX_CHANGE.toFixed(2)}).`,
      ),
    );
  byId("cal-warnings").replaceChildren(...items);
}
