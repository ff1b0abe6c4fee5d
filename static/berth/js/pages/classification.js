/* Classification: retrain the matrices; a click on a row of the matrix opens its application. */
import { call } from "../api.js";
import { showProblem, toast } from "../notices.js";
import { refreshRegions } from "../regions.js";

const POLL_MS = 1500;

export function start() {
  document.getElementById("rc-go")?.addEventListener("click", reclassify);
  document.addEventListener("click", open);
}

function open(event) {
  const plot = event.target.closest(".plot.js-plotly-plot");
  const links = plot?.layout?.meta?.links;
  const at = plot?._hoverdata?.[0]?.pointIndex?.[0];
  if (links?.[at]) location.href = links[at];
}

async function reclassify() {
  const button = document.getElementById("rc-go");
  const line = document.getElementById("rc-error");
  button.disabled = true;
  line.hidden = true;
  try {
    const { value } = await call("POST", "/api/v1/revisions/", {});
    document.getElementById("reclassify").close();
    toast("Retraining has started.");
    await refreshRegions();
    watch(value.id);
  } catch (error) {
    showProblem(line, error);
  } finally {
    button.disabled = false;
  }
}

/* Poll the operation, because events may be seconds apart. */
async function watch(id) {
  const { value } = await call("GET", `/api/v1/operations/${id}/`);
  await refreshRegions();
  if (["pending", "running"].includes(value.status)) {
    setTimeout(() => watch(id), POLL_MS);
    return;
  }
  if (value.status === "succeeded")
    toast(`Revision ${value.result?.revision ?? ""} is in force.`, {
      link: { href: "/classification/", text: "Show revision" },
    });
  else toast(value.problem?.detail ?? `The retraining ${value.status}.`, { tone: "bad", stays: true });
}
