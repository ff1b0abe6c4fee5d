/* The map: one canvas cell per server, with keyboard control, selection, a table view and live updates. */
import { byId } from "../dom.js";
import { arrange } from "../map/geometry.js";
import { canvas, paint } from "../map/paint.js";
import { showGroups, showHeadline, showLegend, showSelection } from "../map/panels.js";
import { startSelection } from "../map/selection.js";
import { decodeState, map, updateAddress, view } from "../map/state.js";
import { showTable } from "../map/table.js";
import { changeServers } from "../servers.js";

const POLL_MS = 2000;
const MIN_HEIGHT = 360;
const CHROME_HEIGHT = 280; // px above and below the map
const MIN_SIZE = { narrow: 14, wide: 6 };
const page = byId("cluster-map");
const isPast = "past" in document.body.dataset;

export async function start() {
  if (!page) return;
  map.layout = await (await fetch(page.dataset.layout, { credentials: "same-origin" })).json();
  fillColours();
  startControls();
  startSelection();
  document.addEventListener("berth:theme", () => {
    showLegend();
    paint();
  });
  new ResizeObserver(() => {
    resize();
    paint();
  }).observe(byId("map-canvas"));
  byId("map-side").addEventListener("click", changeSelected);
  await refresh();
  if (isPast) return;
  setInterval(() => {
    if (!document.hidden && !isPaused()) refresh();
  }, POLL_MS);
}

function startControls() {
  byId("map-group").value = view.group;
  byId("map-colour").addEventListener("change", (event) => changeView({ colour: event.target.value }));
  byId("map-group").addEventListener("change", (event) => changeView({ group: event.target.value }));
  byId("map-table-btn").addEventListener("click", () => changeView({ isTable: !view.isTable }));
}

function changeView(values) {
  Object.assign(view, values);
  if ("group" in values) resize();
  updateAddress();
  show();
}

function fillColours() {
  const select = byId("map-colour");
  const options = [
    ["cpu", "CPU used"],
    ["allocated", "Units allocated"],
  ];
  if (!isPast)
    options.push(
      ["age", "Heartbeat age"],
      ["state", "State"],
      ...map.layout.sources.map((source) => [`p-${source.key}`, `Pressure: ${source.name}`]),
    );
  for (const [value, name] of options) select.append(new Option(name, value));
  if (!options.some(([value]) => value === view.colour)) view.colour = "cpu";
  select.value = view.colour;
}

const isPaused = () => document.querySelector("[data-act=pause]")?.getAttribute("aria-pressed") === "true";

async function refresh() {
  const response = await fetch(page.dataset.stateUrl, { credentials: "same-origin" });
  if (!response.ok) {
    byId("map-sub").textContent = `Not refreshed: the server returned ${response.status}.`;
    return;
  }
  map.state = decodeState(await response.json());
  if (!map.cells.length) resize();
  show();
}

/* Fit the cells to the window and the canvas to the cells. */
function resize() {
  const width = byId("map-canvas").clientWidth;
  if (!map.layout || !width) return;
  const isNarrow = matchMedia("(max-width: 719px)").matches;
  const maxHeight = Math.max(MIN_HEIGHT, innerHeight - CHROME_HEIGHT);
  const height = arrange(width, maxHeight, isNarrow ? MIN_SIZE.narrow : MIN_SIZE.wide);
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  if (canvas.height) canvas.style.setProperty("height", `${height}px`);
}

function show() {
  if (!map.state) return;
  byId("map-table-btn").setAttribute("aria-pressed", String(view.isTable));
  byId("map-canvas").hidden = view.isTable;
  byId("map-table").hidden = !view.isTable;
  showHeadline();
  showLegend();
  showSelection();
  showGroups();
  if (view.isTable) {
    showTable();
    return;
  }
  if (!map.cells.length) resize();
  paint();
}

function changeSelected(event) {
  const action = event.target.closest("[data-change]")?.dataset.change;
  if (!action) return;
  const { ids, names } = map.layout;
  const servers = [...map.selected].map((i) => ({ id: ids[i], name: names[i] }));
  changeServers(action, servers, null, refresh);
}
