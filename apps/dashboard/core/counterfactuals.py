"""The smallest changes that would have changed a decision, from its stored facts alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from apps.common.core.interference import SOURCES
from apps.dashboard.core import formats, labels
from apps.dashboard.core.explanation import CandidateFacts, DecisionFacts

RELAXED: Final = {  # filters a submitter can relax
    "platform": "If any platform were allowed",
    "label": "Without the required labels",
    "labels": "Without the required labels",
    "locality": "If its units could be further apart",
    "spread": "If its units could be closer together",
}


@dataclass(frozen=True, slots=True)
class Counterfactual:
    """One hypothetical change and its outcome."""

    change: str
    outcome: str


@dataclass(frozen=True, slots=True)
class SizePrediction:
    """Pessimistic predictions for the chosen size and for one unit less.

    Attributes
    ----------
    kind : of the target
    at : with the chosen size, in the unit of the target
    less : with one unit less; None if the job has one unit
    """

    kind: str
    at: float
    less: float | None


def counterfactuals(
    facts: DecisionFacts, sizes: SizePrediction | None = None
) -> tuple[Counterfactual, ...]:
    """Return changes that would have changed the outcome, smallest first.

    Parameters
    ----------
    sizes : None if the profile does not reproduce the stored prediction
    """
    changes = _placed(facts, sizes) if facts.placed else _refused(facts)
    return tuple(change for change in changes if change is not None)


def _placed(facts: DecisionFacts, sizes: SizePrediction | None) -> Sequence[Counterfactual | None]:
    return (*_targets(facts, sizes), _first_choice_full(facts), _more_pressure(facts))


def _targets(
    facts: DecisionFacts, sizes: SizePrediction | None
) -> Sequence[Counterfactual | None]:
    """Return how far the target can change before the size changes."""
    if sizes is None:
        return ()
    is_rate = sizes.kind == "ips"
    easier, harder = ("at most", "more than") if is_rate else ("at least", "less than")
    at = formats.performance_text(sizes.kind, sizes.at)
    more = Counterfactual(
        f"Target {harder} {at}",
        f"needs more than {formats.plural(facts.units, 'unit')} for the same confidence",
    )
    if sizes.less is None:
        return (more,)
    less = formats.performance_text(sizes.kind, sizes.less)
    fewer = formats.plural(facts.units - 1, "unit")
    return (Counterfactual(f"Target {easier} {less}", f"{fewer} would be enough"), more)


def _first_choice_full(facts: DecisionFacts) -> Counterfactual | None:
    """Name the server that would have been chosen instead."""
    chosen = next((c for c in facts.candidates if c.verdict == "chosen"), None)
    chosen_servers = {c.server for c in facts.candidates if c.verdict == "chosen"}
    other = next(
        (
            c
            for c in facts.candidates
            if c.verdict == "outranked" and c.server not in chosen_servers
        ),
        None,
    )
    if chosen is None or other is None:
        return None
    return Counterfactual(
        f"If {chosen.server} were full", f"{other.server} would be chosen{_match(chosen, other)}"
    )


def _match(chosen: CandidateFacts, other: CandidateFacts) -> str:
    """Compare the matches or scores; "" if the policy computes none."""
    name = "match" if chosen.expectation is None else "score"
    best, next_best = formats.significant(chosen.closeness), formats.significant(other.closeness)
    if "–" in {best, next_best}:
        return ""
    return (
        f", with the same {name}"
        if best == next_best
        else f", {name} {next_best} instead of {best}"
    )


def _more_pressure(facts: DecisionFacts) -> Counterfactual | None:
    """Return how much more pressure its tightest unit tolerates."""
    chosen = [c for c in facts.candidates if c.verdict == "chosen" and c.headroom]
    if not chosen:
        return None
    unit = min(chosen, key=lambda c: c.headroom[c.tightest])
    room = unit.headroom[unit.tightest]
    if room < 0:
        return None
    source = labels.SOURCE_NAMES[SOURCES[unit.tightest]]
    points = formats.trimmed(room) if room >= 0.05 else "0"
    return Counterfactual(
        f"If {source} pressure on {unit.server} rose by more than {points} points",
        "the job would miss its target there",
    )


def _refused(facts: DecisionFacts) -> Sequence[Counterfactual | None]:
    dropped = dict(facts.dropped)
    return (
        _less_pressure(facts.candidates),
        _more_free_units(facts, dropped),
        *_relaxed_filters(dropped),
    )


def _less_pressure(candidates: Sequence[CandidateFacts]) -> Counterfactual | None:
    """Name the unit closest to being quiet enough, and the missing points."""
    noisy = [c for c in candidates if c.verdict == "too_noisy" and c.headroom]
    if not noisy:
        return None
    unit = max(noisy, key=lambda c: c.headroom[c.tightest])
    source = labels.SOURCE_NAMES[SOURCES[unit.tightest]]
    missing = formats.trimmed(max(0.1, -unit.headroom[unit.tightest]))
    return Counterfactual(
        f"If {source} pressure on {unit.server} fell by {missing} points",
        "the job would meet its target there",
    )


def _more_free_units(facts: DecisionFacts, dropped: Mapping[str, int]) -> Counterfactual | None:
    missing = facts.units - facts.eligible
    busy = dropped.get("busy", 0)
    if not 0 < missing <= busy:
        return None
    return Counterfactual(
        f"If {formats.plural(missing, 'more unit')} became free",
        f"there would be enough; {formats.thousands(busy)} are allocated to other jobs",
    )


def _relaxed_filters(dropped: Mapping[str, int]) -> Sequence[Counterfactual]:
    return [
        Counterfactual(change, f"{formats.plural(dropped[name], 'more unit')} would be eligible")
        for name, change in RELAXED.items()
        if dropped.get(name)
    ]
