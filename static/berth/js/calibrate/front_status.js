/* The facts of the front: workload, version, drift and progress of its search. */
import { byId, element, showExplained, svgElement } from "../dom.js";
import { clusterTime, counted, duration, grouped, percent } from "../format.js";
import { frontUrl, MAX_POINTS, newestVersion } from "./front_versions.js";
import { model, publish, showBanner } from "./model.js";

export const isRunning = () => ["pending", "running"].includes(model.front?.state);
const volumeText = (volume) => `hypervolume ${volume.toFixed(3)}`;

export function showFront() {
  const { front } = model;
  const version = front.versions.find(({ number }) => number === model.version);
  byId("cal-workload").textContent = workloadText(front);
  showExplained(byId("cal-search"), version ? versionText(version, front) : "no placements yet");
  byId("cal-rest").href = frontUrl(`points/?version=${model.version}&most=${MAX_POINTS}`);
  showVersions();
  showDrift();
  showProgress();
  showNewer();
  publish("front");
}

function workloadText({ source, cluster_seconds: seconds, moments, containers, nodes, coverage }) {
  const time = source !== "cluster" ? "an instance" : seconds === null ? "loading" : clusterTime(seconds);
  const span = moments.length ? `mean of ${moments.length} moments, ${clusterTime(moments[0])} to ${time}` : time;
  if (!containers) return span;
  const covered = coverage ? `, ${percent(coverage.still_share, 0)} of those running now` : "";
  return `${span}, ${counted(containers, "container")} on ${counted(nodes, "server")}${covered}`;
}

/* How long the front is expected to stay valid, from the measured change of the mix. */
function validityText(coverage) {
  if (!coverage) return "";
  const { good_for_seconds: left, measured_seconds: measured } = coverage;
  if (left === 0) return "";
  if (left !== null) return `, valid for about ${duration(left)} of cluster time`;
  return measured ? `, which the mix did not reach in ${duration(measured)}` : "";
}

export function versionText(version, { history, versions }) {
  const { generations, points, hypervolume, is_exact: isExact } = version;
  const last = history.at(-1);
  const isCurrent = version === versions.at(-1) && last?.hypervolume === hypervolume;
  const all = isCurrent ? Math.max(generations, last.generation) : generations;
  const better = all > generations ? `, nothing better since generation ${grouped(generations)}` : "";
  const exact = isExact ? ", proven complete" : "";
  return `${counted(all, "generation")}, ${counted(points, "placement")}, ${volumeText(hypervolume)}${better}${exact}`;
}

function showVersions() {
  const { versions } = model.front;
  const select = byId("cal-version");
  const names = versions.map(({ number }) => `v${number}`);
  if ([...select.options].map((option) => option.text).join() !== names.join())
    select.replaceChildren(...versions.map(({ number }, k) => new Option(names[k], number)));
  select.disabled = !versions.length;
  select.value = String(model.version);
}

/* Offer the newest version if an older one is shown. */
function showNewer() {
  const isOlder = Boolean(model.version) && newestVersion() > model.version;
  byId("cal-newer").hidden = !isOlder;
  if (!isOlder) return;
  const { number, points, hypervolume } = model.front.versions.at(-1);
  showBanner(
    "cal-newer",
    `Version ${number} has ${counted(points, "placement")}, ${volumeText(hypervolume)}`,
    `Your picks are on version ${model.version}. If you switch, each pick moves to the same or the nearest placement.`,
  );
}

function showDrift() {
  const { drift, coverage } = model.front;
  byId("cal-drift-fact").hidden = !drift;
  const isOverLimit = Boolean(drift) && drift.share > drift.limit;
  byId("cal-drifted").hidden = !isOverLimit;
  if (!drift) return;
  const limit = element("span", `of the mix, limit ${percent(drift.limit, 0)}${validityText(coverage)}`, "iv");
  byId("cal-drift").replaceChildren(`${percent(drift.share)} `, limit);
  if (!isOverLimit) return;
  const advice = "Search for a new front before you use its weights.";
  showBanner("cal-drifted", "The workload has changed since this front was searched", `${drift.sentence} ${advice}`);
}

function showProgress() {
  const { front } = model;
  const box = byId("cal-progress");
  box.hidden = !isRunning() && !["failed", "cancelled"].includes(front.state);
  box.classList.toggle("bad", front.state === "failed");
  if (box.hidden) return;
  const share = front.total ? front.progress / front.total : 0;
  box.querySelector("b").textContent = progressTitle(front, share);
  box.querySelector("p").textContent = progressText(front);
  byId("cal-share").value = share;
  const stopButton = byId("cal-stop");
  if (stopButton) stopButton.hidden = !isRunning();
  showHypervolume(front.history);
}

function progressTitle({ name, state, budget_seconds: budget }, share) {
  return {
    pending: `${name} is waiting for a worker`,
    running: `Searching ${name}, ${percent(share, 0)} of ${duration(budget)}`,
    failed: `The search for ${name} failed`,
    cancelled: `The search for ${name} was stopped`,
  }[state];
}

function progressText({ state, message, history, versions, problem }) {
  const last = history.at(-1);
  const reached = last
    ? `Generation ${grouped(last.generation)}, ${counted(last.points, "placement")}, ${volumeText(last.hypervolume)}`
    : "Reading the cluster";
  const waits = message || "The search starts automatically";
  const parts = state === "pending" ? [waits, "You can leave this page"] : [reached];
  if (versions.length) parts.push(`You can pick placements${isRunning() ? " during the search" : ""}`);
  const failure = state === "failed" ? (problem?.detail ?? problem?.title ?? "") : "";
  return `${parts.join(". ")}. ${failure}`.trim();
}

/* Hypervolume by generation. */
function showHypervolume(history) {
  const svg = byId("cal-spark");
  svg.replaceChildren();
  if (history.length < 2) return;
  const [volumes, last] = [history.map(({ hypervolume }) => hypervolume), history.at(-1).generation || 1];
  const [low, high] = [Math.min(...volumes), Math.max(...volumes)];
  const point = ({ generation, hypervolume }) =>
    `${(1 + (94 * generation) / last).toFixed(1)},${(25 - (22 * (hypervolume - low)) / (high - low || 1)).toFixed(1)}`;
  svgElement("path", { d: `M${history.map(point).join("L")}`, class: "ln sa" }, svg);
  const label = `Hypervolume by generation, from ${low.toFixed(3)} to ${high.toFixed(3)} in ${grouped(last)} generations`;
  svg.setAttribute("aria-label", label);
}
