/* What one has picked and chosen, with undo and redo; kept in the tab, one draft for each front.

   A state is never changed, only followed by another. Picks are placements; each remembers the screens it was accepted
   on, because the rule wants at least three there. */
import { OBJECTIVES, SCREENS } from "./words.js";

const MOST_STEPS = 200;
const EMPTY = {
  version: 0, rule: "spread", picks: [], rejected: [], reference: null, direct: { P: 1, D: 1, C: 1 }, answers: [], parent: null,
};

export class Draft {
  constructor(front, changed) {
    this.key = `berth-calibrate-${front}`;
    this.changed = changed;
    this.past = [];
    this.future = [];
    this.state = EMPTY;
    try {
      const kept = JSON.parse(sessionStorage.getItem(this.key) ?? "null");
      if (kept) { this.past = kept.past; this.future = kept.future; this.state = { ...EMPTY, ...kept.state }; }
    } catch { /* storage is off, or holds what we did not write: begin anew */ }
  }

  /* Follow the state by another; `what` says it in words ("accept placement 17"). */
  follow(what, values) {
    this.past.push({ what, state: this.state });
    if (this.past.length > MOST_STEPS) this.past.shift();
    this.future = [];
    this.state = { ...this.state, ...values };
    this.keep();
    this.changed(what);
  }

  /* Change the state with no step to undo. */
  amend(values) {
    this.state = { ...this.state, ...values };
    this.keep();
  }

  /* Only steps to states of these versions can be taken any more; says whether there were others. */
  keepSteps(versions) {
    const stays = ({ state }) => versions.includes(state.version);
    if ([...this.past, ...this.future].every(stays)) return false;
    this.past = this.past.filter(stays);
    this.future = this.future.filter(stays);
    this.keep();
    return true;
  }

  undo() { this.step(this.past, this.future, "Undone"); }

  redo() { this.step(this.future, this.past, "Redone"); }

  step(from, to, word) {
    const last = from.pop();
    if (!last) return;
    to.push({ what: last.what, state: this.state });
    this.state = last.state;
    this.keep();
    this.changed(`${word}: ${last.what}`);
  }

  keep() {
    try { sessionStorage.setItem(this.key, JSON.stringify({ past: this.past, future: this.future, state: this.state })); } catch { /* not kept */ }
  }

  /* Accept a placement on a screen; once more there takes that back. */
  accept(point, screen, name) {
    const held = this.state.picks.find((pick) => pick.point === point);
    const rejected = this.state.rejected.filter((other) => other !== point);
    let picks;
    if (!held) picks = [...this.state.picks, { point, screens: [screen] }];
    else {
      const screens = held.screens.includes(screen) ? held.screens.filter((other) => other !== screen) : [...held.screens, screen];
      picks = this.state.picks.flatMap((pick) => (pick !== held ? [pick] : screens.length ? [{ point, screens }] : []));
    }
    const isOn = picks.some((pick) => pick.point === point && pick.screens.includes(screen));
    this.follow(`${isOn ? "accept" : "no longer accept"} ${name} on ${screen}`, { picks, rejected });
  }

  acceptAll(points, screen) {
    const held = new Set(this.state.picks.filter((pick) => pick.screens.includes(screen)).map((pick) => pick.point));
    const wanted = new Set(points.filter((point) => !held.has(point)));
    const known = new Set(this.state.picks.map((pick) => pick.point));
    const picks = this.state.picks.map((pick) => (wanted.has(pick.point) ? { point: pick.point, screens: [...pick.screens, screen] } : pick));
    for (const point of wanted) if (!known.has(point)) picks.push({ point, screens: [screen] });
    this.follow(`accept ${wanted.size} placements on ${screen}`, { picks, rejected: this.state.rejected.filter((point) => !wanted.has(point)) });
  }

  reject(points, name) {
    const all = points.every((point) => this.state.rejected.includes(point));
    const chosen = new Set(points);
    const rejected = all
      ? this.state.rejected.filter((point) => !chosen.has(point))
      : [...new Set([...this.state.rejected, ...points])];
    this.follow(`${all ? "no longer reject" : "reject"} ${name}`, { rejected, picks: this.state.picks.filter((pick) => !chosen.has(pick.point)) });
  }

  remove(point, name) {
    this.follow(`remove ${name}`, { picks: this.state.picks.filter((pick) => pick.point !== point) });
  }

  clear() { this.follow("clear all picks", { picks: [], rejected: [] }); }

  /* Whether it names no placement of its version. */
  get isEmpty() { return !this.state.picks.length && !this.state.rejected.length && !this.state.answers.length; }

  /* Points by screen, as the REST calls want them. */
  get byScreen() {
    return Object.fromEntries(SCREENS.map(({ name }) => [name, this.state.picks.filter((pick) => pick.screens.includes(name)).map((pick) => pick.point)]));
  }

  /* What the rule in force takes besides the picks. */
  get wanted() {
    const { rule, reference, direct } = this.state;
    return rule === "reference" ? reference ?? {} : rule === "spread" ? {} : direct;
  }

  /* Take over a saved set; its picks are of that version. */
  load(set, version) {
    const screens = new Map();
    for (const { name: screen } of SCREENS) for (const point of set.picks[screen] ?? []) screens.set(point, [...(screens.get(point) ?? []), screen]);
    this.follow(`load the set ${set.name}`, {
      version, rule: set.rule, picks: [...screens].map(([point, on]) => ({ point, screens: on })), rejected: set.rejected, answers: [], parent: set.id,
      reference: set.rule === "reference" ? set.wanted : this.state.reference,
      direct: set.rule === "direct" ? set.wanted : Object.fromEntries(OBJECTIVES.map((o) => [o, set.weights[o]])),
    });
  }
}
