/* Numbers, durations and counts as text. */

/* "1 job", "2 jobs"; `plural` if it is not the singular with an s. */
export const counted = (count, singular, plural = `${singular}s`) =>
  `${grouped(count)} ${count === 1 ? singular : plural}`;

const COUNTS = [
  "No",
  "One",
  "Two",
  "Three",
  "Four",
  "Five",
  "Six",
  "Seven",
  "Eight",
  "Nine",
  "Ten",
  "Eleven",
  "Twelve",
];
/* A count at the start of a sentence: a word up to twelve. */
export const spelled = (count) => COUNTS[count] ?? grouped(count);

/* A number with thousands separators and a fixed number of decimals. */
export function grouped(value, digits = 0) {
  return value
    .toLocaleString("en-GB", { minimumFractionDigits: digits, maximumFractionDigits: digits })
    .replace("-", "−");
}

/* A number rounded to `digits` significant digits, without exponent or trailing zeros. */
export function significant(value, digits = 3) {
  if (value === null || value === undefined || Number.isNaN(value)) return "–";
  if (!Number.isFinite(value)) return "∞";
  if (!value) return "0";
  const places = Math.min(6, Math.max(0, digits - 1 - Math.floor(Math.log10(Math.abs(value)))));
  return value.toLocaleString("en-GB", { maximumFractionDigits: places }).replace("-", "−");
}

/* A change with its sign; zero has none. */
export function signed(value, digits = 0) {
  const text = grouped(Math.abs(value), digits);
  return Number(text.replaceAll(",", "")) === 0 ? text : `${value > 0 ? "+" : "−"}${text}`;
}

export const percent = (share, digits = 1) =>
  share === null || share === undefined ? "–" : `${grouped(100 * share, digits)} %`;

export function watts(value, digits = 1) {
  return Math.abs(value) >= 1000 ? `${grouped(value / 1000, digits)} kW` : `${grouped(value, 0)} W`;
}

/* A duration in its two largest units, as `formats.duration` on the server. */
export function duration(seconds) {
  if (seconds < 59.95) return short(seconds);
  const whole = Math.round(seconds);
  if (whole < 3600) return units(whole, 60, "min", "s");
  const minutes = Math.floor(whole / 60);
  return minutes < 1440 ? units(minutes, 60, "h", "min") : units(Math.floor(minutes / 60), 24, "d", "h");
}

const units = (count, size, name, small) =>
  `${Math.floor(count / size)} ${name}${count % size ? ` ${count % size} ${small}` : ""}`;

function short(seconds) {
  if (seconds === 0 || seconds >= 0.9995) return `${Number(seconds.toFixed(1))} s`;
  return seconds < 0.0009995 ? `${significant(1e6 * seconds)} µs` : `${significant(1000 * seconds)} ms`;
}

/* A wall time as time of day in UTC. */
export const wallTime = (ms) => `${new Date(ms).toISOString().slice(11, 19)} UTC`;

/* The rate of cluster time per wall time. */
export const clusterRate = (speed) => (speed > 0 ? `${significant(speed)}×` : "stopped");

/* Cluster seconds as day and time of day. */
export const clusterTime = (seconds) =>
  `day ${Math.floor(seconds / 86400) + 1}, ${new Date(1000 * seconds).toISOString().slice(11, 16)}`;

/* Axis ticks at multiples of 1, 2, 2.5 or 5 times a power of ten; about `count` of them. */
export function ticks(low, high, count = 4) {
  const rough = (high - low) / count;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = [1, 2, 2.5, 5, 10].map((factor) => factor * power).find((value) => value >= rough * 0.999);
  const values = [];
  for (let k = Math.ceil(low / step - 1e-9); k * step <= high + step * 1e-6; k += 1)
    values.push(Number((k * step).toPrecision(12)));
  return values;
}

/* A tick label without the leading zero: 0.5 is ".5". */
export const tickLabel = (value) =>
  String(Number(value.toFixed(4)))
    .replace(/^(-?)0\./, "$1.")
    .replace("-", "−");

const QUOTED = /[",\n]/;

/* Rows as RFC 4180 text. */
export const csv = (rows) => rows.map((row) => row.map(csvField).join(",")).join("\r\n");

function csvField(value) {
  const text = String(value);
  return QUOTED.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export const mean = (values) => values.reduce((sum, value) => sum + value, 0) / values.length;
