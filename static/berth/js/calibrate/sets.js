/* Preference sets: the saved sets, and the form that saves the current picks as one. */
import { ApiError, call } from "../api.js";
import { byId } from "../dom.js";
import { fullProblemText, toast, toastProblem } from "../notices.js";
import { showUnknown } from "./front_versions.js";
import { guarded } from "./fronts.js";
import { mayChange, model, publish, setRequest, subscribe, updateAddress } from "./model.js";
import { isRefusedObjective, MIN_PICKS, OBJECTIVES, SCREENS } from "./objectives.js";
import { showSets } from "./set_list.js";

export const SETS_URL = "/api/v1/preference-sets/";
export const sets = []; // newest first
let prefilledName = ""; // of a loaded set
let isStarted = false;

export function startSets() {
  byId("cal-form").addEventListener("submit", (event) => {
    event.preventDefault();
    saveWithNotice();
  });
  byId("cal-sets").addEventListener("click", onClick);
  subscribe("draft", updateName);
  subscribe("derived", updateButtons);
  subscribe("front", loadOnce);
}

/* As soon as there is a front, load the list and the set named in the address. */
async function loadOnce() {
  if (isStarted || !model.points) return;
  isStarted = true;
  await guarded(refreshSets);
  const [requested, parent] = [setInAddress(), model.draft.state.parent].map(setById);
  if (requested && requested !== parent) load(requested);
  else if (parent && isCurrent(parent) && !enteredName()) prefillName(parent.name);
}

function prefillName(name) {
  byId("cal-name").value = name;
  prefilledName = name;
}

/* Undo and redo can leave a loaded set and return to it: its name follows, unless another name was entered. */
function updateName() {
  const parent = setById(model.draft.state.parent);
  if (prefilledName && enteredName() === prefilledName && parent?.name !== prefilledName)
    prefillName(parent?.name ?? "");
  else if (parent && !enteredName() && isCurrent(parent)) prefillName(parent.name);
}

/* The inverse-spread rule needs enough picks on every screen; the other rules need none. */
function updateButtons() {
  const { rule } = model.draft.state;
  const { byScreen } = model.draft;
  const hasEnoughPicks = rule !== "spread" || SCREENS.every(({ name }) => byScreen[name].length >= MIN_PICKS);
  for (const id of ["cal-save", "cal-activate"]) byId(id).disabled = !model.derived || !hasEnoughPicks || !mayChange();
}

const setInAddress = () => new URLSearchParams(location.search).get("set");
export const setById = (id) => sets.find((set) => set.id === id);
const enteredName = () => byId("cal-name").value.trim();

/* Load the newest sets, and the current one even if it is older. */
export async function refreshSets() {
  const { results } = (await call("GET", `${SETS_URL}?limit=100`)).value;
  sets.splice(0, sets.length, ...results);
  for (const id of new Set([setInAddress(), model.draft.state.parent])) if (id && !setById(id)) await loadSet(id);
  showSets();
}

async function loadSet(id) {
  try {
    sets.push((await call("GET", `${SETS_URL}${encodeURIComponent(id)}/`)).value);
  } catch (error) {
    if (error.status !== 404) throw error; // the set was deleted
  }
}

/* ---- the form ---- */

const isCollapsed = () => getComputedStyle(byId("cal-name").closest(".field")).display === "none";

/* On a phone, the first tap shows the fields. Returns whether they were hidden. */
export function openFields() {
  if (!isCollapsed()) return false;
  byId("cal-form").classList.add("open");
  byId("cal-name").focus();
  return true;
}

export const closeFields = () => byId("cal-form").classList.remove("open");

async function saveWithNotice() {
  if (openFields()) return;
  byId("cal-save").disabled = true;
  try {
    const set = await saveSet();
    if (set) {
      toast(`Saved as ${set.name}.`);
      closeFields();
    }
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    showFieldError(byId("cal-name"), error.problem);
  }
  updateButtons();
}

/* Mark a field as invalid and show the reason, until it is edited. */
export function showFieldError(field, problem) {
  const line = byId("cal-error");
  line.textContent = fullProblemText(problem);
  line.hidden = false;
  field.setAttribute("aria-invalid", "true");
  field.focus();
  const clear = () => {
    field.removeAttribute("aria-invalid");
    line.hidden = true;
  };
  field.addEventListener("input", clear, { once: true });
}

const haveSameMembers = (some, others) => {
  const [a, b] = [new Set(some), new Set(others)];
  return a.size === b.size && [...a].every((member) => b.has(member));
};

const haveSameBounds = (some, others) =>
  Object.keys({ ...some, ...others }).every((o) => Math.abs(some[o] - others[o]) < 1e-12);

/* Whether a set equals the current picks and settings, in any order. */
function isCurrent(set) {
  const current = setRequest();
  return (
    set.rule === current.rule &&
    (!set.front || (set.front === current.front && set.version === current.version)) &&
    [...new Set([...Object.keys(set.picks), ...Object.keys(current.picks)])].every((name) =>
      haveSameMembers(set.picks[name] ?? [], current.picks[name] ?? []),
    ) &&
    haveSameBounds(set.bounds, current.bounds) &&
    haveSameMembers(set.rejected, current.rejected) &&
    (set.rule === "spread" || OBJECTIVES.every((o) => set.wanted[o] === current.wanted[o]))
  );
}

/* The saved set with the entered name and the current picks, if there is one. */
export const savedSet = () => sets.find((set) => set.name === enteredName() && isCurrent(set));

/* Save the current picks, unless they are saved already. Returns the set, or null if the name is missing. */
export async function saveSet() {
  const saved = savedSet();
  if (saved) return saved;
  const name = enteredName();
  if (!name) {
    showFieldError(byId("cal-name"), { title: "Enter a name for the set." });
    return null;
  }
  const parent = setById(model.draft.state.parent)?.id ?? null;
  const { value } = await storeSet({ ...setRequest(), note: "", name, parent });
  model.draft.amend({ parent: value.id });
  updateAddress({ set: value.id });
  await refreshSets();
  return value;
}

async function storeSet(set) {
  try {
    return await call("POST", SETS_URL, set);
  } catch (error) {
    if (isRefusedObjective(error) && (await (await import("./left_out.js")).leaveOutDeleted()))
      throw new ApiError(error.status, {
        title: "An objective was deleted",
        detail: "Its bounds and plots were left out. Check the weights and save again.",
      });
    throw error;
  }
}

/* ---- loading and deleting ---- */

async function onClick(event) {
  const button = event.target.closest("button");
  const set = setById(button?.dataset.load ?? button?.dataset.delete);
  if (!set) return;
  if ("load" in button.dataset) {
    load(set);
    return;
  }
  button.disabled = true;
  try {
    await call("DELETE", `${SETS_URL}${set.id}/`);
    toast(`Deleted ${set.name}.`);
    await refreshSets();
  } catch (error) {
    toastProblem(error);
    button.disabled = false;
  }
}

/* Load the picks of a set, on its own front and version. */
function load(set) {
  if (set.front && set.front !== model.front.id) {
    location.href = `/calibrate/?front=${set.front}&version=${set.version}&set=${set.id}`;
    return;
  }
  model.draft.load(set, set.version ?? model.version);
  showUnknown(model.draft.unknown);
  prefillName(set.name);
  updateAddress({ set: set.id });
  showSets();
  publish("loaded");
}
