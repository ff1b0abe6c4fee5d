/* Classification: learn the matrices anew and watch it; a click on a live row opens its application. */
import { ApiError, call } from "../api.js";
import { problemText, toast } from "../notices.js";
import { refreshRegions } from "../regions.js";

const ASK_MS = 1500;

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
    toast("The next revision is being made.");
    await refreshRegions();
    watch(value.id);
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    line.textContent = problemText(error.problem);
    line.hidden = false;
  } finally { button.disabled = false; }
}

/* Events may be a few seconds apart: whoever started it sees every step. */
async function watch(id) {
  const { value } = await call("GET", `/api/v1/operations/${id}/`);
  await refreshRegions();
  if (["pending", "running"].includes(value.status)) { setTimeout(() => watch(id), ASK_MS); return; }
  if (value.status === "succeeded") toast(`Revision ${value.result?.revision ?? ""} is in force.`, { link: { href: "/classification/", text: "Show it" } });
  else toast(value.problem?.detail ?? `It ${value.status}.`, { tone: "bad", stays: true });
}
