/* The map as a table. */
import { byId, dataTable, element } from "../dom.js";
import { grouped } from "../format.js";
import { serverOrder } from "./geometry.js";
import { heartbeatText, highestPressure, map, serverUrl, shareText } from "./state.js";

const MAX_ROWS = 1000;
const COLUMNS = [
  ["Server", ""],
  ["Platform", ""],
  ["Rack", ""],
  ["State", ""],
  ["CPU used", "num"],
  ["Allocated", "num"],
  ["Heartbeat", "num"],
  ["Highest pressure", ""],
];

export function showTable() {
  const host = byId("map-table");
  const { scrollTop } = host;
  const rows = serverOrder().slice(0, MAX_ROWS).map(serverRow);
  host.replaceChildren(dataTable(COLUMNS, rows, { cls: "table tight flush", caption: "Servers" }));
  const count = map.layout.names.length;
  if (count > MAX_ROWS) {
    const text = `The first ${grouped(MAX_ROWS)} of ${grouped(count)} servers. All servers: /api/v1/servers/.`;
    host.append(element("p", text, "meta"));
  }
  host.scrollTop = scrollTop;
}

function serverRow(i) {
  const { layout, state } = map;
  const row = element("tr");
  const name = element("td");
  name.append(element("a", layout.names[i], "mono", { href: serverUrl(i) }));
  row.append(
    name,
    element("td", layout.platforms[layout.platform[i]]),
    element("td", layout.racks[layout.rack[i]]),
    element("td", layout.states[state.state[i]]),
    element("td", shareText(state.cpu[i]), "num"),
    element("td", shareText(state.allocated[i]), "num"),
    element("td", heartbeatText(state.age[i]), "num"),
    element("td", highestPressure(i)),
  );
  return row;
}
