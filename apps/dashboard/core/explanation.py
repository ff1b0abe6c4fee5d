"""A decision in sentences, from its stored facts alone."""

from dataclasses import dataclass, replace
from typing import Final

from apps.common.core.interference import SOURCES
from apps.dashboard.core import formats, labels

CHOSEN_SHOWN: Final = 6  # rows; a job of 64 units would hide the runners-up
VERDICTS = {
    "chosen": "chosen",
    "outranked": "better than needed",
    "too_noisy": "too contended",
    "no_room": "does not fit with the other units of the job",
}
FILTERS = {
    "busy": "allocated to other jobs",
    "closed": "on cordoned, drained or failed servers",
    "platform": "on other platforms",
    "label": "without the required labels",
    "labels": "without the required labels",
    "excluded": "excluded after a conflict",
    "capacity": "without enough memory, network or storage",
    "locality": "too far from the job's other units",
    "spread": "too close to the job's other units",
    "sampled": "not in the sample",
    "noisy": "too contended",
}


@dataclass(frozen=True, slots=True)
class CandidateFacts:
    """One unit that a decision examined.

    Attributes
    ----------
    quality, target : U_H and T_W in [0, 1], NaN = the policy does not compute them
    closeness : order key of the candidates, as shown; NaN = not computed
    headroom : tolerated pressure minus pressure on the unit, per source; empty = not stored
    alike : number of equal units of the same server, shown in one row
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
        """Whether the unit is good enough: its match is 1 - (U - T), and not U."""
        return abs(1.0 - self.quality + self.target - self.closeness) < 5e-6

    @property
    def verdict_text(self) -> str:
        """The verdict as text, with the deciding source if there is one."""
        if self.verdict == "outranked" and self.closeness == self.quality and self.headroom:
            return f"too little headroom in {labels.SOURCE_NAMES[SOURCES[self.tightest]]}"
        if self.verdict == "too_noisy" and self.headroom:
            return f"{labels.SOURCE_NAMES[SOURCES[self.tightest]]} too contended"
        return VERDICTS.get(self.verdict, self.verdict)


@dataclass(frozen=True, slots=True)
class DecisionFacts:
    """Facts of a decision for the paragraph and the counterfactuals."""

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
    """Return sentences on the outcome, its reasons and the prediction; ``**`` marks bold text."""
    sentences = _placed(facts) if facts.placed else _refused(facts)
    if facts.predicted:
        interval = f" [{facts.predicted_interval}]" if facts.predicted_interval else ""
        sentences = (
            *sentences,
            f"Predicted performance: **{facts.predicted}**{interval}. Target: {facts.target}.",
        )
    return sentences


def _placed(facts: DecisionFacts) -> tuple[str, ...]:
    where = _servers(facts.servers)
    units = formats.plural(facts.units_won, "unit")
    examined = (
        f"the {formats.plural(facts.examined, 'unit')} examined, "
        f"of {formats.thousands(facts.eligible)} eligible"
    )
    chosen = [c for c in facts.candidates if c.verdict == "chosen"]
    others = [c for c in facts.candidates if c.verdict != "chosen"]
    choice = _choice(facts.policy)
    first = f"The job was placed on **{units}** of **{where}**: {choice} among {examined}."
    if not chosen or not chosen[0].headroom:
        return (first,)
    best = chosen[0]
    source = labels.SOURCE_NAMES[SOURCES[best.tightest]]
    room = best.headroom[best.tightest]
    middle = (
        f"On its tightest resource, {source}, the job has "
        f"**{formats.thousands(room)} points** of headroom there"
        if room >= 0
        else f"{source} pressure there is {formats.thousands(-room)} points above its tolerance, "
        "the smallest excess of all candidates"
    )
    if others and others[0].headroom:
        gain = room - others[0].headroom[others[0].tightest]
        if abs(gain) >= 0.5:
            more = "more" if gain > 0 else "fewer"
            tail = (
                "" if gain > 0 else ", which keeps the quieter unit free for a more sensitive job"
            )
            middle += f", {formats.thousands(abs(gain))} {more} than on the runner-up "
            middle += f"{others[0].server}{tail}"
    noisy = sum(1 for c in facts.candidates if c.verdict == "too_noisy")
    last = (
        (f"{formats.plural(noisy, 'candidate')} would not have met the target.",) if noisy else ()
    )
    return (first, f"{middle}.", *last)


def _choice(policy: str) -> str:
    return {
        "tarcil": "the closest match to its needs",
        "least_loaded": "the least loaded unit that fits",
        "random": "chosen at random",
        "roomiest": "chosen at random among servers with free capacity and quiet neighbours",
    }.get(policy, f"chosen by {policy}")


def _refused(facts: DecisionFacts) -> tuple[str, ...]:
    sentence = facts.reason_sentence
    first = f"The job was **not placed**: {sentence[:1].lower()}{sentence[1:]}"
    if facts.reason_code == "InfeasibleTarget":
        detail = facts.reason_detail
        return (first, f"{detail[:1].upper()}{detail[1:]}.") if detail else (first,)
    units = formats.plural(facts.units, "unit")
    needs = f"It needs {units}; **{formats.thousands(facts.eligible)}** were eligible."
    largest = max(facts.dropped, key=lambda pair: pair[1], default=None)
    if largest is None or not largest[1]:
        return (first, needs)
    return (first, needs, f"Most units were excluded because they are {filter_text(largest[0])}.")


def grouped(candidates: tuple[CandidateFacts, ...]) -> tuple[CandidateFacts, ...]:
    """Merge units of one server with the same score and verdict."""
    rows: dict[tuple[object, ...], CandidateFacts] = {}
    for candidate in candidates:
        key = _merge_key(candidate)
        first = rows.get(key)
        rows[key] = candidate if first is None else replace(first, alike=first.alike + 1)
    return tuple(rows.values())


def _merge_key(candidate: CandidateFacts) -> tuple[object, ...]:
    """Return everything a row shows; units that differ only in their core have equal keys."""
    score = f"{candidate.closeness:.6f}"
    return (candidate.server, candidate.verdict, candidate.headroom, score)


def shortened(
    candidates: tuple[CandidateFacts, ...], *, chosen: int = CHOSEN_SHOWN, others: int = 12
) -> tuple[CandidateFacts, ...]:
    """Return the first chosen and the first other rows, in their order."""
    left = {True: chosen, False: others}
    rows = []
    for candidate in candidates:
        is_chosen = candidate.verdict == "chosen"
        left[is_chosen] -= 1
        if left[is_chosen] >= 0:
            rows.append(candidate)
    return tuple(rows)


def filter_text(name: str) -> str:
    """Describe the units that a filter excludes, to follow "units"."""
    return FILTERS.get(name, name.replace("_", " "))


def _servers(servers: tuple[str, ...]) -> str:
    if not servers:
        return "no server"
    if len(servers) == 1:
        return servers[0]
    if len(servers) <= 3:
        return ", ".join(servers[:-1]) + f" and {servers[-1]}"
    return f"{servers[0]}, {servers[1]} and {len(servers) - 2} more servers"
