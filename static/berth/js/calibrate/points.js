/* The placements of one version of a front, by column; a placement is named by its stable number, `index`. */
import { OBJECTIVES, raw } from "./words.js";

const FACTS = ["nodes_on", "jobs_protected", "jobs_exposed", "jobs_split", "worst_job"];

export class Points {
  constructor(answer) {
    this.version = answer.version;
    this.found = answer.points;
    this.index = answer.index;
    this.size = answer.index.length;
    this.raw = answer.raw;
    this.normalised = Object.fromEntries(OBJECTIVES.map((o) => [o, Float64Array.from(answer.normalised[o])]));
    for (const fact of FACTS) this[fact] = answer[fact];
    this.at = new Map(answer.index.map((point, i) => [point, i]));
    this.thinned = null; // positions shown; null = all
  }

  /* Show only these placements. */
  thin(index) { this.thinned = index === null ? null : index.map((point) => this.at.get(point)).filter((i) => i !== undefined); }

  get shown() { return this.thinned ?? this.every; }

  get every() { return (this.positions ??= Array.from({ length: this.size }, (_, i) => i)); }

  has(point) { return this.at.has(point); }

  values(point) {
    const i = this.at.get(point);
    return Object.fromEntries(OBJECTIVES.map((o) => [o, this.normalised[o][i]]));
  }

  name(point) { return `placement ${point}`; }

  /* One line of what a placement is like, in raw units. */
  line(point) {
    const i = this.at.get(point);
    return OBJECTIVES.map((o) => raw(o, this.raw[o][i])).join(" · ");
  }

  /* The placement nearest to normalised values, and how far it is. */
  nearest(values) {
    let [best, least] = [0, Infinity];
    for (let i = 0; i < this.size; i += 1) {
      let far = 0;
      for (const o of OBJECTIVES) far += (this.normalised[o][i] - values[o]) ** 2;
      if (far < least) { least = far; best = i; }
    }
    return { point: this.index[best], distance: Math.sqrt(least) };
  }

  /* Lowest and highest of each objective over all placements. */
  get extent() {
    return (this.span ??= Object.fromEntries(OBJECTIVES.map((o) => {
      let [low, high] = [Infinity, -Infinity];
      for (const value of this.normalised[o]) { if (value < low) low = value; if (value > high) high = value; }
      return [o, [low, high]];
    })));
  }
}
