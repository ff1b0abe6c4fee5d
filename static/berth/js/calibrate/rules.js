/* The rule by which weights come about, and what it asks for besides picks: a wished-for point, sliders, or duels. */
import { answerDuel, duel, progressOf } from "./duels.js";
import { model, on } from "./model.js";
import { point } from "./screens.js";
import { NAMES, OBJECTIVES, arrow, byId, element, raw } from "./words.js";

const WORDS = { spread: "inverse spread", reference: "reference point", direct: "sliders", pairs: "pairwise" };
let drawnFor = "";

export function startRules() {
  byId("cal-rule").addEventListener("change", (event) => choose(event.target.value));
  on("draft", show);
}

function choose(rule) {
  const values = { rule };
  if (rule === "reference" && !model.draft.state.reference) values.reference = beginning();
  if (rule === "direct" && model.derived) values.direct = { ...model.derived.weights };
  if (rule === "pairs") values.answers = [];
  model.draft.follow(`choose the rule ${WORDS[rule]}`, values);
}

/* A wish begins at the centre of the picks, or where the cluster is now, or in the middle of the front. */
function beginning() {
  const { picks } = model.draft.state;
  const now = model.front.anchors.find((anchor) => anchor.name === "now");
  if (!picks.length && now) return { ...now.normalised };
  const values = picks.map((pick) => model.points.values(pick.point));
  return Object.fromEntries(OBJECTIVES.map((o) => {
    const [low, high] = model.points.extent[o];
    return [o, Number((values.length ? values.reduce((sum, one) => sum + one[o], 0) / values.length : (low + high) / 2).toFixed(3))];
  }));
}

function show() {
  if (!model.points) return;
  const { rule } = model.draft.state;
  byId("cal-rule").value = rule;
  const host = byId("cal-inputs");
  if (rule === "pairs") { drawnFor = rule; duels(host); return; }
  if (drawnFor !== rule) {
    drawnFor = rule;
    host.replaceChildren(...(rule === "spread" ? [] : OBJECTIVES.map((o) => slider(rule, o))));
  }
  if (rule !== "spread") for (const input of host.querySelectorAll("input")) settle(input, rule);
}

function slider(rule, o) {
  const row = element("div", "", "rule-input");
  const id = `cal-input-${o}`;
  const label = element("label", rule === "direct" ? `${o} ${NAMES[o]}` : `${o} ${NAMES[o]} ${arrow(o)}`, "", { for: id });
  const input = element("input", "", "", { id, type: "range", "data-objective": o, step: rule === "direct" ? "0.01" : "0.001" });
  const [low, high] = rule === "direct" ? [0, 1] : model.points.extent[o];
  Object.assign(input, { min: low, max: high });
  const output = element("output", "", "", { for: id });
  input.addEventListener("input", () => { output.textContent = told(rule, o, Number(input.value)); });
  input.addEventListener("change", () => {
    const key = rule === "direct" ? "direct" : "reference";
    model.draft.follow(`set ${NAMES[o]} to ${Number(input.value).toFixed(2)}`, { [key]: { ...model.draft.state[key], [o]: Number(input.value) } });
  });
  row.append(label, input, output);
  return row;
}

const told = (rule, o, value) => (rule === "direct" ? value.toFixed(2) : raw(o, value * (model.front.scales[o] ?? 0)).replace(/ (points|containers?)$/, ""));

function settle(input, rule) {
  const o = input.dataset.objective;
  const value = (rule === "direct" ? model.draft.state.direct : model.draft.state.reference)[o];
  input.value = value;
  input.parentNode.querySelector("output").textContent = told(rule, o, value);
}

/* ---- which of these two? ---- */

function duels(host) {
  const focused = host.contains(document.activeElement);
  const pair = duel();
  const { said, isDone } = progressOf(pair);
  const foot = element("div", "", "duel-foot");
  foot.append(element("span", said));
  if (isDone) { host.replaceChildren(foot); return; }
  const box = element("div", "", "duel", { role: "group", "aria-label": "Which of these two?" });
  pair.forEach((name, k) => box.append(card(name, pair[1 - k])));
  const skip = element("button", "Cannot say", "linkish push", { type: "button" });
  skip.addEventListener("click", () => answerDuel(pair[0], pair[1], true));
  foot.append(skip);
  host.replaceChildren(box, foot);
  if (focused) box.querySelector("button").focus();
}

function card(name, other) {
  const { points } = model;
  const i = points.at.get(name);
  const button = element("button", "", "btn", { type: "button" });
  button.append(element("b", `Placement ${name}`), ...OBJECTIVES.map((o) => element("span", raw(o, points.raw[o][i]))));
  button.addEventListener("click", () => answerDuel(name, other));
  button.addEventListener("pointerenter", () => point(name));
  button.addEventListener("pointerleave", () => point(null));
  button.addEventListener("focus", () => point(name));
  return button;
}
