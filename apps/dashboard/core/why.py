"""A decision in plain words, from the facts it stored and nothing else."""

from dataclasses import dataclass, replace
from typing import Final

from apps.common.core.interference import SOURCES
from apps.dashboard.core import words

CHOSEN_SHOWN: Final = 6  # rows; a job of 64 units would hide the runners-up
VERDICTS = {
    "chosen": "chosen",
    "outranked": "better than needed",
    "too_noisy": "too contended",
    "no_room": "no room beside the others",
}
FILTERS = {
    "busy": "allocated to other jobs",
    "closed": "on servers that take no new work",
    "platform": "on other platforms",
    "label": "without the labels asked for",
    "labels": "without the labels asked for",
    "excluded": "excluded after a conflict",
    "capacity": "without enough memory, network or storage",
    "locality": "too far from the others",
    "spread": "too near to the others",
    "sampled": "not drawn into the sample",
    "noisy": "too contended",
}


@dataclass(frozen=True, slots=True)
class CandidateFacts:
    """One unit a decision examined.

    Attributes
    ----------
    quality, target : U_H and T_W in [0, 1], NaN = the policy does not compute them
    closeness : what the candidates are ordered by, as shown; NaN = not computed
    headroom : ten scores, tolerated minus pressure there, in the order of the sources; empty =
        not kept
    alike : units of the same server that came out the same, shown as one
    """

    server: str
    core: int | None
    platform: str
    quality: float
    target: float
    closeness: float
    verdict: str
    headroom: tuple[float, ...]
    alike: int = 1

    @property
    def tightest(self) -> int:
        """Index of the source with the least headroom; 0 without headroom."""
        return min(range(len(self.headroom)), key=self.headroom.__getitem__, default=0)

    @property
    def is_enough(self) -> bool:
        """Whether the match is 1 - (U - T); that of a unit that is not enough is U."""
        return abs(1.0 - self.quality + self.target - self.closeness) < 5e-6

    @property
    def verdict_text(self) -> str:
        """The verdict in words, naming the source where one decided."""
        if self.verdict == "outranked" and self.closeness == self.quality and self.headroom:
            return f"too little room in {words.SOURCE_NAMES[SOURCES[self.tightest]]}"
        if self.verdict == "too_noisy" and self.headroom:
            return f"{words.SOURCE_NAMES[SOURCES[self.tightest]]} too contended"
        return VERDICTS.get(self.verdict, self.verdict)


@dataclass(frozen=True, slots=True)
class DecisionFacts:
    """What the paragraph is made of."""

    placed: bool
    reason_code: str
    reason_sentence: str
    policy: str
    units: int
    units_won: int
    servers: tuple[str, ...]
    examined: int
    eligible: int
    candidates: tuple[CandidateFacts, ...]
    dropped: tuple[tuple[str, int], ...]
    predicted: str
    predicted_interval: str
    target: str
    reason_detail: str = ""


def paragraph(facts: DecisionFacts) -> tuple[str, ...]:
    """Sentences: what was decided, why, and what was expected of it.

    ``**`` around what matters most.
    """
    sentences = _placed(facts) if facts.placed else _refused(facts)
    if facts.predicted:
        interval = f" [{facts.predicted_interval}]" if facts.predicted_interval else ""
        sentences = (
            *sentences,
            f"The prediction was **{facts.predicted}**{interval}; the target is: {facts.target}.",
        )
    return sentences


def _placed(facts: DecisionFacts) -> tuple[str, ...]:
    where = _servers(facts.servers)
    units = words.plural(facts.units_won, "unit")
    examined = (
        f"the {words.plural(facts.examined, 'unit')} examined, "
        f"of {words.thousands(facts.eligible)} eligible"
    )
    chosen = [c for c in facts.candidates if c.verdict == "chosen"]
    others = [c for c in facts.candidates if c.verdict != "chosen"]
    first = f"It got **{units}** of **{where}**: {_how(facts.policy)} among {examined}."
    if not chosen or not chosen[0].headroom:
        return (first,)
    best = chosen[0]
    source = words.SOURCE_NAMES[SOURCES[best.tightest]]
    room = best.headroom[best.tightest]
    middle = (
        f"There it tolerates the pressure on its tightest resource, {source}, with "
        f"**{words.thousands(room)} points** to spare"
        if room >= 0
        else f"There {source} is {words.thousands(-room)} points above what it tolerates, "
        "the least of the misses"
    )
    if others and others[0].headroom:
        gain = room - others[0].headroom[others[0].tightest]
        if abs(gain) >= 0.5:
            more = "more" if gain > 0 else "fewer"
            tail = "" if gain > 0 else ", which leaves the quieter unit to a pickier job"
            middle += f", {words.thousands(abs(gain))} {more} than the runner-up on "
            middle += f"{others[0].server}{tail}"
    noisy = sum(1 for c in facts.candidates if c.verdict == "too_noisy")
    last = (
        (f"{words.plural(noisy, 'candidate')} could not have kept the promise.",) if noisy else ()
    )
    return (first, f"{middle}.", *last)


def _how(policy: str) -> str:
    return {
        "tarcil": "the closest match to what it needs",
        "least_loaded": "the least loaded that fits",
        "random": "drawn at random",
        "roomiest": "on servers with much room and quiet neighbours, drawn at random",
    }.get(policy, f"chosen by {policy}")


def _refused(facts: DecisionFacts) -> tuple[str, ...]:
    first = (
        f"It was **not placed**: {facts.reason_sentence[:1].lower()}{facts.reason_sentence[1:]}"
    )
    if facts.reason_code == "InfeasibleTarget":
        detail = facts.reason_detail
        return (first, f"{detail[:1].upper()}{detail[1:]}.") if detail else (first,)
    wanted = words.plural(facts.units, "unit")
    seen = f"It needs {wanted}; **{words.thousands(facts.eligible)}** were eligible."
    largest = max(facts.dropped, key=lambda pair: pair[1], default=None)
    if largest is None or not largest[1]:
        return (first, seen)
    return (first, seen, f"Most units were out because they are {filter_text(largest[0])}.")


def grouped(candidates: tuple[CandidateFacts, ...]) -> tuple[CandidateFacts, ...]:
    """Units of one server with the same score and verdict as one candidate each."""
    rows: dict[tuple[object, ...], CandidateFacts] = {}
    for candidate in candidates:
        key = _likeness(candidate)
        first = rows.get(key)
        rows[key] = candidate if first is None else replace(first, alike=first.alike + 1)
    return tuple(rows.values())


def _likeness(candidate: CandidateFacts) -> tuple[object, ...]:
    """Return all that a row shows; units that differ in nothing but their core have the same."""
    score = f"{candidate.closeness:.6f}"
    return (candidate.server, candidate.verdict, candidate.headroom, score)


def shortened(
    candidates: tuple[CandidateFacts, ...], *, chosen: int = CHOSEN_SHOWN, others: int = 12
) -> tuple[CandidateFacts, ...]:
    """Return the first rows of the chosen and of the others, in their order."""
    left = {True: chosen, False: others}
    rows = []
    for candidate in candidates:
        is_chosen = candidate.verdict == "chosen"
        left[is_chosen] -= 1
        if left[is_chosen] >= 0:
            rows.append(candidate)
    return tuple(rows)


def filter_text(name: str) -> str:
    """Return what a filter takes out, to follow "units"."""
    return FILTERS.get(name, name.replace("_", " "))


def _servers(servers: tuple[str, ...]) -> str:
    if not servers:
        return "no server"
    if len(servers) == 1:
        return servers[0]
    if len(servers) <= 3:
        return ", ".join(servers[:-1]) + f" and {servers[-1]}"
    return f"{servers[0]}, {servers[1]} and {len(servers) - 2} more servers"
