/* Maps of the servers before and after: a cell per server, a column per rack, shaded by the units in use. */
import { byId, css, element } from "../dom.js";
import { counted, grouped } from "../format.js";

const GAP = 1;

export function drawMaps({ servers, before, after }) {
  const host = byId("cal-maps");
  if (!host || !servers?.name.length) return;
  const columns = rackColumns(servers);
  const targets = servers.is_target.filter(Boolean).length;
  const off = servers.after.filter((share, i) => !share && servers.before[i]).length;
  const figures = [
    ["Before", servers.before, null, before.servers_on],
    ["After", servers.after, servers, after.servers_on],
  ].map(([name, shares, marks, count]) => {
    const figure = element("figure");
    const caption = element("figcaption");
    caption.append(element("b", name), ` ${grouped(count)} on`);
    const canvas = element("canvas", "", "", {
      role: "img",
      "aria-label": `Servers ${name.toLowerCase()}: ${grouped(count)} of ${grouped(shares.length)} on`,
    });
    figure.append(caption, canvas);
    return { figure, canvas, shares, marks };
  });
  const foot = element("p", "", "meta");
  foot.append(
    "One cell per server, one column per rack, shaded by units in use. ",
    element("span", "", "kc chg-k"),
    ` receives containers (${grouped(targets)}), `,
    element("span", "", "kc off-k"),
    ` will be empty (${counted(off, "server")}).`,
  );
  host.replaceChildren(...figures.map(({ figure }) => figure), foot);
  for (const figure of figures) paint(figure, columns);
}

/* Columns of servers by rack; large racks take several columns, so that the map stays about square. */
export function rackColumns(servers) {
  const racks = new Map();
  for (const [i, rack] of servers.rack.entries()) racks.set(rack, [...(racks.get(rack) ?? []), i]);
  const tall = Math.max(4, Math.ceil(Math.sqrt(servers.name.length)));
  const columns = [];
  for (const members of racks.values()) {
    const parts = Math.ceil(members.length / tall);
    const length = Math.ceil(members.length / parts);
    for (let k = 0; k < members.length; k += length) columns.push(members.slice(k, k + length));
  }
  return columns;
}

const TALL = 160,
  WIDEST = 18; // px: of a map, of a cell

function paint({ canvas, shares, marks }, columns) {
  const ratio = devicePixelRatio || 1;
  const room = canvas.parentNode.clientWidth || 136;
  const rows = Math.max(...columns.map((column) => column.length));
  const size = Math.max(2, Math.min(WIDEST, Math.floor((room + GAP) / columns.length) - GAP));
  const tall = Math.max(2, Math.min(size, Math.floor(TALL / rows) - GAP));
  const step = size + GAP;
  const [width, height] = [columns.length * step, rows * (tall + GAP)];
  canvas.width = Math.round(width * ratio);
  canvas.height = Math.round(height * ratio);
  canvas.style.setProperty("width", `${width}px`);
  canvas.style.setProperty("height", `${height}px`);
  const pen = canvas.getContext("2d");
  pen.scale(ratio, ratio);
  const colours = Array.from({ length: 9 }, (_, k) => css(`seq-${k}`));
  const [line, strong, mark] = [css("rule-strong"), css("control-border"), css("cat-2")];
  for (const [c, column] of columns.entries()) {
    for (const [r, i] of column.entries()) {
      const [x, y] = [c * step, r * (tall + GAP)];
      if (!shares[i]) {
        const isNew = marks?.before[i];
        pen.strokeStyle = isNew ? strong : line;
        pen.strokeRect(x + 0.5, y + 0.5, size - 1, tall - 1);
      } else {
        pen.fillStyle = colours[Math.min(8, 1 + Math.floor(shares[i] * 7.99))];
        pen.fillRect(x, y, size, tall);
      }
      if (!marks?.is_target[i]) continue;
      pen.strokeStyle = mark;
      pen.lineWidth = size > 4 ? 2 : 1;
      pen.strokeRect(x + 0.5, y + 0.5, size - 1, tall - 1);
      pen.lineWidth = 1;
    }
  }
}
