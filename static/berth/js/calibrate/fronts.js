/* The front and the version shown: polling, switching versions and stopping a search.

   Picks belong to a version. A newer version is offered; if it is chosen, each pick moves to the same or the nearest
   placement. Intermediate versions are deleted a day after the search and fronts some weeks later, unless a preference
   set of them was saved; picks of a deleted version are dropped. */
import { ApiError, call } from "../api.js";
import { byId } from "../dom.js";
import { problemText, toast, toastProblem } from "../notices.js";
import { isRunning, showFront } from "./front_status.js";
import {
  firstVersion,
  frontUrl,
  isStored,
  loadVersion,
  moveDraft,
  newestVersion,
  storeVersionInAddress,
  thinPoints,
  versionInAddress,
  versionNumbers,
} from "./front_versions.js";
import { model, publish, showBanner, updateAddress } from "./model.js";

const RUNNING_POLL_MS = 2000;
const IDLE_POLL_MS = 30_000;
const EVENT_DELAY_MS = 300;
const DEFAULT_THINNING = "200";
const THINNINGS = ["50", DEFAULT_THINNING, "2000"];
let timer = 0;
let nextPollAt = Infinity; // as performance.now() counts
let isLoading = false;
let isDeleted = false; // the front itself

const isPaused = () => document.querySelector("[data-act=pause]")?.getAttribute("aria-pressed") === "true";

export async function startFronts() {
  if ("missing" in model.page.dataset) updateAddress({ front: null, version: null });
  byId("cal-front").addEventListener("change", (event) => {
    location.href = `/calibrate/?front=${event.target.value}`;
  });
  byId("cal-version").addEventListener("change", (event) => switchTo(Number(event.target.value)));
  byId("cal-switch").addEventListener("click", () => switchTo(newestVersion()));
  byId("cal-stop")?.addEventListener("click", stopSearch);
  byId("cal-retry").addEventListener("click", () => {
    if (isDeleted) location.href = "/calibrate/";
    else refresh();
  });
  startThinning();
  document.addEventListener("berth:event", ({ detail: { name } }) => {
    if (name.startsWith("front.") || (isRunning() && name.startsWith("operation."))) pollWithin(EVENT_DELAY_MS);
  });
  await poll();
}

function startThinning() {
  const requested = new URLSearchParams(location.search).get("thin");
  const select = byId("cal-thin");
  select.value = THINNINGS.includes(requested) ? requested : DEFAULT_THINNING;
  select.addEventListener("change", () => {
    updateAddress({ thin: select.value === DEFAULT_THINNING ? null : select.value });
    return guarded(async () => {
      await thinPoints(model.points);
      publish("points");
    });
  });
}

/* ---- polling ---- */

/* Poll after so long, or earlier if that is planned: a burst of events does not postpone the poll. */
function pollWithin(ms) {
  const at = performance.now() + ms;
  if (at >= nextPollAt) return;
  clearTimeout(timer);
  nextPollAt = at;
  timer = setTimeout(() => {
    nextPollAt = Infinity;
    poll();
  }, ms);
}

async function poll() {
  if ((document.hidden || isPaused()) && model.front) pollWithin(RUNNING_POLL_MS);
  else await refresh();
}

async function refresh() {
  await guarded(async () => {
    model.front = await loadFront();
    if (model.front.versions.length) await updateVersion();
    if (model.draft.keepVersions(versionNumbers())) publish("draft");
    showFront();
  });
  if (!isDeleted) pollWithin(isRunning() ? RUNNING_POLL_MS : IDLE_POLL_MS);
}

async function loadFront() {
  try {
    return (await call("GET", frontUrl())).value;
  } catch (error) {
    isDeleted = error.status === 404;
    if (!isDeleted) throw error;
    byId("cal-retry").textContent = "Open the newest front";
    throw new ApiError(404, {
      title: "This front was deleted",
      detail:
        "Fronts without a saved preference set are deleted after some weeks. These placements can no longer be saved.",
    });
  }
}

/* Run requests; show a failure above the plots, which stay usable. */
export async function guarded(work) {
  try {
    await work();
    if (!isDeleted) byId("cal-problem").hidden = true;
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const { status, problem } = error;
    const retry = "The page retries automatically. Your picks are stored in this tab.";
    showBanner("cal-problem", problem.title, status ? problemText({ ...problem, title: "" }) : retry);
  }
}

/* ---- versions ---- */

/* Without picks, the newest version replaces the one shown. */
const followsNewest = () => model.draft.isEmpty && model.draft.state.rule === "spread" && !versionInAddress();

async function updateVersion() {
  const { version } = model.draft.state;
  if (!model.points) await openVersion(firstVersion());
  else if (!isStored(version) || (followsNewest() && newestVersion() > version)) {
    await openVersion(newestVersion());
    storeVersionInAddress(newestVersion());
  } else if (version !== model.version) await openVersionOfDraft();
}

/* Show a version and move the picks to it. */
async function openVersion(number) {
  const points = await loadVersion(number);
  await moveDraft(points);
  present(points);
}

async function openVersionOfDraft() {
  const { version } = model.draft.state;
  present(await loadVersion(version));
  storeVersionInAddress(version);
}

function present(points) {
  const nothing = { hover: null, lasso: null, between: null, derived: null, checked: null };
  Object.assign(model, nothing, { version: points.version, points });
  publish("points");
  publish("draft");
}

async function switchTo(number) {
  if (number === model.version || isLoading) return;
  isLoading = true;
  await guarded(async () => {
    await openVersion(number);
    storeVersionInAddress(number);
    showFront();
  });
  isLoading = false;
}

/* Show a changed draft. Undo and saved sets may lead to another version. */
export async function showDraft() {
  const { version } = model.draft.state;
  if (!model.points) return;
  if (version === model.version) {
    publish("draft");
    return;
  }
  isLoading = true;
  byId("cal-carried").hidden = true;
  await guarded(async () => {
    await openVersionOfDraft();
    showFront();
  });
  isLoading = false;
  if (model.version !== version) await refresh(); // the version may have been deleted
}

async function stopSearch() {
  byId("cal-stop").disabled = true;
  try {
    await call("POST", frontUrl("stop/"), {});
    toast("The search is stopping. Its placements so far are kept.");
    await poll();
  } catch (error) {
    toastProblem(error);
  }
  byId("cal-stop").disabled = false;
}
