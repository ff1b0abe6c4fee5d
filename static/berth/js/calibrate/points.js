/* The placements of one version of a front, by column. A placement is identified by its number, `index`. */
import { formatRaw, OBJECTIVES } from "./objectives.js";

const FACTS = ["nodes_on", "jobs_protected", "jobs_exposed", "jobs_split", "worst_job"];

export class Points {
  constructor(answer) {
    this.version = answer.version;
    this.index = answer.index;
    this.size = answer.index.length;
    this.raw = answer.raw;
    this.normalised = Object.fromEntries(OBJECTIVES.map((o) => [o, Float64Array.from(answer.normalised[o])]));
    for (const fact of FACTS) this[fact] = answer[fact];
    this.scales = {}; // of objectives besides P, D and C
    this.anchors = {};
    this.extent = Object.fromEntries(OBJECTIVES.map((o) => [o, rangeOf(this.normalised[o])])); // over all placements
    this.at = new Map(answer.index.map((point, i) => [point, i]));
    this.thinned = null; // positions shown, or null for all
  }

  /* Show only these placements. */
  thin(index) {
    this.thinned = index === null ? null : index.map((point) => this.at.get(point)).filter((i) => i !== undefined);
  }

  get shown() {
    return this.thinned ?? this.every;
  }

  get every() {
    this.positions ??= Array.from({ length: this.size }, (_, i) => i);
    return this.positions;
  }

  has(point) {
    return this.at.has(point);
  }

  values(point) {
    const i = this.at.get(point);
    return Object.fromEntries(OBJECTIVES.map((o) => [o, this.normalised[o][i]]));
  }

  name(point) {
    return `placement ${point}`;
  }

  /* The objectives of a placement in one line, with units. */
  line(point) {
    const i = this.at.get(point);
    return OBJECTIVES.map((o) => formatRaw(o, this.raw[o][i])).join(" · ");
  }

  /* The placement nearest to normalised values, and its distance. */
  nearest(values) {
    let [nearest, minDistance] = [0, Infinity];
    for (let i = 0; i < this.size; i += 1) {
      let distance = 0;
      for (const o of OBJECTIVES) distance += (this.normalised[o][i] - values[o]) ** 2;
      if (distance < minDistance) {
        minDistance = distance;
        nearest = i;
      }
    }
    return { point: this.index[nearest], distance: Math.sqrt(minDistance) };
  }

  /* Add objectives that the front was not searched by. */
  add(objectives) {
    for (const [o, { raw, normalised, scale, anchors }] of Object.entries(objectives)) {
      this.raw[o] = raw;
      this.normalised[o] = Float64Array.from(normalised);
      this.extent[o] = rangeOf(normalised);
      this.scales[o] = scale;
      this.anchors[o] = anchors;
    }
  }
}

function rangeOf(values) {
  let [low, high] = [Infinity, -Infinity];
  for (const value of values) {
    if (value < low) low = value;
    if (value > high) high = value;
  }
  return [low, high];
}
