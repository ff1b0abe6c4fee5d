/* The picks and settings of one front, with undo and redo, stored in the tab.

   States are immutable. Picks are placements; each holds the screens it was accepted on, because the rule needs at
   least three on each screen. */
import { hasObjectives, isObjective, OBJECTIVES, SCREENS } from "./objectives.js";

const MAX_UNDO = 200;
const EMPTY = {
  version: 0,
  rule: "spread",
  picks: [],
  rejected: [],
  reference: null,
  direct: { P: 1, D: 1, C: 1 },
  answers: [],
  parent: null,
  bounds: {}, // normalised, by objective
};

/* The objectives that a state names and that do not exist. */
function unknownIn({ bounds = {}, picks }) {
  const screens = picks.flatMap((pick) => pick.screens);
  const named = [...Object.keys(bounds), ...screens.flatMap((screen) => screen.split("-"))];
  return [...new Set(named)].filter((o) => !isObjective(o));
}

/* A state without bounds and screens of objectives that do not exist, and without bounds on `refused` ones. */
function withoutUnknown(state, refused = []) {
  const isKept = ([o]) => isObjective(o) && !refused.includes(o);
  const picks = state.picks.map((pick) => ({ ...pick, screens: pick.screens.filter(hasObjectives) }));
  return {
    ...state,
    picks: picks.filter((pick) => pick.screens.length),
    bounds: Object.fromEntries(Object.entries(state.bounds ?? {}).filter(isKept)),
  };
}

export class Draft {
  /* `onChange` is called with the action after every change. */
  constructor(front, onChange) {
    this.key = `berth-calibrate-${front}`;
    this.onChange = onChange;
    this.past = [];
    this.future = [];
    this.state = EMPTY;
    this.unknown = []; // objectives that do not exist, left out of the stored draft or of the set loaded last
    try {
      const stored = JSON.parse(sessionStorage.getItem(this.key) ?? "null");
      if (stored) {
        this.past = stored.past;
        this.future = stored.future;
        this.state = { ...EMPTY, ...stored.state };
        this.unknown = unknownIn(this.state);
        this.keepObjectives();
      }
    } catch {
      /* no storage, or invalid content: start with an empty draft */
    }
  }

  /* Change the state; `action` describes the change ("accept placement 17") and can be undone. */
  commit(action, values) {
    this.commitSilently(action, values);
    this.onChange(action);
  }

  commitSilently(action, values) {
    this.past.push({ action, state: this.state });
    if (this.past.length > MAX_UNDO) this.past.shift();
    this.future = [];
    this.amend(values);
  }

  /* Change the state without an undo entry. */
  amend(values) {
    this.state = { ...this.state, ...values };
    this.store();
  }

  /* Drop undo and redo entries of other versions. Returns whether there were any. */
  keepVersions(versions) {
    const isKept = ({ state }) => versions.includes(state.version);
    if ([...this.past, ...this.future].every(isKept)) return false;
    this.past = this.past.filter(isKept);
    this.future = this.future.filter(isKept);
    this.store();
    return true;
  }

  /* Drop bounds on refused objectives and all that names no objective, from undo and redo too. */
  keepObjectives(refused = []) {
    const kept = (entry) => ({ ...entry, state: withoutUnknown(entry.state, refused) });
    this.past = this.past.map(kept);
    this.future = this.future.map(kept);
    this.state = withoutUnknown(this.state, refused);
    this.store();
  }

  undo() {
    this.restore(this.past, this.future, "Undone");
  }

  redo() {
    this.restore(this.future, this.past, "Redone");
  }

  restore(from, to, word) {
    const entry = from.pop();
    if (!entry) return;
    to.push({ action: entry.action, state: this.state });
    this.state = entry.state;
    this.store();
    this.onChange(`${word}: ${entry.action}`);
  }

  store() {
    try {
      sessionStorage.setItem(this.key, JSON.stringify({ past: this.past, future: this.future, state: this.state }));
    } catch {
      /* no storage */
    }
  }

  /* Accept a placement on a screen, or undo that if it is accepted there. */
  accept(point, screen, name) {
    const { picks, rejected } = this.state;
    const pick = picks.find((other) => other.point === point) ?? { point, screens: [] };
    const isAccepted = pick.screens.includes(screen);
    const screens = isAccepted ? pick.screens.filter((other) => other !== screen) : [...pick.screens, screen];
    const changed = { point, screens };
    const others = picks.includes(pick)
      ? picks.map((other) => (other === pick ? changed : other))
      : [...picks, changed];
    this.commit(`${isAccepted ? "no longer accept" : "accept"} ${name} on ${screen}`, {
      picks: others.filter((other) => other.screens.length),
      rejected: rejected.filter((other) => other !== point),
    });
  }

  acceptAll(points, screen) {
    const { picks, rejected } = this.state;
    const accepted = new Set(picks.filter((pick) => pick.screens.includes(screen)).map((pick) => pick.point));
    const added = new Set(points.filter((point) => !accepted.has(point)));
    const picked = new Set(picks.map((pick) => pick.point));
    const extended = picks.map((pick) =>
      added.has(pick.point) ? { point: pick.point, screens: [...pick.screens, screen] } : pick,
    );
    for (const point of added) if (!picked.has(point)) extended.push({ point, screens: [screen] });
    this.commit(`accept ${added.size} placements on ${screen}`, {
      picks: extended,
      rejected: rejected.filter((point) => !added.has(point)),
    });
  }

  /* Reject placements, or undo that if all are rejected. */
  reject(points, name) {
    const { picks, rejected } = this.state;
    const areRejected = points.every((point) => rejected.includes(point));
    const chosen = new Set(points);
    this.commit(`${areRejected ? "no longer reject" : "reject"} ${name}`, {
      rejected: areRejected ? rejected.filter((point) => !chosen.has(point)) : [...new Set([...rejected, ...points])],
      picks: picks.filter((pick) => !chosen.has(pick.point)),
    });
  }

  remove(point, name) {
    this.commit(`remove ${name}`, { picks: this.state.picks.filter((pick) => pick.point !== point) });
  }

  clear() {
    this.commit("clear all picks", { picks: [], rejected: [] });
  }

  /* Whether it names no placement of its version. */
  get isEmpty() {
    return !this.state.picks.length && !this.state.rejected.length && !this.state.answers.length;
  }

  /* Placements by screen, as the REST API takes them. */
  get byScreen() {
    const accepted = (name) => this.state.picks.filter((pick) => pick.screens.includes(name));
    const names = [...SCREENS.map(({ name }) => name), ...this.state.picks.flatMap((pick) => pick.screens)];
    return Object.fromEntries(names.map((name) => [name, accepted(name).map((pick) => pick.point)]));
  }

  /* The input of the rule apart from the picks: a reference point or weights. */
  get ruleInput() {
    const { rule, reference, direct } = this.state;
    if (rule === "spread") return {};
    return rule === "reference" ? (reference ?? {}) : direct;
  }

  /* Load a saved set; its picks are placements of `version`. What names no objective is left out. */
  load(set, version) {
    const screens = new Map();
    const names = new Set([...SCREENS.map(({ name }) => name), ...Object.keys(set.picks)]);
    for (const screen of names)
      for (const point of set.picks[screen] ?? []) screens.set(point, [...(screens.get(point) ?? []), screen]);
    const picks = [...screens].map(([point, names]) => ({ point, screens: names }));
    const named = { picks, bounds: set.bounds };
    this.unknown = unknownIn(named);
    this.commit(`load the set ${set.name}`, {
      ...withoutUnknown(named),
      version,
      rule: set.rule,
      rejected: set.rejected,
      answers: [],
      parent: set.id,
      reference: set.rule === "reference" ? set.wanted : this.state.reference,
      direct: set.rule === "direct" ? set.wanted : Object.fromEntries(OBJECTIVES.map((o) => [o, set.weights[o]])),
    });
  }
}
