/* Performance values with their units. */
import { duration } from "./format.js";

/* A number with three significant digits and at most six decimals. */
export const significantText = (value) =>
  Number(value.toPrecision(3)).toLocaleString("en-GB", { maximumFractionDigits: 6 });

/* Performance in the unit of a kind of target. */
export function performanceText(kind, value) {
  if (kind === "ips")
    return value >= 1e9 ? `${significantText(value / 1e9)} G instr./s` : `${significantText(value)} instr./s`;
  if (kind === "best_effort") return `${significantText(3600 * value)} of the work per hour`;
  return duration(value);
}

/* An estimate in the unit that the API names; "–" if there is none. */
export function estimateText(estimate, unit) {
  if (!estimate) return "–";
  const { value } = estimate;
  if (unit === "instructions/s")
    return value >= 1e9 ? `${significantText(value / 1e9)} G instr./s` : `${significantText(value / 1e6)} M instr./s`;
  return unit === "seconds" ? duration(value) : performanceText("best_effort", value);
}
