/* One application: re-profile it, set values by hand after a preview, withdraw them. */
import { ApiError, call } from "../api.js";
import { showPreview } from "../application/preview.js";
import { byId } from "../dom.js";
import { counted } from "../format.js";
import { fullProblemText, toast, toastProblem } from "../notices.js";
import { refreshRegions } from "../regions.js";

const base = () => `/api/v1${decodeURI(location.pathname).split("/").map(encodeURIComponent).join("/")}`;
let previewed = ""; // the cells of the last preview
let withdrawnId = "";

export function start() {
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-override], [data-withdraw], [data-cancel-run]");
    if (!button) return;
    if ("cancelRun" in button.dataset) cancelRun(button);
    else if ("withdraw" in button.dataset) askWithdraw(button);
    else openOverride(button.dataset);
  });
  byId("rp-go")?.addEventListener("click", reprofile);
  byId("wd-go")?.addEventListener("click", withdraw);
  byId("ov-add")?.addEventListener("click", () => addRow().querySelector("select").focus());
  byId("ov-go")?.addEventListener("click", setValues);
  byId("ov-form")?.addEventListener("input", onChange);
  byId("ov-form")?.addEventListener("submit", (event) => {
    event.preventDefault();
    preview();
  });
}

/* Show an API error in a dialog and mark the cells that it names. */
function showError(id, error) {
  if (!(error instanceof ApiError)) throw error;
  const line = byId(id);
  const { errors = [] } = error.problem;
  for (const { pointer } of errors) {
    const row = byId("ov-cells")?.children[pointer?.match(/^\/cells\/(\d+)/)?.[1]];
    row?.querySelector("[data-part=value]").setAttribute("aria-invalid", "true");
  }
  line.textContent = fullProblemText(error.problem);
  line.hidden = false;
}

async function reprofile() {
  const button = byId("rp-go");
  button.disabled = true;
  byId("rp-error").hidden = true;
  try {
    const reason = byId("rp-reason").value.trim();
    await call("POST", `${base()}profiling-runs/`, reason ? { reason } : {});
    byId("reprofile").close();
    toast("Profiling has started. The run is listed below.");
    await refreshRegions();
  } catch (error) {
    showError("rp-error", error);
  } finally {
    button.disabled = false;
  }
}

async function cancelRun(button) {
  button.disabled = true;
  try {
    await call("POST", `/api/v1/operations/${button.dataset.cancelRun}/cancel/`, {});
    toast("The run is being cancelled.");
    await refreshRegions();
  } catch (error) {
    toastProblem(error);
  } finally {
    button.disabled = false;
  }
}

/* ---- values by hand ---- */

function openOverride({ matrix = "", column = "", value = "" }) {
  byId("ov-cells").replaceChildren();
  byId("ov-reason").value = "";
  byId("ov-error").hidden = true;
  byId("ov-preview").replaceChildren();
  addRow(matrix ? `${matrix} ${column}` : "", value);
  onChange();
  byId("override").showModal();
  byId("ov-cells").querySelector("[data-part=value]").focus();
}

function addRow(cell = "") {
  const row = byId("ov-row").content.firstElementChild.cloneNode(true);
  const select = row.querySelector("[data-part=cell]");
  const input = row.querySelector("[data-part=value]");
  const n = byId("ov-cells").children.length + 1;
  select.setAttribute("aria-label", `Cell ${n}`);
  input.setAttribute("aria-label", `Value of cell ${n}`);
  if (cell) select.value = cell;
  const describe = () => {
    const { now, unit, value } = select.selectedOptions[0].dataset;
    row.querySelector("[data-part=now]").textContent = `now ${now}`;
    row.querySelector("[data-part=unit]").textContent = unit;
    input.placeholder = value;
  };
  select.addEventListener("change", () => {
    describe();
    onChange();
  });
  row.querySelector("[data-part=drop]").addEventListener("click", () => {
    if (byId("ov-cells").children.length > 1) {
      row.remove();
      onChange();
    }
  });
  describe();
  byId("ov-cells").append(row);
  onChange();
  return row;
}

/* The cells entered, or null if a value is not a number; such fields are marked. */
function enteredCells() {
  const cells = [];
  let firstInvalid = null;
  for (const row of byId("ov-cells").children) {
    const input = row.querySelector("[data-part=value]");
    const option = row.querySelector("[data-part=cell]").selectedOptions[0];
    const text = input.value.trim();
    const number = Number(text.replace(",", "."));
    input.removeAttribute("aria-invalid");
    if (!text || !Number.isFinite(number)) {
      input.setAttribute("aria-invalid", "true");
      firstInvalid ??= input;
      continue;
    }
    const [matrix, column] = option.value.split(" ");
    cells.push({ matrix, column, value: number * Number(option.dataset.factor) });
  }
  firstInvalid?.focus();
  return firstInvalid ? null : cells;
}

/* Only previewed values can be set: any change requires a new preview. Returns the current cells. */
function onChange() {
  const current = JSON.stringify(
    [...byId("ov-cells").children].map((row) => [
      row.querySelector("select").value,
      row.querySelector("[data-part=value]").value,
    ]),
  );
  const isStale = previewed !== current;
  byId("ov-go").disabled = isStale;
  if (isStale) byId("ov-preview").replaceChildren();
  const n = byId("ov-cells").children.length;
  byId("ov-go").textContent = n === 1 ? "Set the value" : `Set ${n} values`;
  for (const drop of byId("ov-cells").querySelectorAll("[data-part=drop]")) drop.hidden = n === 1;
  return current;
}

async function preview() {
  const cells = enteredCells();
  byId("ov-error").hidden = true;
  if (!cells) return;
  const button = byId("ov-look");
  button.disabled = true;
  try {
    const { value } = await call("POST", `${base()}overrides/preview/`, {
      cells,
      reason: byId("ov-reason").value.trim() || "preview",
    });
    previewed = "";
    previewed = onChange();
    byId("ov-go").disabled = false;
    showPreview(value);
  } catch (error) {
    showError("ov-error", error);
  } finally {
    button.disabled = false;
  }
}

async function setValues() {
  const cells = enteredCells();
  const reason = byId("ov-reason");
  const missing = byId("ov-reason-error");
  missing.hidden = Boolean(reason.value.trim());
  missing.textContent = "Enter a reason. It is recorded with the change.";
  reason.removeAttribute("aria-invalid");
  if (!missing.hidden) {
    reason.setAttribute("aria-invalid", "true");
    reason.focus();
    return;
  }
  if (!cells) return;
  byId("ov-go").disabled = true;
  try {
    await call("POST", `${base()}overrides/`, { cells, reason: reason.value.trim() });
    previewed = "";
    byId("override").close();
    toast(`${counted(cells.length, "value")} set. The profile is inferred again in a moment.`);
    await refreshRegions();
  } catch (error) {
    showError("ov-error", error);
    byId("ov-go").disabled = false;
  }
}

function askWithdraw(button) {
  withdrawnId = button.dataset.withdraw;
  byId("wd-title").textContent = `Withdraw ${button.dataset.what}?`;
  byId("wd-error").hidden = true;
  byId("withdraw").showModal();
}

async function withdraw() {
  const button = byId("wd-go");
  button.disabled = true;
  try {
    await call("DELETE", `${base()}overrides/${withdrawnId}/`);
    byId("withdraw").close();
    toast("Value withdrawn. The profile is inferred again in a moment.");
    await refreshRegions();
  } catch (error) {
    showError("wd-error", error);
  } finally {
    button.disabled = false;
  }
}
