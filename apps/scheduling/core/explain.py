"""A decision in plain words, from what was stored when it was made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Told:
    """What the sentence is made of.

    Attributes
    ----------
    outcome : "placed", "refused" or "conflict"
    sentence : what the reason means
    servers : names of the chosen servers
    dropped : units each filter took out, by the filter's name
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


def summary(told: Told) -> str:
    """Return one paragraph: what was decided, among what, and what stood in the way."""
    if told.outcome == "placed":
        where = _listed(told.servers) or "servers removed since"
        won = _units(told.units_won)
        if told.units_won < told.units:
            won += f" of the {told.units} wanted"
        parts = [
            f"Placed by {told.policy}: {won} on {where}.",
            f"{told.examined:,} of {told.eligible:,} eligible units were examined.",
        ]
    elif told.outcome == "conflict":
        parts = [f"Not placed: other agents took the chosen units first, {_tries(told)}."]
    else:
        parts = [f"Not placed: {told.sentence[:1].lower()}{told.sentence[1:]}"]
    if told.dropped:
        parts.append(f"Units left out: {_dropped(told.dropped)}.")
    return " ".join(parts)


def statement(examined: int, rank_threshold: float, probability: float, units: int = 1) -> str:
    """Return the guarantee as a sentence.

    Parameters
    ----------
    probability : that one of the ``units`` chosen lies outside
    """
    share = f"{1.0 - rank_threshold:.0%}"
    best = "best" if units <= 1 else f"one of the best {units}"
    return f"P({best} of {examined} is outside the top {share}) = {probability:.3g}"


def _tries(told: Told) -> str:
    return f"on {told.commit_retries + 1} tries"


def _units(count: int) -> str:
    return "1 unit" if count == 1 else f"{count:,} units"


def _listed(names: Sequence[str], most: int = 3) -> str:
    shown = list(names[:most])
    rest = len(names) - len(shown)
    if rest:
        shown.append(f"{rest} more")
    if len(shown) < 2:
        return "".join(shown)
    return f"{', '.join(shown[:-1])} and {shown[-1]}"


def _dropped(dropped: Mapping[str, int]) -> str:
    largest_first = sorted(dropped.items(), key=lambda item: (-item[1], item[0]))
    return ", ".join(f"{count:,} by {name.replace('_', ' ')}" for name, count in largest_first)
