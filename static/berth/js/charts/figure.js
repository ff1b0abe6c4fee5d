/* Preparing a figure for Plotly: theme colours, hover names and ticks that fit the width. */
import { css } from "../dom.js";

/* Repeat the row names of a heatmap for every cell, as hover labels need. */
export function repeatRowNames(trace) {
  if (!trace.meta?.rows) return;
  const columns = trace.z.shape ? Number(String(trace.z.shape).split(",")[1]) : (trace.z[0]?.length ?? 0);
  trace.customdata = trace.meta.rows.map((name) => new Array(columns).fill(name));
}

const MIN_TICK_PX = { level: 38, slanted: 18, steep: 14 };
const STEEP = { angle: -62, height: 26 };

/* Thin out category ticks that are too close: slanted labels become steep first, then every other tick is removed. */
export function fitTicks(layout, width) {
  const inside = width - layout.margin.l - layout.margin.r;
  for (const name of Object.keys(layout)) {
    const axis = layout[name];
    if (!/^xaxis/.test(name) || !Array.isArray(axis.tickvals) || axis.tickvals.length < 4) continue;
    const room = (((axis.domain?.[1] ?? 1) - (axis.domain?.[0] ?? 0)) * inside) / axis.tickvals.length;
    if (room > (axis.tickangle ? MIN_TICK_PX.slanted : MIN_TICK_PX.level)) continue;
    if (axis.tickangle) {
      axis.tickangle = STEEP.angle;
      layout.margin.t += STEEP.height;
      if (room > MIN_TICK_PX.steep) continue;
    }
    const keep = (_, i) => i % 2 === (axis.tickvals.length - 1) % 2;
    layout[name] = { ...axis, tickvals: axis.tickvals.filter(keep), ticktext: axis.ticktext?.filter(keep) };
  }
}

/* Replace var(--token) and var(--token/opacity) by colours of the current theme, in place. */
export function withThemeColours(value, mode) {
  if (typeof value === "string") return value.startsWith("var(--") ? tokenColour(value, mode) : value;
  if (Array.isArray(value)) {
    for (let i = 0; i < value.length; i += 1) value[i] = withThemeColours(value[i], mode);
    return value;
  }
  if (value && typeof value === "object") {
    if ("bdata" in value) return value;
    for (const key of Object.keys(value)) value[key] = withThemeColours(value[key], mode);
  }
  return value;
}

function tokenColour(token, mode) {
  const [, name, opacity] = token.match(/^var\(--([a-z0-9-]+)(?:\/(.+))?\)$/);
  const hex = css(name);
  if (!opacity) return hex;
  const alpha = opacity === "band" ? (mode === "dark" ? 0.2 : 0.14) : Number(opacity);
  const [r, g, b] = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
  return `rgba(${r},${g},${b},${alpha})`;
}
