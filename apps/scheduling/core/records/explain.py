"""Sentences that explain a stored decision."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

FILTERS: Final = {  # units that each filter rejects
    "busy": "allocated to other jobs",
    "closed": "on cordoned, drained or failed servers",
    "platform": "on other platforms",
    "label": "without the required labels",
    "labels": "without the required labels",
    "excluded": "excluded by the job, after a conflict, or of another pool",
    "capacity": "without enough memory, network or storage",
    "locality": "too far from the job's other units",
    "spread": "too close to the job's other units",
    "reserved": "reserved for another job",
    "quota": "free, but beyond the quota of the project",
    "admission": "free, but not offered by the admission control yet",
    "sampled": "not in the sample",
    "noisy": "too contended",
}


@dataclass(frozen=True, slots=True)
class SummaryFacts:
    """Facts of a decision that its summary names.

    Attributes
    ----------
    outcome : "placed", "refused" or "conflict"
    sentence : meaning of the reason
    servers : names of the chosen servers
    units_before : of a running job that was given more; 0 = it was waiting
    about : name of the job it is about, if that is another job with an equal request
    cores : sentence about the choice of its cores; "" if there was none
    dropped : number of units rejected by each filter, which may be 0
    """

    outcome: str
    policy: str
    sentence: str
    units: int
    units_won: int
    servers: Sequence[str]
    examined: int
    eligible: int
    servers_total: int
    dropped: Mapping[str, int]
    commit_retries: int
    units_before: int = 0
    about: str = ""
    cores: str = ""


def summary(decision: SummaryFacts) -> str:
    """Return one paragraph: the outcome, the units examined and the units rejected."""
    if decision.outcome == "placed":
        parts = [
            _given(decision) if decision.units_before else _placed(decision),
            _examined(decision.examined, decision.eligible),
            *([decision.cores] if decision.cores else []),
        ]
    elif decision.outcome == "conflict":
        parts = [
            f"Not placed: other agents allocated the chosen units first, {_attempts(decision)}."
        ]
    else:
        parts = [f"Not placed: {decision.sentence[:1].lower()}{decision.sentence[1:]}"]
    if any(decision.dropped.values()):
        parts.append(f"Units rejected: {_dropped(decision.dropped)}.")
    if decision.about:
        parts.append(f"Evaluated for {decision.about}, which has an equal request.")
    return " ".join(parts)


def _placed(decision: SummaryFacts) -> str:
    won = _units(decision.units_won)
    if decision.units_won < decision.units:
        won += f" of {decision.units:,} requested"
    return f"Placed by {decision.policy}: {won} on {_where(decision)}."


def _given(decision: SummaryFacts) -> str:
    """Describe a decision that gave a running job more units."""
    missing = decision.units - decision.units_won
    text = (
        f"The running job was given {decision.units_won:,} more on {_where(decision)}, in addition"
        f" to {_units(decision.units_before)}, by {decision.policy}."
    )
    if missing <= 0:
        return text
    return f"{text} It is given the remaining {_units(missing)} as units are freed."


def _where(decision: SummaryFacts) -> str:
    return _listed(decision.servers) or "servers that were removed"


def _examined(examined: int, eligible: int) -> str:
    if examined >= eligible == 1:
        return "The only eligible unit was examined."
    verb = "was" if examined == 1 else "were"
    return f"{examined:,} of {eligible:,} eligible units {verb} examined."


def statement(
    examined: int, eligible: int, rank_threshold: float, probability: float, units: int = 1
) -> str:
    """Return the guarantee of a decision as a sentence.

    Parameters
    ----------
    probability : that one of the chosen ``units`` lies outside the top share; 0 = all eligible
        units were compared, some of which need not be examined
    """
    if probability == 0.0 and examined >= eligible == 1:
        return "The only eligible unit was examined"
    if probability == 0.0 and examined >= eligible:
        return f"All {eligible:,} eligible units were examined"
    if probability == 0.0:
        return f"{examined:,} of {eligible:,} eligible units were examined: no other can be better"
    share = f"{1.0 - rank_threshold:.0%}"
    best = "best" if units <= 1 else f"one of the best {units}"
    return f"P({best} of {examined} is outside the top {share}) = {probability:.3g}"


def _attempts(decision: SummaryFacts) -> str:
    count = max(1, decision.commit_retries)  # older releases did not count the last one
    return f"in {count} {'attempt' if count == 1 else 'attempts'}"


def _units(count: int) -> str:
    return "1 unit" if count == 1 else f"{count:,} units"


def _listed(names: Sequence[str], limit: int = 3) -> str:
    shown = list(names[:limit])
    rest = len(names) - len(shown)
    if rest:
        shown.append(f"{rest} more")
    if len(shown) < 2:
        return "".join(shown)
    return f"{', '.join(shown[:-1])} and {shown[-1]}"


def filter_text(name: str) -> str:
    """Return which units a filter rejects; a filter of another package has its name."""
    return FILTERS.get(name, f"rejected by {name.replace('_', ' ')}")


def _dropped(dropped: Mapping[str, int]) -> str:
    largest_first = sorted(dropped.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count:,} {filter_text(name)}" for name, count in largest_first if count)
