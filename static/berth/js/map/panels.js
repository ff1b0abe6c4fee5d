/* The texts around the map: headline, legend, selected servers and means by group. */
import { byId, dataTable, definitionList, element } from "../dom.js";
import { grouped } from "../format.js";
import { colourRamp, paintMark, stateColour } from "./paint.js";
import {
  allocatedUnits,
  colourLayer,
  heartbeatText,
  highestPressure,
  isAllocationKnown,
  map,
  meanOf,
  serverUrl,
  shareOf,
  shareText,
  stateOf,
  UNKNOWN,
  usageOf,
  view,
} from "./state.js";

const MAX_GROUPS = 24;
const SWATCH = 12;
const ACTIONS = [
  ["cordon", "Cordon…", "btn small"],
  ["drain", "Drain…", "btn small danger"],
  ["undrain", "Return to service…", "btn small"],
];

export function showHeadline() {
  const { layout, state } = map;
  const count = layout.names.length;
  const closed = state.state?.filter((code) => code).length;
  const silent = (state.age ?? state.cpu).filter((value) => value === UNKNOWN).length;
  const verb = state.age ? (silent === 1 ? "has" : "have") : "had";
  const parts = [silent ? `${grouped(silent)} ${verb} not reported` : `all ${state.age ? "have" : "had"} reported`];
  if (state.state) parts.unshift(closed ? `${grouped(closed)} closed to new jobs` : "all open to new jobs");
  byId("map-lead").textContent = `${grouped(count)} servers; ${parts.join(", ")}.`;
  byId("map-title").textContent = view.colour === "state" ? stateTitle() : layerTitle();
  byId("map-sub").textContent =
    `One cell per server, grouped by ${view.group}, n = ${grouped(count)}. Crossed-out cells have not reported.${state.state ? " Marked cells are closed to new jobs." : ""}`;
}

function stateTitle() {
  const { layout, state } = map;
  return layout.states.map((name, code) => `${state.state.filter((s) => s === code).length} ${name}`).join(", ");
}

function layerTitle() {
  const { values, perUnit, name, unit, share } = colourLayer();
  const meanUse = (group) =>
    (share ? usageOf(share, group) : meanOf(values, group?.members ?? map.layout.names.keys())) / perUnit;
  const average = meanUse(null);
  if (Number.isNaN(average)) return map.state.state ? "No server has reported yet" : "No use was recorded until then";
  const means = map.groups
    .map((group) => ({ name: group.name, value: meanUse(group) }))
    .filter(({ value }) => !Number.isNaN(value));
  const highest = means.reduce((a, b) => (b.value > a.value ? b : a));
  const scope = share ? "of the cluster" : "on average over the servers";
  return `${name}: ${average.toFixed(0)} ${unit} ${scope}, highest on ${view.group} ${highest.name} with ${highest.value.toFixed(0)} ${unit}`;
}

export function showLegend() {
  const host = byId("map-legend");
  const key = `${view.colour} ${document.documentElement.dataset.theme}`;
  if (host.dataset.key === key) return;
  host.dataset.key = key;
  const isState = view.colour === "state";
  byId("map-legend-name").textContent = isState ? "State" : colourLayer().name;
  host.replaceChildren(isState ? stateSwatches() : colourScale());
}

function stateSwatches() {
  const list = element("ul", "", "swatches");
  for (const [code, name] of map.layout.states.entries()) {
    const item = element("li");
    const swatch = Object.assign(element("canvas"), { width: SWATCH, height: SWATCH });
    const pen = swatch.getContext("2d");
    pen.fillStyle = stateColour(code);
    pen.fillRect(0, 0, SWATCH, SWATCH);
    if (code) paintMark(pen, { x: 0, y: 0 }, code, SWATCH);
    item.append(swatch, name);
    list.append(item);
  }
  return list;
}

function colourScale() {
  const { low, high } = colourLayer();
  const ramp = colourRamp();
  const strip = Object.assign(element("canvas"), { width: ramp.length, height: 1 });
  const pen = strip.getContext("2d");
  for (const [i, colour] of ramp.entries()) {
    pen.fillStyle = colour;
    pen.fillRect(i, 0, 1, 1);
  }
  const row = element("div", "", "ramp");
  row.append(low, strip, high);
  return row;
}

export function showSelection() {
  const { state } = map;
  const host = byId("map-side");
  const selected = [...map.selected];
  const key = selected.map((i) => `${i}:${state.cpu[i]}:${state.allocated[i]}:${stateOf(i)}`).join();
  if (host.dataset.key === key) return;
  host.dataset.key = key;
  if (!selected.length) {
    host.replaceChildren(
      element("h2", "No server selected"),
      element("p", "Click a server or use the arrow keys. Drag or hold Shift to select several.", "meta"),
    );
    return;
  }
  const isOne = selected.length === 1;
  const title = isOne ? map.layout.names[selected[0]] : `${selected.length} servers selected`;
  const facts = isOne ? serverFacts(selected[0]) : selectionFacts(selected);
  const buttons = selectionButtons(isOne ? selected[0] : null);
  host.replaceChildren(element("h2", title), definitionList(facts), ...(buttons.childElementCount ? [buttons] : []));
}

function serverFacts(i) {
  const { layout, state } = map;
  const units = isAllocationKnown(i) ? `${allocatedUnits(i)} of ${layout.cores[i]} allocated` : "–";
  const facts = [
    ["Platform", layout.platforms[layout.platform[i]]],
    ["Rack", layout.racks[layout.rack[i]]],
    ["CPU used", shareText(state.cpu[i])],
    ["Units", units],
  ];
  if (!state.state) return facts;
  return [
    ["State", layout.states[state.state[i]]],
    ...facts,
    ["Heartbeat", heartbeatText(state.age[i], "none yet")],
    ["Highest pressure", highestPressure(i)],
  ];
}

function selectionFacts(servers) {
  const { layout, state } = map;
  const sum = (quantity) => servers.reduce((total, i) => total + quantity(i), 0);
  const facts = [
    ["CPU used", shareText(shareOf(state.cpu, servers))],
    [
      "Units",
      `${sum((i) => (isAllocationKnown(i) ? allocatedUnits(i) : 0))} of ${sum((i) => layout.cores[i])} allocated`,
    ],
  ];
  if (!state.state) return facts;
  const closed = servers.filter(stateOf).length;
  return [...facts, ["Active", String(servers.length - closed)], ["Closed", String(closed)]];
}

function selectionButtons(server) {
  const row = element("div", "", "btns");
  if (server !== null) row.append(element("a", "Open", "btn small", { href: serverUrl(server) }));
  if ("mayChange" in byId("cluster-map").dataset && map.state.state)
    for (const [action, text, cls] of ACTIONS)
      row.append(element("button", text, cls, { type: "button", "data-change": action }));
  return row;
}

export function showGroups() {
  const { groups } = map;
  const rows = groups.slice(0, MAX_GROUPS).map((group) => {
    const { name, members } = group;
    const row = element("tr");
    row.append(
      element("td", name),
      element("td", String(members.length), "num"),
      element("td", shareText(usageOf("cpu", group)), "num"),
      element("td", shareText(usageOf("allocated", group)), "num"),
    );
    return row;
  });
  const columns = [
    [view.group === "rack" ? "Rack" : "Platform", ""],
    ["Servers", "num"],
    ["CPU used", "num"],
    ["Allocated", "num"],
  ];
  const rest = groups.length - rows.length;
  byId("map-groups").replaceChildren(
    element("h2", `By ${view.group}`),
    dataTable(columns, rows, { caption: `Use by ${view.group}` }),
    ...(rest > 0 ? [element("p", `and ${grouped(rest)} more`, "meta")] : []),
  );
}
