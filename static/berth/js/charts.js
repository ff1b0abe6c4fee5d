/* Charts: asks for a figure when it comes into view, draws it with Plotly in the colours of the theme, keeps zoom,
   offers its table and exports. The Plotly bundle is loaded with the first chart. */
const FAST_MS = 1900;
const SLOW_MS = 5000;
const charts = new Map();
let notes = 0;
let library = null;
let theme = null;

let seen = null;

export function startCharts() {
  if (!seen) window.addEventListener("resize", debounce(redrawCharts, 200));
  for (const element of charts.keys()) if (!element.isConnected) charts.delete(element);
  seen ??= new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const chart = charts.get(entry.target);
      if (!chart) continue;
      chart.visible = entry.isIntersecting;
      if (entry.isIntersecting && !chart.data) load(chart);
    }
  }, { rootMargin: "200px" });
  for (const element of document.querySelectorAll(".chart[data-figure]")) {
    if (charts.has(element)) continue;
    charts.set(element, { element, data: null, asked: 0, busy: false, visible: false });
    seen.observe(element);
  }
}

export async function refreshCharts() {
  const now = Date.now();
  const due = [...charts.values()].filter((chart) => chart.visible && chart.element.isConnected
    && now - chart.asked >= ("slow" in chart.element.dataset ? SLOW_MS : FAST_MS));
  for (const chart of due) await load(chart);
}

export function redrawCharts() {
  for (const chart of charts.values()) if (chart.data) draw(chart);
}

async function load(chart) {
  if (chart.busy) return;
  chart.busy = true;
  chart.asked = Date.now();
  try {
    const [response] = await Promise.all([fetch(address(chart.element), { credentials: "same-origin" }), plotly()]);
    if (!response.ok) throw new Error(`the server answered ${response.status} (request ${response.headers.get("X-Request-ID") ?? "unknown"})`);
    const text = await response.text();
    const data = JSON.parse(text);
    data.asOf = new Date().toLocaleTimeString("en-GB", { hour12: false });
    if (chart.text === stripped(text)) return;
    chart.text = stripped(text);
    chart.data = data;
    chart.element.classList.remove("failed");
    words(chart);
    await draw(chart);
  } catch (error) { fail(chart, error); } finally { chart.busy = false; }
}

function stripped(text) { return text.replace(/"as_of": "[^"]*"/, ""); }

function address(element) {
  const url = new URL(element.dataset.figure, location.href);
  const here = new URLSearchParams(location.search);
  if (here.has("range") && !url.searchParams.has("range")) url.searchParams.set("range", here.get("range"));
  return url;
}

function words(chart) {
  const { element, data } = chart;
  const title = element.querySelector(".chart-title");
  const said = unbroken(data.title);
  if (title.textContent !== said) title.textContent = said;
  const sub = subtitle(element, data.how);
  const about = unbroken(data.sub);
  if (sub.textContent !== about) sub.textContent = about;
  element.querySelector(".plot").setAttribute("aria-label", data.title);
  const link = element.querySelector("[data-export-api]");
  if (link) link.href = data.api;
  if (element.querySelector(".chart-table:not([hidden])")) table(chart);
}

/* The words under the title, and beside them what opens the note on how the figure is computed. */
function subtitle(element, how) {
  const line = element.querySelector(".chart-sub");
  if (line.firstElementChild?.dataset.part === "words") return line.firstElementChild;
  const said = document.createElement("span");
  said.dataset.part = "words";
  line.replaceChildren(said);
  if (!how) return said;
  const note = document.createElement("span");
  note.className = "chart-how";
  note.id = `how-${(notes += 1)}`;
  note.hidden = true;
  note.textContent = how;
  const button = document.createElement("button");
  button.type = "button";
  button.className = "how-btn";
  const narrow = Boolean(element.closest(".c3"));
  button.textContent = narrow ? "?" : "How computed";
  if (narrow) { button.className = "btn"; button.title = "How computed"; button.setAttribute("aria-label", "How computed"); }
  button.setAttribute("aria-expanded", "false");
  button.setAttribute("aria-controls", note.id);
  button.addEventListener("click", () => {
    note.hidden = !note.hidden;
    button.setAttribute("aria-expanded", String(!note.hidden));
  });
  if (narrow) { element.querySelector(".chart-tools").prepend(button); line.append(note); } else line.append(" ", button, note);
  return said;
}

/* A number keeps its unit on the same line. */
function unbroken(text) { return text.replace(/(?<=\d) (%|[kM]?W\b|ms\b|s\b|min\b|h\b|×)/g, "\u00a0$1"); }

async function draw(chart) {
  const Plotly = await plotly();
  const mode = dark() ? "dark" : "light";
  const plot = chart.element.querySelector(".plot");
  if (plot.hidden || !plot.clientWidth) return;
  const figure = coloured(structuredClone(chart.data.figure), mode);
  for (const trace of figure.data) named(trace);
  figure.layout.template = theme[mode];
  figure.layout.autosize = true;
  fit(figure.layout, plot.clientWidth);
  if (plot.getAttribute("aria-busy")) { plot.textContent = ""; plot.removeAttribute("aria-busy"); }
  await Plotly.react(plot, figure.data, figure.layout, theme.config);
}

/* A heatmap's row names travel once; the hover label wants one per cell. */
function named(trace) {
  if (!trace.meta?.rows) return;
  const columns = trace.z.shape ? Number(String(trace.z.shape).split(",")[1]) : trace.z[0]?.length ?? 0;
  trace.customdata = trace.meta.rows.map((name) => new Array(columns).fill(name));
}

/* Narrow plots keep their text size: names that slant become steep first, then every other tick goes. */
const ROOM = 38, SLANTED_ROOM = 18, STEEP_ROOM = 14, STEEP = -62, STEEP_HEIGHT = 26;

function fit(layout, width) {
  const inside = width - layout.margin.l - layout.margin.r;
  for (const name of Object.keys(layout)) {
    const axis = layout[name];
    if (!/^xaxis/.test(name) || !Array.isArray(axis.tickvals) || axis.tickvals.length < 4) continue;
    const room = ((axis.domain?.[1] ?? 1) - (axis.domain?.[0] ?? 0)) * inside / axis.tickvals.length;
    if (room > (axis.tickangle ? SLANTED_ROOM : ROOM)) continue;
    if (axis.tickangle) {
      axis.tickangle = STEEP;
      layout.margin.t += STEEP_HEIGHT;
      if (room > STEEP_ROOM) continue;
    }
    const keep = (_, i) => i % 2 === (axis.tickvals.length - 1) % 2;
    layout[name] = { ...axis, tickvals: axis.tickvals.filter(keep), ticktext: axis.ticktext?.filter(keep) };
  }
}

/* var(--token) and var(--token/opacity) become the values of the theme in force. */
function coloured(value, mode) {
  if (typeof value === "string") return value.startsWith("var(--") ? colour(value, mode) : value;
  if (Array.isArray(value)) { for (let i = 0; i < value.length; i += 1) value[i] = coloured(value[i], mode); return value; }
  if (value && typeof value === "object") {
    if ("bdata" in value) return value;
    for (const key of Object.keys(value)) value[key] = coloured(value[key], mode);
  }
  return value;
}

function colour(token, mode) {
  const [, name, opacity] = token.match(/^var\(--([a-z0-9-]+)(?:\/(.+))?\)$/);
  const hex = getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
  if (!opacity) return hex;
  const alpha = opacity === "band" ? (mode === "dark" ? 0.2 : 0.14) : Number(opacity);
  const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  return `rgba(${r},${g},${b},${alpha})`;
}

function dark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function plotly() {
  library ??= (async () => {
    const [data] = await Promise.all([
      fetch(document.querySelector("meta[name=berth-chart-theme]").content).then((response) => response.json()),
      new Promise((resolve, reject) => {
        const script = document.createElement("script");
        script.src = document.querySelector("meta[name=berth-plotly]").content;
        script.onload = resolve;
        script.onerror = () => reject(new Error("the chart library could not be loaded"));
        document.head.append(script);
      }),
    ]);
    theme = data;
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redrawCharts);
    return window.Plotly;
  })();
  return library;
}

function fail(chart, error) {
  chart.element.classList.add("failed");
  if (chart.data) {
    subtitle(chart.element, chart.data.how).textContent = `Not refreshed since ${chart.data.asOf}: ${error.message}`;
    return;
  }
  chart.element.querySelector(".chart-title").textContent = "This figure could not be drawn";
  chart.element.querySelector(".chart-sub").textContent = error.message;
  const plot = chart.element.querySelector(".plot");
  plot.removeAttribute("aria-busy");
  const retry = document.createElement("button");
  retry.className = "btn small";
  retry.type = "button";
  retry.textContent = "Retry";
  retry.addEventListener("click", () => { retry.remove(); load(chart); });
  plot.replaceChildren(retry);
}

function table(chart) {
  const { element, data } = chart;
  let box = element.querySelector(".chart-table");
  if (!box) {
    box = document.createElement("div");
    box.className = "chart-table table-wrap";
    box.tabIndex = 0;
    box.setAttribute("role", "region");
    element.append(box);
  }
  box.setAttribute("aria-label", `Table: ${data.title}`);
  const made = document.createElement("table");
  made.className = "table tight";
  made.append(row("thead", [data.table.head], "th"), row("tbody", data.table.rows, "td"));
  box.replaceChildren(made);
  return box;
}

function row(section, rows, cell) {
  const part = document.createElement(section);
  for (const values of rows) {
    const tr = document.createElement("tr");
    values.forEach((value, i) => {
      const td = document.createElement(cell);
      td.textContent = value;
      if (cell === "th") td.scope = "col";
      if (i) td.className = "num";
      tr.append(td);
    });
    part.append(tr);
  }
  return part;
}

function save(name, text, type) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type }));
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

function csv(data) {
  const quote = (value) => (/[",\n]/.test(value) ? `"${value.replaceAll('"', '""')}"` : value);
  return [data.table.head, ...data.table.rows].map((line) => line.map(quote).join(",")).join("\r\n");
}

document.addEventListener("click", async (event) => {
  const chart = charts.get(event.target.closest(".chart"));
  if (!chart?.data) return;
  const button = event.target.closest("[data-act=table]");
  if (button) {
    const on = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(on));
    table(chart).hidden = !on;
    chart.element.querySelector(".plot").hidden = on;
    if (!on) draw(chart);
  }
  const kind = event.target.closest("[data-export]")?.dataset.export;
  const name = chart.element.dataset.figure.replace(/^\/figures\//, "").replace(/[^a-z0-9]+/gi, "-").replace(/-$/, "");
  if (kind === "csv") save(`${name}.csv`, csv(chart.data), "text/csv");
  if (kind === "json") save(`${name}.json`, JSON.stringify(chart.data, null, 1), "application/json");
  if (kind === "png") (await plotly()).downloadImage(chart.element.querySelector(".plot"), { format: "png", scale: 2, filename: name });
});

function debounce(work, ms) {
  let timer = 0;
  return () => { clearTimeout(timer); timer = setTimeout(work, ms); };
}
