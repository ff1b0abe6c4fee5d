/* The servers, their latest state, the view settings and the selection. */
import { byId } from "../dom.js";

export const UNKNOWN = 255; // of a byte: the server has not reported
const LAST_AGE_S = 250; // ages from here on are one value
const AGE_RANGE_S = 60;
const HALF_PERCENT = 200; // shares are in half percent

const params = new URLSearchParams(location.search);

export const view = {
  colour: params.get("colour") || "cpu",
  group: params.get("group") || "platform",
  isTable: params.get("view") === "table",
};

export const map = {
  layout: null, // names, platforms, racks and sources, as /map/layout gives them
  state: null, // one byte per server and column
  groups: [], // { name, index, members, x, y, columns }
  cells: [], // { x, y } by server, in px
  size: 12, // px of a cell
  focus: 0, // server under the keyboard cursor
  match: -1, // server found by name, or -1
  selected: new Set(),
};

const bytes = (text) => Uint8Array.from(atob(text), (character) => character.charCodeAt(0));

/* Decode the state: columns are base64, one byte per server. Those that are not recorded of an earlier moment are null. */
export function decodeState(answer) {
  return {
    ...answer,
    cpu: bytes(answer.cpu),
    allocated: bytes(answer.allocated),
    age: answer.age && bytes(answer.age),
    state: answer.state && bytes(answer.state),
    pressure: answer.pressure?.map(bytes) ?? null,
  };
}

/* The quantity that colours the cells: values per server, full scale and texts. */
export function colourLayer({ colour } = view) {
  const { layout, state } = map;
  if (colour === "age")
    return {
      values: state.age,
      max: AGE_RANGE_S,
      perUnit: 1,
      describe: (age) => `heartbeat ${age === LAST_AGE_S ? "250 s or more" : `${age} s`} ago`,
      name: "Heartbeat age",
      low: "0",
      high: "60 s",
      unit: "s",
    };
  if (colour.startsWith("p-")) {
    const i = layout.sources.findIndex((source) => `p-${source.key}` === colour);
    return {
      values: state.pressure[i],
      max: HALF_PERCENT,
      perUnit: 2,
      describe: (value) => `${value / 2} points of pressure on a free unit`,
      name: layout.sources[i].name,
      low: "0",
      high: "100",
      unit: "points",
    };
  }
  const isAllocated = colour === "allocated";
  return {
    values: isAllocated ? state.allocated : state.cpu,
    max: HALF_PERCENT,
    perUnit: 2,
    describe: (value) => `${shareText(value)} ${isAllocated ? "of its units allocated" : "CPU used"}`,
    name: isAllocated ? "Units allocated" : "CPU used",
    share: isAllocated ? "allocated" : "cpu",
    low: "0",
    high: "100 %",
    unit: "%",
  };
}

/* Mean over the servers that have reported; NaN if none has. */
export function meanOf(values, servers) {
  let [sum, count] = [0, 0];
  for (const i of servers) {
    if (values[i] === UNKNOWN) continue;
    sum += values[i];
    count += 1;
  }
  return count ? sum / count : NaN;
}

/* Share in half percent of the cores of these servers, of those that report; NaN if none does. */
export function shareOf(values, servers) {
  const { cores } = map.layout;
  const known = [...servers].filter((i) => values[i] !== UNKNOWN);
  const total = known.reduce((sum, i) => sum + cores[i], 0);
  return total ? known.reduce((sum, i) => sum + values[i] * cores[i], 0) / total : NaN;
}

/* The share of the cluster or of a group, in half percent: `kind` is cpu or allocated. */
export function usageOf(kind, group = null) {
  const { usage } = map.state;
  const share = (group ? usage[view.group][group.index] : usage.all)[kind];
  return share === null ? NaN : share * HALF_PERCENT;
}

/* A share in half percent as text. */
export const shareText = (value) => (Number.isNaN(value) || value === UNKNOWN ? "–" : `${(value / 2).toFixed(0)} %`);

export const heartbeatText = (age, never = "none") => (age === UNKNOWN ? never : `${age} s ago`);

/* Whether a server is closed to new jobs; unknown at an earlier moment. */
export const stateOf = (i) => map.state.state?.[i] ?? 0;

export const isAllocationKnown = (i) => map.state.allocated[i] !== UNKNOWN;

export const allocatedUnits = (i) => Math.round((map.state.allocated[i] / HALF_PERCENT) * map.layout.cores[i]);

/* The resource with the most pressure on a server. */
export function highestPressure(i) {
  const { layout, state } = map;
  let highest = 0;
  for (let k = 1; k < layout.sources.length; k += 1) if (state.pressure[k][i] > state.pressure[highest][i]) highest = k;
  const points = state.pressure[highest][i] / 2;
  return points ? `${layout.sources[highest].name}, ${points.toFixed(0)} points` : "none";
}

export const serverUrl = (i) => `/servers/${encodeURIComponent(map.layout.names[i])}/`;

export function openServer(i) {
  location.href = serverUrl(i);
}

/* Store the view settings in the address. */
export function updateAddress() {
  const url = new URL(location.href);
  url.searchParams.set("colour", view.colour);
  url.searchParams.set("group", view.group);
  if (view.isTable) url.searchParams.set("view", "table");
  else url.searchParams.delete("view");
  history.replaceState(null, "", url);
  byId("map-legend").dataset.key = "";
}
