/* The map: one canvas cell per server, grouped; keyboard, selection, table twin, live repaint of what changed. */
import { changeServers } from "../servers.js";

const UNKNOWN = 255;
const GAP = 2;
const HEAD = 18;
const box = document.getElementById("cluster-map");
const canvas = document.querySelector("#map-canvas canvas");
const tip = document.querySelector("#map-canvas .tip");
const byId = (id) => document.getElementById(id);
const params = new URLSearchParams(location.search);
const view = { colour: params.get("colour") || "cpu", group: params.get("group") || "platform", table: params.get("view") === "table" };
const STATE_TOKENS = ["--div-7", "--cat-2", "--cat-6", "--bad"];
let layout = null;
let state = null;
let cells = [];
let groups = [];
let size = 12;
let focus = 0;
let anchor = null;
let selected = new Set();
let drag = null;
let pulse = -1;

export async function start() {
  if (!box) return;
  layout = await (await fetch(box.dataset.layout, { credentials: "same-origin" })).json();
  fillColours();
  byId("map-group").value = view.group;
  byId("map-colour").addEventListener("change", (event) => { view.colour = event.target.value; keepAddress(); show(); });
  byId("map-group").addEventListener("change", (event) => { view.group = event.target.value; keepAddress(); arrange(); show(); });
  byId("map-find").addEventListener("input", find);
  byId("map-find").addEventListener("keydown", (event) => { if (event.key === "Enter" && pulse >= 0) open(pulse); });
  byId("map-table-btn").addEventListener("click", () => { view.table = !view.table; keepAddress(); show(); });
  canvas.addEventListener("pointerdown", press);
  canvas.addEventListener("pointermove", hover);
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("dblclick", (event) => { const i = under(event); if (i >= 0) open(i); });
  canvas.addEventListener("keydown", keys);
  canvas.addEventListener("focus", paint);
  canvas.addEventListener("blur", paint);
  document.addEventListener("berth:theme", () => { legend(); paint(); });
  new ResizeObserver(() => { arrange(); paint(); }).observe(byId("map-canvas"));
  byId("map-side").addEventListener("click", sideClick);
  await refresh();
  setInterval(() => { if (!document.hidden && !paused()) refresh(); }, 2000);
}

function paused() { return document.querySelector("[data-act=pause]")?.getAttribute("aria-pressed") === "true"; }

async function refresh() {
  const response = await fetch(box.dataset.stateUrl, { credentials: "same-origin" });
  if (!response.ok) { byId("map-sub").textContent = `Not refreshed: the server answered ${response.status}.`; return; }
  const raw = await response.json();
  state = { ...raw, cpu: bytes(raw.cpu), allocated: bytes(raw.allocated), age: bytes(raw.age), state: bytes(raw.state), pressure: raw.pressure.map(bytes) };
  if (!cells.length) arrange();
  show();
}

function bytes(text) { return Uint8Array.from(atob(text), (c) => c.charCodeAt(0)); }

function fillColours() {
  const select = byId("map-colour");
  const options = [["cpu", "CPU used"], ["allocated", "Units allocated"], ["age", "Heartbeat age"], ["state", "State"],
    ...layout.sources.map((source) => [`p-${source.key}`, `Pressure: ${source.name}`])];
  for (const [value, name] of options) select.append(new Option(name, value));
  if (!options.some(([value]) => value === view.colour)) view.colour = "cpu";
  select.value = view.colour;
}

/* value of a cell in 0-1 for the ramp, and in words */
function layer() {
  if (view.colour === "age") return { values: state.age, top: 60, word: (v) => `heartbeat ${v === 250 ? "250 s or more" : `${v} s`} ago`, name: "Heartbeat age", low: "0", high: "60 s", unit: "s" };
  if (view.colour.startsWith("p-")) {
    const i = layout.sources.findIndex((source) => `p-${source.key}` === view.colour);
    return { values: state.pressure[i], top: 200, word: (v) => `${v / 2} points of pressure on a free unit`, name: layout.sources[i].name, low: "0", high: "100", unit: "points" };
  }
  const allocated = view.colour === "allocated";
  return { values: allocated ? state.allocated : state.cpu, top: 200, word: (v) => `${(v / 2).toFixed(0)} % ${allocated ? "of its units allocated" : "CPU used"}`, name: allocated ? "Units allocated" : "CPU used", low: "0", high: "100 %", unit: "%" };
}

function arrange() {
  if (!layout) return;
  const width = byId("map-canvas").clientWidth;
  if (!width) return;
  const names = view.group === "rack" ? layout.racks : layout.platforms;
  const keys = view.group === "rack" ? layout.rack : layout.platform;
  groups = names.map((name) => ({ name, members: [] }));
  keys.forEach((key, i) => groups[key].members.push(i));
  groups = groups.filter((group) => group.members.length);
  const height = Math.max(360, innerHeight - 280);
  const minimum = matchMedia("(max-width: 719px)").matches ? 14 : 6;
  for (size = 34; size > minimum; size -= 1) if (place(width) <= height) break;
  const total = place(width);
  const ratio = devicePixelRatio || 1;
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(total * ratio);
  canvas.height && canvas.style.setProperty("height", `${total}px`);
}

/* Lays groups out side by side in rows; returns the height. */
function place(width) {
  const step = size + GAP;
  cells = new Array(layout.names.length);
  let x = 0;
  let y = 0;
  let tallest = 0;
  for (const group of groups) {
    const n = group.members.length;
    const most = Math.max(1, Math.floor((width + GAP) / step));
    const columns = Math.min(most, Math.max(labelCells(group.name, step), Math.ceil(Math.sqrt(n * 3))));
    const w = columns * step + 14;
    const h = HEAD + Math.ceil(n / columns) * step + 12;
    if (x && x + w - 14 > width) { x = 0; y += tallest; tallest = 0; }
    Object.assign(group, { x, y, columns });
    group.members.forEach((i, k) => { cells[i] = { x: x + (k % columns) * step, y: y + HEAD + Math.floor(k / columns) * step, group }; });
    x += w;
    tallest = Math.max(tallest, h);
  }
  return y + tallest;
}

function labelCells(name, step) { return Math.ceil((name.length * 7 + 30) / step); }

function css(name) { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

function ramp() {
  const stops = Array.from({ length: 9 }, (_, i) => css(`--seq-${i}`)).map((hex) => [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16)));
  return Array.from({ length: 101 }, (_, p) => {
    const t = (p / 100) * 8;
    const i = Math.min(7, Math.floor(t));
    return `rgb(${stops[i].map((v, k) => Math.round(v + (stops[i + 1][k] - v) * (t - i))).join()})`;
  });
}

function paint() {
  if (!state || !cells.length) return;
  const ratio = devicePixelRatio || 1;
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, canvas.width, canvas.height);
  pen.font = `600 11px ${css("--font-sans")}`;
  pen.textBaseline = "middle";
  for (const group of groups) {
    pen.fillStyle = css("--text");
    pen.fillText(group.name, group.x, group.y + 8);
    const w = pen.measureText(group.name).width;
    pen.fillStyle = css("--text-3");
    pen.font = `400 11px ${css("--font-sans")}`;
    pen.fillText(group.members.length.toLocaleString("en-GB"), group.x + w + 6, group.y + 8);
    pen.font = `600 11px ${css("--font-sans")}`;
  }
  const states = STATE_TOKENS.map(css);
  const colours = ramp();
  const shown = view.colour === "state" ? null : layer();
  const hatch = css("--rule-strong");
  cells.forEach((cell, i) => {
    if (shown) {
      const v = shown.values[i];
      if (v === UNKNOWN) { missing(pen, cell, hatch); return; }
      pen.fillStyle = colours[Math.round(100 * Math.min(1, v / shown.top))];
    } else pen.fillStyle = states[state.state[i]];
    pen.fillRect(cell.x, cell.y, size, size);
    if (state.state[i]) mark(pen, cell, state.state[i]);
  });
  pen.strokeStyle = css("--text");
  pen.lineWidth = 2;
  for (const i of selected) outline(pen, cells[i]);
  if (document.activeElement === canvas && cells[focus]) { pen.strokeStyle = css("--accent"); outline(pen, cells[focus], 2); }
  if (pulse >= 0) { pen.strokeStyle = css("--cat-2"); pen.lineWidth = 3; outline(pen, cells[pulse], 3); }
}

function outline(pen, cell, out = 0) { pen.strokeRect(cell.x - out / 2, cell.y - out / 2, size + out, size + out); }

function missing(pen, cell, colour) {
  pen.strokeStyle = colour;
  pen.lineWidth = 1;
  pen.strokeRect(cell.x + 0.5, cell.y + 0.5, size - 1, size - 1);
  pen.beginPath();
  pen.moveTo(cell.x, cell.y + size);
  pen.lineTo(cell.x + size, cell.y);
  pen.stroke();
}

/* A closed server carries a shape too: bar = cordoned, two bars = draining, cross = down. */
function mark(pen, cell, kind) {
  if (size < 6) return;
  pen.strokeStyle = css("--bg");
  pen.lineWidth = Math.max(1.5, size / 8);
  const [x, y, s] = [cell.x, cell.y, size];
  pen.beginPath();
  if (kind === 1) { pen.moveTo(x + s * 0.2, y + s / 2); pen.lineTo(x + s * 0.8, y + s / 2); }
  if (kind === 2) { pen.moveTo(x + s * 0.35, y + s * 0.2); pen.lineTo(x + s * 0.35, y + s * 0.8); pen.moveTo(x + s * 0.65, y + s * 0.2); pen.lineTo(x + s * 0.65, y + s * 0.8); }
  if (kind === 3) { pen.moveTo(x + s * 0.2, y + s * 0.2); pen.lineTo(x + s * 0.8, y + s * 0.8); pen.moveTo(x + s * 0.8, y + s * 0.2); pen.lineTo(x + s * 0.2, y + s * 0.8); }
  pen.stroke();
}

function show() {
  if (!state) return;
  byId("map-table-btn").setAttribute("aria-pressed", String(view.table));
  byId("map-canvas").hidden = view.table;
  byId("map-table").hidden = !view.table;
  say();
  legend();
  side();
  summary();
  if (view.table) table(); else { if (!cells.length) arrange(); paint(); }
}

function mean(values, members) {
  let sum = 0;
  let n = 0;
  for (const i of members) if (values[i] !== UNKNOWN) { sum += values[i]; n += 1; }
  return n ? sum / n : NaN;
}

function say() {
  const all = layout.names.map((_, i) => i);
  const closed = state.state.filter((s) => s).length;
  const silent = state.age.filter((a) => a === UNKNOWN).length;
  const parts = [closed ? `${closed} take no new work` : "all take new work", silent ? `${silent} ${silent === 1 ? "has" : "have"} not reported` : "all have reported"];
  byId("map-lead").textContent = `${layout.names.length.toLocaleString("en-GB")} servers; ${parts.join(", ")}.`;
  const title = byId("map-title");
  if (view.colour === "state") {
    const counts = layout.states.map((name, k) => `${state.state.filter((s) => s === k).length} ${name}`);
    title.textContent = counts.join(", ");
  } else {
    const shown = layer();
    const scale = shown.top === 200 ? 2 : 1;
    const values = groups.map((group) => ({ name: group.name, value: mean(shown.values, group.members) / scale })).filter((g) => !Number.isNaN(g.value));
    const top = values.reduce((a, b) => (b.value > a.value ? b : a), { name: "", value: -1 });
    const average = mean(shown.values, all) / scale;
    title.textContent = Number.isNaN(average) ? "No server has reported yet" : `${shown.name}: ${average.toFixed(0)} ${shown.unit} on average over the servers, highest on ${view.group} ${top.name} with ${top.value.toFixed(0)} ${shown.unit}`;
  }
  byId("map-sub").textContent = `One cell per server, grouped by ${view.group}, n = ${layout.names.length.toLocaleString("en-GB")}. A struck cell has not reported; marked cells take no new work.`;
}

function legend() {
  const host = byId("map-legend");
  const key = `${view.colour} ${document.documentElement.dataset.theme}`;
  if (host.dataset.key === key) return;
  host.dataset.key = key;
  byId("map-legend-name").textContent = view.colour === "state" ? "State" : layer().name;
  if (view.colour === "state") {
    const list = document.createElement("ul");
    list.className = "swatches";
    layout.states.forEach((name, k) => {
      const item = document.createElement("li");
      const swatch = document.createElement("canvas");
      swatch.width = 12;
      swatch.height = 12;
      const pen = swatch.getContext("2d");
      pen.fillStyle = css(STATE_TOKENS[k]);
      pen.fillRect(0, 0, 12, 12);
      const before = size;
      size = 12;
      if (k) mark(pen, { x: 0, y: 0 }, k);
      size = before;
      item.append(swatch, name);
      list.append(item);
    });
    host.replaceChildren(list);
    return;
  }
  const shown = layer();
  const row = document.createElement("div");
  row.className = "ramp";
  const strip = document.createElement("canvas");
  strip.width = 101;
  strip.height = 1;
  const pen = strip.getContext("2d");
  ramp().forEach((colour, i) => { pen.fillStyle = colour; pen.fillRect(i, 0, 1, 1); });
  row.append(shown.low, strip, shown.high);
  host.replaceChildren(row);
}

function words(i) {
  const name = layout.states[state.state[i]];
  if (view.colour === "state") return name;
  const shown = layer();
  return shown.values[i] === UNKNOWN ? "not reported" : shown.word(shown.values[i]);
}

function under(event) {
  const rect = canvas.getBoundingClientRect();
  const [x, y] = [event.clientX - rect.left, event.clientY - rect.top];
  return cells.findIndex((cell) => x >= cell.x && x < cell.x + size + GAP && y >= cell.y && y < cell.y + size + GAP);
}

function hover(event) {
  if (drag) { boxSelect(event); return; }
  const i = under(event);
  tip.hidden = i < 0;
  if (i < 0) return;
  const lines = [words(i), `${layout.names[i]}, platform ${layout.platforms[layout.platform[i]]}, ${layout.racks[layout.rack[i]]}`, `${Math.round((state.allocated[i] / 200) * layout.cores[i])} of ${layout.cores[i]} units allocated`];
  tip.replaceChildren(...lines.map((line, k) => { const part = document.createElement(k ? "span" : "b"); part.textContent = line; return part; }));
  const rect = byId("map-canvas").getBoundingClientRect();
  const x = event.clientX - rect.left;
  const y = event.clientY - rect.top;
  tip.style.setProperty("left", `${x + 14 + tip.offsetWidth > rect.width ? x - tip.offsetWidth - 12 : x + 14}px`);
  tip.style.setProperty("top", `${Math.max(0, y - tip.offsetHeight - 8)}px`);
}

function press(event) {
  if (event.pointerType === "touch") { const i = under(event); if (i >= 0) { focus = i; selected = new Set([i]); side(); paint(); } return; }
  drag = { x: event.clientX, y: event.clientY, moved: false, add: event.shiftKey || event.ctrlKey || event.metaKey, before: new Set(selected) };
  canvas.setPointerCapture(event.pointerId);
}

function boxSelect(event) {
  if (Math.abs(event.clientX - drag.x) + Math.abs(event.clientY - drag.y) < 5 && !drag.moved) return;
  drag.moved = true;
  tip.hidden = true;
  const rect = canvas.getBoundingClientRect();
  const [x0, x1] = [drag.x, event.clientX].map((v) => v - rect.left).sort((a, b) => a - b);
  const [y0, y1] = [drag.y, event.clientY].map((v) => v - rect.top).sort((a, b) => a - b);
  selected = new Set(drag.add ? drag.before : []);
  cells.forEach((cell, i) => { if (cell.x + size >= x0 && cell.x <= x1 && cell.y + size >= y0 && cell.y <= y1) selected.add(i); });
  paint();
  const pen = canvas.getContext("2d");
  pen.strokeStyle = css("--accent");
  pen.lineWidth = 1;
  pen.strokeRect(x0, y0, x1 - x0, y1 - y0);
}

function release(event) {
  if (!drag) return;
  if (!drag.moved) {
    const i = under(event);
    if (i >= 0) { focus = i; anchor = i; if (drag.add) { if (selected.has(i)) selected.delete(i); else selected.add(i); } else selected = new Set([i]); } else if (!drag.add) selected.clear();
  }
  drag = null;
  side();
  paint();
}

function keys(event) {
  const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
  if (event.key === "Enter") { open(focus); return; }
  if (event.key === "Escape") { selected.clear(); side(); paint(); return; }
  const move = moves[event.key];
  if (!move) return;
  event.preventDefault();
  const next = neighbour(focus, move);
  if (event.shiftKey) {
    if (anchor === null) anchor = focus;
    const order = groups.flatMap((group) => group.members);
    const [a, b] = [order.indexOf(anchor), order.indexOf(next)].sort((p, q) => p - q);
    selected = new Set(order.slice(a, b + 1));
  } else { anchor = next; selected = new Set([next]); }
  focus = next;
  side();
  paint();
}

function neighbour(i, [dx, dy]) {
  const here = cells[i];
  let best = i;
  let least = Infinity;
  cells.forEach((cell, k) => {
    const [x, y] = [cell.x - here.x, cell.y - here.y];
    if (x * dx + y * dy <= 0) return;
    const along = Math.abs(x * dx + y * dy);
    const across = Math.abs(x * dy) + Math.abs(y * dx);
    const far = along + across * 4;
    if (far < least) { least = far; best = k; }
  });
  return best;
}

function open(i) { location.href = `/servers/${encodeURIComponent(layout.names[i])}/`; }

function find(event) {
  const text = event.target.value.trim().toLowerCase();
  pulse = text ? layout.names.findIndex((name) => name.toLowerCase().includes(text)) : -1;
  if (pulse >= 0) { focus = pulse; selected = new Set([pulse]); }
  side();
  paint();
}

function element(tag, text, cls = "") {
  const made = document.createElement(tag);
  made.textContent = text;
  if (cls) made.className = cls;
  return made;
}

function pairs(list) {
  const dl = element("dl", "", "kv");
  for (const [name, value] of list) dl.append(element("dt", name), element("dd", value));
  return dl;
}

function side() {
  const host = byId("map-side");
  const chosen = [...selected];
  const key = chosen.join() + chosen.map((i) => `${state.cpu[i]}${state.allocated[i]}${state.state[i]}`).join();
  if (host.dataset.key === key) return;
  host.dataset.key = key;
  if (!chosen.length) { host.replaceChildren(element("h2", "No server selected"), element("p", "Click a cell, or move with the arrow keys. Drag or hold Shift to select several.", "meta")); return; }
  const one = chosen.length === 1 ? chosen[0] : -1;
  const percent = (v) => (Number.isNaN(v) || v === UNKNOWN ? "–" : `${(v / 2).toFixed(0)} %`);
  const units = chosen.reduce((sum, i) => sum + layout.cores[i], 0);
  const held = chosen.reduce((sum, i) => sum + Math.round((state.allocated[i] / 200) * layout.cores[i]), 0);
  const facts = one >= 0
    ? [["State", layout.states[state.state[one]]], ["Platform", layout.platforms[layout.platform[one]]], ["Rack", layout.racks[layout.rack[one]]], ["CPU used", percent(state.cpu[one])], ["Units", `${held} of ${units} allocated`], ["Heartbeat", state.age[one] === UNKNOWN ? "none yet" : `${state.age[one]} s ago`], ["Tightest", tightest(one)]]
    : [["CPU used", percent(mean(state.cpu, chosen))], ["Units", `${held} of ${units} allocated`], ["Active", String(chosen.filter((i) => !state.state[i]).length)], ["Closed", String(chosen.filter((i) => state.state[i]).length)]];
  const parts = [element("h2", one >= 0 ? layout.names[one] : `${chosen.length} servers selected`), pairs(facts)];
  const row = element("div", "", "btns");
  if (one >= 0) { const link = element("a", "Open", "btn small"); link.href = `/servers/${encodeURIComponent(layout.names[one])}/`; row.append(link); }
  if ("mayChange" in box.dataset) {
    for (const [action, name] of [["cordon", "Cordon…"], ["drain", "Drain…"], ["undrain", "Take back…"]]) {
      const button = element("button", name, action === "drain" ? "btn small danger" : "btn small");
      button.type = "button";
      button.dataset.change = action;
      row.append(button);
    }
  }
  if (row.childElementCount) parts.push(row);
  host.replaceChildren(...parts);
}

function tightest(i) {
  let best = 0;
  for (let k = 1; k < layout.sources.length; k += 1) if (state.pressure[k][i] > state.pressure[best][i]) best = k;
  const points = state.pressure[best][i] / 2;
  return points ? `${layout.sources[best].name}, ${points.toFixed(0)} points` : "nothing";
}

function sideClick(event) {
  const action = event.target.closest("[data-change]")?.dataset.change;
  if (!action) return;
  const servers = [...selected].map((i) => ({ id: layout.ids[i], name: layout.names[i] }));
  changeServers(action, servers, null, refresh);
}

function summary() {
  const host = byId("map-groups");
  const made = element("table", "", "table tight");
  const head = element("tr", "");
  [view.group === "rack" ? "Rack" : "Platform", "Servers", "CPU", "Allocated"].forEach((name, k) => { const th = element("th", name, k ? "num" : ""); th.scope = "col"; head.append(th); });
  const top = element("thead", "");
  top.append(head);
  const body = element("tbody", "");
  const percent = (v) => (Number.isNaN(v) ? "–" : `${(v / 2).toFixed(0)} %`);
  for (const group of groups.slice(0, 24)) {
    const row = element("tr", "");
    [group.name, group.members.length, percent(mean(state.cpu, group.members)), percent(mean(state.allocated, group.members))].forEach((value, k) => row.append(element("td", String(value), k ? "num" : "")));
    body.append(row);
  }
  made.append(element("caption", `Means by ${view.group}`, "sr"), top, body);
  const rest = groups.length > 24 ? [element("p", `and ${groups.length - 24} more`, "meta")] : [];
  host.replaceChildren(element("h2", `By ${view.group}`), made, ...rest);
}

function table() {
  const host = byId("map-table");
  const made = element("table", "", "table tight flush");
  const names = ["Server", "Platform", "Rack", "State", "CPU", "Allocated", "Heartbeat", "Tightest"];
  const head = element("tr", "");
  names.forEach((name, k) => { const th = element("th", name, k > 3 && k < 7 ? "num" : ""); th.scope = "col"; head.append(th); });
  const top = element("thead", "");
  top.append(head);
  const body = element("tbody", "");
  const percent = (v) => (v === UNKNOWN ? "–" : `${(v / 2).toFixed(0)} %`);
  const order = groups.flatMap((group) => group.members).slice(0, 1000);
  for (const i of order) {
    const row = element("tr", "");
    const link = element("a", layout.names[i], "mono");
    link.href = `/servers/${encodeURIComponent(layout.names[i])}/`;
    const first = element("td", "");
    first.append(link);
    row.append(first);
    [layout.platforms[layout.platform[i]], layout.racks[layout.rack[i]], layout.states[state.state[i]], percent(state.cpu[i]), percent(state.allocated[i]), state.age[i] === UNKNOWN ? "none" : `${state.age[i]} s ago`, tightest(i)].forEach((value, k) => row.append(element("td", value, k > 2 && k < 6 ? "num" : "")));
    body.append(row);
  }
  made.append(element("caption", "Servers", "sr"), top, body);
  const scroll = host.scrollTop;
  host.replaceChildren(made, ...(layout.names.length > 1000 ? [element("p", `The first 1,000 of ${layout.names.length.toLocaleString("en-GB")}; the rest is at /api/v1/servers/.`, "meta")] : []));
  host.scrollTop = scroll;
}

function keepAddress() {
  const url = new URL(location.href);
  url.searchParams.set("colour", view.colour);
  url.searchParams.set("group", view.group);
  if (view.table) url.searchParams.set("view", "table"); else url.searchParams.delete("view");
  history.replaceState(null, "", url);
  byId("map-legend").dataset.key = "";
}
