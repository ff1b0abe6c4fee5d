/* The canvas: a cell per server, its state mark, and the outlines of selection, focus and search match. */
import { css } from "../dom.js";
import { colourLayer, map, stateOf, UNKNOWN, view } from "./state.js";

const STATE_TOKENS = ["div-7", "cat-2", "cat-6", "bad"];
const RAMP_STOPS = 9;
export const canvas = document.querySelector("#map-canvas canvas");

export const stateColour = (code) => css(STATE_TOKENS[code]);

/* The sequential colour scale in steps of one percent. */
export function colourRamp() {
  const stops = Array.from({ length: RAMP_STOPS }, (_, i) => css(`seq-${i}`)).map((hex) =>
    [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16)),
  );
  return Array.from({ length: 101 }, (_, percent) => {
    const position = (percent / 100) * (RAMP_STOPS - 1);
    const i = Math.min(RAMP_STOPS - 2, Math.floor(position));
    return `rgb(${stops[i].map((from, k) => Math.round(from + (stops[i + 1][k] - from) * (position - i))).join()})`;
  });
}

export function paint() {
  if (!map.state || !map.cells.length) return;
  const ratio = devicePixelRatio || 1;
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, canvas.width, canvas.height);
  paintHeadings(pen);
  paintCells(pen);
  paintOutlines(pen);
}

function paintHeadings(pen) {
  const [bold, regular] = [600, 400].map((weight) => `${weight} 11px ${css("font-sans")}`);
  const [text, muted] = [css("text"), css("text-3")];
  pen.textBaseline = "middle";
  for (const { name, members, x, y } of map.groups) {
    pen.font = bold;
    pen.fillStyle = text;
    pen.fillText(name, x, y + 8);
    const width = pen.measureText(name).width;
    pen.font = regular;
    pen.fillStyle = muted;
    pen.fillText(members.length.toLocaleString("en-GB"), x + width + 6, y + 8);
  }
}

function paintCells(pen) {
  const { cells, size } = map;
  const stateColours = STATE_TOKENS.map(css);
  const ramp = colourRamp();
  const layer = view.colour === "state" ? null : colourLayer();
  const hatch = css("rule-strong");
  for (const [i, cell] of cells.entries()) {
    const value = layer?.values[i];
    if (layer && value === UNKNOWN) {
      paintUnreported(pen, cell, hatch);
      continue;
    }
    pen.fillStyle = layer ? ramp[Math.round(100 * Math.min(1, value / layer.max))] : stateColours[stateOf(i)];
    pen.fillRect(cell.x, cell.y, size, size);
    if (stateOf(i)) paintMark(pen, cell, stateOf(i), size);
  }
}

function paintOutlines(pen) {
  const { cells, selected, focus, match } = map;
  pen.strokeStyle = css("text");
  pen.lineWidth = 2;
  for (const i of selected) outline(pen, cells[i]);
  if (document.activeElement === canvas && cells[focus]) {
    pen.strokeStyle = css("accent");
    outline(pen, cells[focus], 2);
  }
  if (match >= 0) {
    pen.strokeStyle = css("cat-2");
    pen.lineWidth = 3;
    outline(pen, cells[match], 3);
  }
}

function outline(pen, cell, outset = 0) {
  pen.strokeRect(cell.x - outset / 2, cell.y - outset / 2, map.size + outset, map.size + outset);
}

function paintUnreported(pen, { x, y }, colour) {
  const { size } = map;
  pen.strokeStyle = colour;
  pen.lineWidth = 1;
  pen.strokeRect(x + 0.5, y + 0.5, size - 1, size - 1);
  pen.beginPath();
  pen.moveTo(x, y + size);
  pen.lineTo(x + size, y);
  pen.stroke();
}

/* Lines by state, as fractions of the cell: one bar = cordoned, two bars = draining, cross = down. */
const MARKS = {
  1: [[0.2, 0.5, 0.8, 0.5]],
  2: [
    [0.35, 0.2, 0.35, 0.8],
    [0.65, 0.2, 0.65, 0.8],
  ],
  3: [
    [0.2, 0.2, 0.8, 0.8],
    [0.8, 0.2, 0.2, 0.8],
  ],
};

/* A server closed to new jobs has a mark, so that its state does not depend on colour alone. */
export function paintMark(pen, { x, y }, state, size) {
  if (size < 6) return;
  pen.strokeStyle = css("bg");
  pen.lineWidth = Math.max(1.5, size / 8);
  pen.beginPath();
  for (const [x0, y0, x1, y1] of MARKS[state] ?? []) {
    pen.moveTo(x + size * x0, y + size * y0);
    pen.lineTo(x + size * x1, y + size * y1);
  }
  pen.stroke();
}

/* The rectangle of a drag. */
export function paintDragBox([x0, x1], [y0, y1]) {
  const pen = canvas.getContext("2d");
  pen.strokeStyle = css("accent");
  pen.lineWidth = 1;
  pen.strokeRect(x0, y0, x1 - x0, y1 - y0);
}
