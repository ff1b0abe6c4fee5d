/* The questions of the pairwise rule: two placements to choose from. */
import { element } from "../dom.js";
import { model } from "./model.js";
import { formatRaw, OBJECTIVES } from "./objectives.js";
import { answerPair, nextPair, progressOf } from "./pairwise.js";
import { point } from "./screens.js";

export function showPair(host) {
  const focused = host.contains(document.activeElement);
  const pair = nextPair();
  const { text, isDone } = progressOf(pair);
  const foot = element("div", "", "duel-foot");
  foot.append(element("span", text));
  if (isDone) {
    host.replaceChildren(foot);
    return;
  }
  const box = element("div", "", "duel", { role: "group", "aria-label": "Which placement do you prefer?" });
  box.append(card(pair[0], pair[1]), card(pair[1], pair[0]));
  const skip = element("button", "No preference", "linkish push", { type: "button" });
  skip.addEventListener("click", () => answerPair(pair[0], pair[1], true));
  foot.append(skip);
  host.replaceChildren(box, foot);
  if (focused) box.querySelector("button").focus();
}

function card(name, other) {
  const { points } = model;
  const i = points.at.get(name);
  const button = element("button", "", "btn", { type: "button" });
  button.append(
    element("b", `Placement ${name}`),
    ...OBJECTIVES.map((o) => element("span", formatRaw(o, points.raw[o][i]))),
  );
  button.addEventListener("click", () => answerPair(name, other));
  button.addEventListener("pointerenter", () => point(name));
  button.addEventListener("pointerleave", () => point(null));
  button.addEventListener("focus", () => point(name));
  return button;
}
