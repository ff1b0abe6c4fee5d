/* Charts: load a figure when it comes into view, draw it with Plotly in the colours of the theme, and offer its table
   and exports. The Plotly bundle is loaded with the first chart. */
import { fitTicks, repeatRowNames, withThemeColours } from "./charts/figure.js";
import { chartCsv, chartTable, exportName } from "./charts/table.js";
import { debounce, element } from "./dom.js";
import { download } from "./download.js";
import { wallTime } from "./format.js";

const FAST_MS = 1900;
const SLOW_MS = 5000;
const charts = new Map();
let notes = 0; // number of notes, for their ids
let library = null;
let theme = null;
let observer = null;
let settleFirst = null;
/* Settled as soon as the charts that are near the window when the page opens are drawn, or have failed. */
export const firstCharts = new Promise((resolve) => {
  settleFirst = resolve;
});

export function startCharts() {
  if (!observer) window.addEventListener("resize", debounce(redrawCharts, 200));
  for (const host of charts.keys()) if (!host.isConnected) charts.delete(host);
  observer ??= new IntersectionObserver(
    (entries) => {
      const begun = [];
      for (const entry of entries) {
        const chart = charts.get(entry.target);
        if (!chart) continue;
        chart.visible = entry.isIntersecting;
        if (entry.isIntersecting && !chart.data) begun.push(load(chart));
      }
      settleFirst(Promise.allSettled(begun));
    },
    { rootMargin: "200px" },
  );
  for (const host of document.querySelectorAll(".chart[data-figure]")) {
    if (charts.has(host)) continue;
    charts.set(host, { element: host, data: null, requestedAt: 0, busy: false, visible: false });
    observer.observe(host);
  }
  if (!charts.size) settleFirst();
}

export async function refreshCharts() {
  const now = Date.now();
  const due = [...charts.values()].filter(
    (chart) =>
      chart.visible &&
      chart.element.isConnected &&
      now - chart.requestedAt >= ("slow" in chart.element.dataset ? SLOW_MS : FAST_MS),
  );
  await Promise.all(due.map(load));
}

export function redrawCharts() {
  for (const chart of charts.values()) if (chart.data) draw(chart);
}

async function load(chart) {
  if (chart.busy) return;
  chart.busy = true;
  chart.requestedAt = Date.now();
  try {
    const [response] = await Promise.all([figureResponse(chart), plotly()]);
    if (response.status === 304) {
      restoreTitles(chart);
      return;
    }
    if (!response.ok)
      throw new Error(
        `the server returned ${response.status} (request ${response.headers.get("X-Request-ID") ?? "unknown"})`,
      );
    chart.data = await response.json();
    chart.data.asOf = wallTime(Date.now());
    chart.tag = response.headers.get("ETag");
    chart.element.classList.remove("failed");
    showTitles(chart);
    await draw(chart);
  } catch (error) {
    showFailure(chart, error);
  } finally {
    chart.busy = false;
  }
}

/* The figure, or 304 if it is the one shown; its tag leaves out the time of its data. */
function figureResponse(chart) {
  const headers = chart.tag ? { "If-None-Match": chart.tag } : {};
  return fetch(figureUrl(chart.element), { credentials: "same-origin", headers });
}

/* An unchanged figure is as new as this response. */
function restoreTitles(chart) {
  chart.data.asOf = wallTime(Date.now());
  if (!chart.element.classList.contains("failed")) return;
  chart.element.classList.remove("failed");
  showTitles(chart);
}

function figureUrl(host) {
  const url = new URL(host.dataset.figure, location.href);
  const here = new URLSearchParams(location.search);
  for (const name of ["range", "at"])
    if (here.has(name) && !url.searchParams.has(name)) url.searchParams.set(name, here.get(name));
  return url;
}

function showTitles(chart) {
  const { element: host, data } = chart;
  setText(host.querySelector(".chart-title"), data.title);
  setText(subtitle(host, data.how), data.sub);
  host.querySelector(".plot").setAttribute("aria-label", data.title);
  const link = host.querySelector("[data-export-api]");
  if (link) link.href = data.api;
  if (host.querySelector(".chart-table:not([hidden])")) chartTable(chart);
}

/* The line below the title, with a button for the note on how the figure is computed. */
function subtitle(host, how) {
  const line = host.querySelector(".chart-sub");
  if (line.firstElementChild?.dataset.part === "words") return line.firstElementChild;
  const words = element("span", "", "", { "data-part": "words" });
  line.replaceChildren(words);
  if (!how) return words;
  notes += 1;
  const note = element("span", how, "chart-how", { id: `how-${notes}` });
  note.hidden = true;
  const isNarrow = Boolean(host.closest(".c3"));
  const button = noteButton(note, isNarrow);
  if (isNarrow) {
    host.querySelector(".chart-tools").prepend(button);
    line.append(note);
  } else line.append(" ", button, note);
  return words;
}

function noteButton(note, isNarrow) {
  const names = isNarrow ? { title: "How computed", "aria-label": "How computed" } : {};
  const button = element("button", isNarrow ? "?" : "How computed", isNarrow ? "btn" : "how-btn", {
    type: "button",
    "aria-expanded": "false",
    "aria-controls": note.id,
    ...names,
  });
  button.addEventListener("click", () => {
    note.hidden = !note.hidden;
    button.setAttribute("aria-expanded", String(!note.hidden));
  });
  return button;
}

function setText(node, text) {
  const shown = unbroken(text);
  if (node.textContent !== shown) node.textContent = shown;
}

/* Keep a number and its unit on one line. */
function unbroken(text) {
  return text.replace(/(?<=\d) (%|[kM]?W\b|ms\b|s\b|min\b|h\b|×)/g, "\u00a0$1");
}

async function draw(chart) {
  const Plotly = await plotly();
  const mode = dark() ? "dark" : "light";
  const plot = chart.element.querySelector(".plot");
  if (plot.hidden || !plot.clientWidth) return;
  const figure = withThemeColours(structuredClone(chart.data.figure), mode);
  figure.data.forEach(repeatRowNames);
  figure.layout.template = theme[mode];
  figure.layout.width = plot.clientWidth; // plotly.js would measure the page again
  fitTicks(figure.layout, plot.clientWidth);
  if (plot.getAttribute("aria-busy")) {
    plot.textContent = "";
    plot.removeAttribute("aria-busy");
  }
  await Plotly.react(plot, figure.data, figure.layout, theme.config);
}

function dark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function plotly() {
  library ??= (async () => {
    const [data] = await Promise.all([
      fetch(document.querySelector("meta[name=berth-chart-theme]").content).then((response) => response.json()),
      plotlyScript(),
    ]);
    theme = data;
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawCharts);
    return window.Plotly;
  })();
  return library;
}

/* Wait for the script of the page; if there is none or it failed, load it. */
async function plotlyScript() {
  const early = document.getElementById("plotly-js");
  if (early && !window.Plotly && document.readyState !== "complete")
    await new Promise((resolve) => {
      early.onload = early.onerror = window.onload = resolve;
    });
  if (window.Plotly) return;
  await new Promise((resolve, reject) => {
    const script = element("script", "", "", { src: document.querySelector("meta[name=berth-plotly]").content });
    script.onload = resolve;
    script.onerror = () => {
      library = null; // for another try
      reject(new Error("the chart library could not be loaded"));
    };
    document.head.append(script);
  });
}

function showFailure(chart, error) {
  chart.element.classList.add("failed");
  if (chart.data) {
    subtitle(chart.element, chart.data.how).textContent = `Not refreshed since ${chart.data.asOf}: ${error.message}`;
    return;
  }
  chart.element.querySelector(".chart-title").textContent = "The figure cannot be drawn";
  chart.element.querySelector(".chart-sub").textContent = error.message;
  const plot = chart.element.querySelector(".plot");
  plot.removeAttribute("aria-busy");
  const retry = element("button", "Retry", "btn small", { type: "button" });
  retry.addEventListener("click", () => {
    retry.remove();
    load(chart);
  });
  plot.replaceChildren(retry);
}

document.addEventListener("click", (event) => {
  const chart = charts.get(event.target.closest(".chart"));
  if (!chart?.data) return;
  const tableButton = event.target.closest("[data-act=table]");
  if (tableButton) toggleTable(chart, tableButton);
  const format = event.target.closest("[data-export]")?.dataset.export;
  if (format) exportChart(chart, format);
});

function toggleTable(chart, button) {
  const isTable = button.getAttribute("aria-pressed") !== "true";
  button.setAttribute("aria-pressed", String(isTable));
  chartTable(chart).hidden = !isTable;
  chart.element.querySelector(".plot").hidden = isTable;
  if (!isTable) draw(chart);
}

async function exportChart({ element: host, data }, format) {
  const name = exportName(host.dataset.figure);
  if (format === "csv") download(`${name}.csv`, new Blob([chartCsv(data)], { type: "text/csv" }));
  if (format === "json")
    download(`${name}.json`, new Blob([JSON.stringify(data, null, 1)], { type: "application/json" }));
  if (format === "png")
    (await plotly()).downloadImage(host.querySelector(".plot"), { format: "png", scale: 2, filename: name });
}
