/* The dialog that starts the search for a front. */
import { call } from "../api.js";
import { byId } from "../dom.js";
import { clusterTime } from "../format.js";
import { showProblem } from "../notices.js";

export function startNewFront() {
  startTimeSlider();
  for (const radio of document.querySelectorAll("[name=nf-when]")) radio.addEventListener("change", showPast);
  byId("nf-form").addEventListener("submit", (event) => {
    event.preventDefault();
    startSearch();
  });
}

export function openNewFront() {
  byId("nf-error").hidden = true;
  byId("cal-new-dialog").showModal();
}

const chosen = () => document.querySelector("[name=nf-when]:checked").value;

function showPast() {
  const fields = byId("cal-new-dialog").querySelector(".nf-past");
  if (!fields) return;
  fields.hidden = chosen() === "now";
  byId("nf-window-field").hidden = chosen() !== "window";
}

function startTimeSlider() {
  const slider = byId("nf-at");
  if (!slider) return;
  const showTime = () => {
    byId("nf-at-said").textContent = clusterTime(Number(slider.value));
  };
  slider.addEventListener("input", showTime);
  showTime();
}

async function startSearch() {
  const body = { source: "cluster", budget_seconds: Number(byId("nf-budget").value) };
  if (chosen() !== "now") body.cluster_seconds = Number(byId("nf-at").value);
  if (chosen() === "window") body.window_seconds = Number(byId("nf-window").value);
  byId("nf-go").disabled = true;
  byId("nf-error").hidden = true;
  try {
    const { value } = await call("POST", "/api/v1/fronts/", body);
    location.href = `/calibrate/?front=${value.arguments.front}`;
  } catch (error) {
    showProblem(byId("nf-error"), error);
  }
  byId("nf-go").disabled = false;
}
