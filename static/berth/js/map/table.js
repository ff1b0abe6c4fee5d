/* The map as a table. */
import { byId, dataTable, element } from "../dom.js";
import { grouped } from "../format.js";
import { serverOrder } from "./geometry.js";
import { heartbeatText, highestPressure, map, serverUrl, shareText } from "./state.js";

const MAX_ROWS = 1000;
/* Name, class and text by server of the columns after the name. */
const COLUMNS = [
  ["Platform", "", (i) => map.layout.platforms[map.layout.platform[i]]],
  ["Rack", "", (i) => map.layout.racks[map.layout.rack[i]]],
  ["CPU used", "num", (i) => shareText(map.state.cpu[i])],
  ["Allocated", "num", (i) => shareText(map.state.allocated[i])],
];
const COLUMNS_NOW = [
  ...COLUMNS.slice(0, 2),
  ["State", "", (i) => map.layout.states[map.state.state[i]]],
  ...COLUMNS.slice(2),
  ["Heartbeat", "num", (i) => heartbeatText(map.state.age[i])],
  ["Highest pressure", "", highestPressure],
];

export function showTable() {
  const host = byId("map-table");
  const { scrollTop } = host;
  const columns = map.state.state ? COLUMNS_NOW : COLUMNS;
  const rows = serverOrder()
    .slice(0, MAX_ROWS)
    .map((i) => serverRow(i, columns));
  host.replaceChildren(dataTable([["Server", ""], ...columns], rows, { cls: "table tight flush", caption: "Servers" }));
  const count = map.layout.names.length;
  if (count > MAX_ROWS) {
    const text = `The first ${grouped(MAX_ROWS)} of ${grouped(count)} servers. All servers: /api/v1/servers/.`;
    host.append(element("p", text, "meta"));
  }
  host.scrollTop = scrollTop;
}

function serverRow(i, columns) {
  const row = element("tr");
  const name = element("td");
  name.append(element("a", map.layout.names[i], "mono", { href: serverUrl(i) }));
  row.append(name, ...columns.map(([, cls, text]) => element("td", text(i), cls)));
  return row;
}
