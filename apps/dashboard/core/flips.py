"""The smallest changes that would have changed a decision, from what it stored alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from apps.common.core.interference import SOURCES
from apps.dashboard.core import words
from apps.dashboard.core.why import CandidateFacts, DecisionFacts

LIFTED: Final = {  # filters that a submitter can relax
    "platform": "If any platform were allowed",
    "label": "Without the labels asked for",
    "labels": "Without the labels asked for",
    "locality": "If its units could be further apart",
    "spread": "If its units could be nearer together",
}


@dataclass(frozen=True, slots=True)
class Flip:
    """One change and what would come of it."""

    change: str
    outcome: str


@dataclass(frozen=True, slots=True)
class Sizes:
    """What the profile predicts around the size taken, at the pessimistic end.

    Attributes
    ----------
    kind : of the target
    at : with the size taken, in the target's unit
    less : with one unit less; None = it has one unit
    """

    kind: str
    at: float
    less: float | None


def flips(facts: DecisionFacts, sizes: Sizes | None = None) -> tuple[Flip, ...]:
    """Return changes that would have changed the outcome, the nearest first.

    Parameters
    ----------
    sizes : predictions around the size taken; None = the profile does not give the stored one
    """
    found = _placed(facts, sizes) if facts.placed else _refused(facts)
    return tuple(flip for flip in found if flip is not None)


def _placed(facts: DecisionFacts, sizes: Sizes | None) -> Sequence[Flip | None]:
    return (*_targets(facts, sizes), _without(facts), _louder(facts))


def _targets(facts: DecisionFacts, sizes: Sizes | None) -> Sequence[Flip | None]:
    """How far the target may move before the size changes."""
    if sizes is None:
        return ()
    is_rate = sizes.kind == "ips"
    easier, harder = ("at most", "more than") if is_rate else ("at least", "less than")
    at = words.performance_text(sizes.kind, sizes.at)
    more = Flip(
        f"Target {harder} {at}",
        f"more than {words.plural(facts.units, 'unit')}, to be as sure of it",
    )
    if sizes.less is None:
        return (more,)
    less = words.performance_text(sizes.kind, sizes.less)
    fewer = words.plural(facts.units - 1, "unit")
    return (Flip(f"Target {easier} {less}", f"{fewer} would be enough"), more)


def _without(facts: DecisionFacts) -> Flip | None:
    """Name what would have been taken instead of the first choice."""
    chosen = next((c for c in facts.candidates if c.verdict == "chosen"), None)
    taken = {c.server for c in facts.candidates if c.verdict == "chosen"}
    other = next(
        (c for c in facts.candidates if c.verdict == "outranked" and c.server not in taken), None
    )
    if chosen is None or other is None:
        return None
    return Flip(
        f"If {chosen.server} were full", f"{other.server} would be next{_match(chosen, other)}"
    )


def _match(chosen: CandidateFacts, other: CandidateFacts) -> str:
    """Return how the next best compares; nothing where the policy computes no match."""
    here, there = words.significant(chosen.closeness), words.significant(other.closeness)
    if "–" in {here, there}:
        return ""
    return ", as good a match" if here == there else f", match {there} instead of {here}"


def _louder(facts: DecisionFacts) -> Flip | None:
    """How much more pressure the tightest of its units bears."""
    chosen = [c for c in facts.candidates if c.verdict == "chosen" and c.headroom]
    if not chosen:
        return None
    unit = min(chosen, key=lambda c: c.headroom[c.tightest])
    room = unit.headroom[unit.tightest]
    if room < 0:
        return None
    source = words.SOURCE_NAMES[SOURCES[unit.tightest]]
    points = words.trimmed(room) if room >= 0.05 else "0"
    return Flip(
        f"If {source} pressure on {unit.server} rose by {points} points",
        "more than that and it could not keep its promise there",
    )


def _refused(facts: DecisionFacts) -> Sequence[Flip | None]:
    dropped = dict(facts.dropped)
    return (_quieter(facts.candidates), _freed(facts, dropped), *_relaxed(dropped))


def _quieter(candidates: Sequence[CandidateFacts]) -> Flip | None:
    """Name the unit that was the least too noisy, and by how much."""
    noisy = [c for c in candidates if c.verdict == "too_noisy" and c.headroom]
    if not noisy:
        return None
    unit = max(noisy, key=lambda c: c.headroom[c.tightest])
    source = words.SOURCE_NAMES[SOURCES[unit.tightest]]
    short = words.trimmed(max(0.1, -unit.headroom[unit.tightest]))
    return Flip(
        f"If {source} pressure on {unit.server} fell by {short} points",
        "that unit could keep the promise",
    )


def _freed(facts: DecisionFacts, dropped: Mapping[str, int]) -> Flip | None:
    missing = facts.units - facts.eligible
    busy = dropped.get("busy", 0)
    if missing <= 0 or not busy:
        return None
    return Flip(
        f"If {words.plural(missing, 'more unit')} became free",
        f"enough could be examined; {words.thousands(busy)} are allocated to other jobs",
    )


def _relaxed(dropped: Mapping[str, int]) -> Sequence[Flip]:
    return [
        Flip(change, f"{words.plural(dropped[name], 'more unit')} would be eligible")
        for name, change in LIFTED.items()
        if dropped.get(name)
    ]
