/* The rule that derives the weights, and its inputs: a reference point, sliders, or pairwise answers. */

import { byId, element } from "../dom.js";
import { mean } from "../format.js";
import { model, subscribe } from "./model.js";
import { arrow, formatRaw, NAMES, OBJECTIVES, RULES } from "./objectives.js";

let shownRule = "";

export function startRules() {
  byId("cal-rule").addEventListener("change", (event) => selectRule(event.target.value));
  subscribe("draft", show);
}

function selectRule(rule) {
  const values = { rule };
  if (rule === "reference" && !model.draft.state.reference) values.reference = initialReference();
  if (rule === "direct" && model.derived) values.direct = { ...model.derived.weights };
  if (rule === "pairs") values.answers = [];
  model.draft.commit(`select the rule ${RULES[rule]}`, values);
}

/* The first reference point: the centre of the picks, the current placement, or the middle of the front. */
function initialReference() {
  const { front, points, draft } = model;
  const now = front.anchors.find((anchor) => anchor.name === "now");
  const picks = draft.state.picks.map((pick) => points.values(pick.point));
  if (!picks.length && now) return { ...now.normalised };
  const centre = (o) => mean(picks.length ? picks.map((values) => values[o]) : points.extent[o]);
  return Object.fromEntries(OBJECTIVES.map((o) => [o, Number(centre(o).toFixed(3))]));
}

function show() {
  if (!model.points) return;
  const { rule } = model.draft.state;
  byId("cal-rule").value = rule;
  const host = byId("cal-inputs");
  if (rule === "pairs") {
    shownRule = rule;
    import("./pairs.js").then(({ showPair }) => {
      if (model.draft.state.rule === "pairs") showPair(host);
    });
    return;
  }
  if (shownRule !== rule) {
    shownRule = rule;
    host.replaceChildren(...(rule === "spread" ? [] : OBJECTIVES.map((o) => slider(rule, o))));
  }
  if (rule !== "spread") for (const input of host.querySelectorAll("input")) showValue(input, rule);
}

function slider(rule, o) {
  const row = element("div", "", "rule-input");
  const id = `cal-input-${o}`;
  const label = element("label", rule === "direct" ? `${o} ${NAMES[o]}` : `${o} ${NAMES[o]} ${arrow(o)}`, "", {
    for: id,
  });
  const input = element("input", "", "", {
    id,
    type: "range",
    "data-objective": o,
    step: rule === "direct" ? "0.01" : "0.001",
  });
  const [low, high] = rule === "direct" ? [0, 1] : model.points.extent[o];
  Object.assign(input, { min: low, max: high });
  const output = element("output", "", "", { for: id });
  input.addEventListener("input", () => {
    output.textContent = valueText(rule, o, Number(input.value));
  });
  input.addEventListener("change", () => {
    const key = rule === "direct" ? "direct" : "reference";
    model.draft.commit(`set ${NAMES[o]} to ${Number(input.value).toFixed(2)}`, {
      [key]: { ...model.draft.state[key], [o]: Number(input.value) },
    });
  });
  row.append(label, input, output);
  return row;
}

const valueText = (rule, o, value) =>
  rule === "direct"
    ? value.toFixed(2)
    : formatRaw(o, value * (model.front.scales[o] ?? 0)).replace(/ (points|containers?)$/, "");

function showValue(input, rule) {
  const o = input.dataset.objective;
  const value = (rule === "direct" ? model.draft.state.direct : model.draft.state.reference)[o];
  input.value = value;
  input.parentNode.querySelector("output").textContent = valueText(rule, o, value);
}
