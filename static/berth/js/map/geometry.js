/* Where the cells are: groups of servers in rows, as large as the window allows. */
import { map, view } from "./state.js";

export const GAP = 2;
const HEADING = 18;
const MARGIN_X = 14;
const MARGIN_Y = 12;
const MAX_SIZE = 34;
const LETTER_PX = 7;
const COUNT_PX = 30; // px of the number of servers after a group's name

/* Members of each rack or platform, without empty groups. */
export function groupServers(layout, groupBy) {
  const [names, keys] = groupBy === "rack" ? [layout.racks, layout.rack] : [layout.platforms, layout.platform];
  const groups = names.map((name, index) => ({ name, index, members: [] }));
  for (const [i, key] of keys.entries()) groups[key].members.push(i);
  return groups.filter((group) => group.members.length);
}

/* Group the servers and choose the largest cell size that fits the height. Returns the height needed. */
export function arrange(width, maxHeight, minSize) {
  map.groups = groupServers(map.layout, view.group);
  for (map.size = MAX_SIZE; map.size > minSize; map.size -= 1) if (placeCells(width) <= maxHeight) break;
  return placeCells(width);
}

/* Place the groups next to each other in rows. Returns the height. */
function placeCells(width) {
  const pitch = map.size + GAP;
  map.cells = new Array(map.layout.names.length);
  let [x, y, rowHeight] = [0, 0, 0];
  for (const group of map.groups) {
    const count = group.members.length;
    const columns = columnsOf(group, width, pitch);
    const groupWidth = columns * pitch + MARGIN_X;
    const groupHeight = HEADING + Math.ceil(count / columns) * pitch + MARGIN_Y;
    if (x && x + groupWidth - MARGIN_X > width) {
      x = 0;
      y += rowHeight;
      rowHeight = 0;
    }
    Object.assign(group, { x, y, columns });
    for (const [k, i] of group.members.entries())
      map.cells[i] = { x: x + (k % columns) * pitch, y: y + HEADING + Math.floor(k / columns) * pitch };
    x += groupWidth;
    rowHeight = Math.max(rowHeight, groupHeight);
  }
  return y + rowHeight;
}

/* Columns of a group: about three times as wide as high, and wide enough for its name. */
function columnsOf({ name, members }, width, pitch) {
  const maxColumns = Math.max(1, Math.floor((width + GAP) / pitch));
  const nameColumns = Math.ceil((name.length * LETTER_PX + COUNT_PX) / pitch);
  return Math.min(maxColumns, Math.max(nameColumns, Math.ceil(Math.sqrt(members.length * 3))));
}

/* Servers in the order in which they are drawn. */
export const serverOrder = () => map.groups.flatMap((group) => group.members);

/* The server at a point of the canvas, or -1. */
export function serverAt(x, y) {
  const pitch = map.size + GAP;
  return map.cells.findIndex((cell) => x >= cell.x && x < cell.x + pitch && y >= cell.y && y < cell.y + pitch);
}

/* Servers whose cells touch a rectangle. */
export function serversInside([x0, x1], [y0, y1]) {
  const { cells, size } = map;
  return cells.flatMap((cell, i) =>
    cell.x + size >= x0 && cell.x <= x1 && cell.y + size >= y0 && cell.y <= y1 ? [i] : [],
  );
}

/* The nearest server in a direction; distance sideways counts four times. */
export function neighbour(from, [dx, dy]) {
  const origin = map.cells[from];
  let [nearest, minDistance] = [from, Infinity];
  for (const [i, cell] of map.cells.entries()) {
    const [x, y] = [cell.x - origin.x, cell.y - origin.y];
    const ahead = x * dx + y * dy;
    if (ahead <= 0) continue;
    const distance = ahead + 4 * (Math.abs(x * dy) + Math.abs(y * dx));
    if (distance < minDistance) {
      minDistance = distance;
      nearest = i;
    }
  }
  return nearest;
}
