/* Selecting servers with pointer, keyboard and the search field. */
import { byId, element } from "../dom.js";
import { neighbour, serverAt, serverOrder, serversInside } from "./geometry.js";
import { canvas, paint, paintDragBox } from "./paint.js";
import { showSelection } from "./panels.js";
import { allocatedUnits, colourLayer, isAllocationKnown, map, openServer, UNKNOWN, view } from "./state.js";

const DRAG_PX = 5;
const DIRECTIONS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const tip = document.querySelector("#map-canvas .tip");
let anchor = null; // where a selection with Shift starts
let drag = null;

export function startSelection() {
  canvas.addEventListener("pointerdown", onPress);
  canvas.addEventListener("pointermove", onMove);
  canvas.addEventListener("pointerup", onRelease);
  canvas.addEventListener("pointercancel", () => {
    if (!drag) return;
    const { before } = drag;
    drag = null;
    select(before);
  });
  canvas.addEventListener("pointerleave", () => {
    tip.hidden = true;
  });
  canvas.addEventListener("dblclick", (event) => {
    const server = underPointer(event);
    if (server >= 0) openServer(server);
  });
  canvas.addEventListener("keydown", onKey);
  canvas.addEventListener("focus", paint);
  canvas.addEventListener("blur", paint);
  byId("map-find").addEventListener("input", onSearch);
  byId("map-find").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && map.match >= 0) openServer(map.match);
  });
}

function select(servers, focus = map.focus) {
  map.selected = new Set(servers);
  map.focus = focus;
  showSelection();
  paint();
}

function pointerPosition(event) {
  const box = canvas.getBoundingClientRect();
  return [event.clientX - box.left, event.clientY - box.top];
}

const underPointer = (event) => serverAt(...pointerPosition(event));

/* ---- pointer ---- */

function onPress(event) {
  if (event.pointerType === "touch") {
    const server = underPointer(event);
    if (server >= 0) select([server], server);
    return;
  }
  drag = {
    start: pointerPosition(event),
    isMoved: false,
    adds: event.shiftKey || event.ctrlKey || event.metaKey,
    before: new Set(map.selected),
  };
  canvas.setPointerCapture(event.pointerId);
}

function onMove(event) {
  if (drag) selectBox(event);
  else showTip(event);
}

function selectBox(event) {
  const [[x0, y0], [x1, y1]] = [drag.start, pointerPosition(event)];
  if (!drag.isMoved && Math.abs(x1 - x0) + Math.abs(y1 - y0) < DRAG_PX) return;
  drag.isMoved = true;
  tip.hidden = true;
  const [xs, ys] = [
    [x0, x1],
    [y0, y1],
  ].map((ends) => ends.sort((a, b) => a - b));
  map.selected = new Set([...(drag.adds ? drag.before : []), ...serversInside(xs, ys)]);
  paint();
  paintDragBox(xs, ys);
}

function onRelease(event) {
  if (!drag) return;
  const { isMoved, adds } = drag;
  drag = null;
  const server = isMoved ? -1 : underPointer(event);
  if (server >= 0) anchor = server;
  if (isMoved || (server < 0 && adds)) select(map.selected);
  else if (server < 0) select([]);
  else if (!adds) select([server], server);
  else toggle(server);
}

function toggle(server) {
  const others = [...map.selected].filter((i) => i !== server);
  select(others.length < map.selected.size ? others : [...others, server], server);
}

function showTip(event) {
  const server = underPointer(event);
  tip.hidden = server < 0;
  if (server < 0) return;
  tip.replaceChildren(...tipLines(server).map((line, k) => element(k ? "span" : "b", line)));
  const host = byId("map-canvas");
  const box = host.getBoundingClientRect();
  const [x, y] = [event.clientX - box.left, event.clientY - box.top];
  const isRight = x + 14 + tip.offsetWidth > box.width;
  tip.style.setProperty("left", `${isRight ? x - tip.offsetWidth - 12 : x + 14}px`);
  tip.style.setProperty("top", `${Math.max(0, y - tip.offsetHeight - 8)}px`);
}

function tipLines(i) {
  const { layout } = map;
  return [
    cellText(i),
    `${layout.names[i]}, platform ${layout.platforms[layout.platform[i]]}, ${layout.racks[layout.rack[i]]}`,
    isAllocationKnown(i) ? `${allocatedUnits(i)} of ${layout.cores[i]} units allocated` : "allocation not recorded",
  ];
}

function cellText(i) {
  if (view.colour === "state") return map.layout.states[map.state.state[i]];
  const { values, describe } = colourLayer();
  return values[i] === UNKNOWN ? "not reported" : describe(values[i]);
}

/* ---- keyboard ---- */

function onKey(event) {
  if (event.key === "Enter") openServer(map.focus);
  else if (event.key === "Escape") select([]);
  else if (DIRECTIONS[event.key]) {
    event.preventDefault();
    moveFocus(neighbour(map.focus, DIRECTIONS[event.key]), event.shiftKey);
  }
}

/* Move the cursor; with Shift, select everything from where the selection started. */
function moveFocus(server, isExtending) {
  if (!isExtending) {
    anchor = server;
    select([server], server);
    return;
  }
  anchor ??= map.focus;
  const order = serverOrder();
  const [first, last] = [order.indexOf(anchor), order.indexOf(server)].sort((a, b) => a - b);
  select(order.slice(first, last + 1), server);
}

function onSearch(event) {
  const text = event.target.value.trim().toLowerCase();
  map.match = text ? map.layout.names.findIndex((name) => name.toLowerCase().includes(text)) : -1;
  if (map.match >= 0) select([map.match], map.match);
  else select(map.selected);
}
