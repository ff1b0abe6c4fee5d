"""A decision in sentences, from its stored facts alone."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from apps.dashboard.core import formats
from apps.scheduling.core.records.explain import filter_text
from apps.scheduling.core.records.verdicts import (
    Fit,
    fit_of,
    is_enough,
    source_name,
    tightest,
    verdict_text,
)
from apps.scheduling.core.types import Expectation

# Reasons that no count of units explains; the message of the job does.
BEFORE_UNITS: Final = frozenset({"InfeasibleTarget", "CostExceeded", "QuotaExceeded"})
DETAILED: Final = BEFORE_UNITS | {"NoMatchingServer"}
CHOSEN_SHOWN: Final = 6  # rows; a job of 64 units would hide the runners-up


@dataclass(frozen=True, slots=True)
class CandidateFacts:
    """One unit that a decision examined.

    Attributes
    ----------
    quality, target : U_H and T_W in [0, 1], NaN = the policy does not compute them
    closeness : order key of the candidates, as shown; NaN = not computed
    headroom : tolerated pressure minus pressure on the unit, per source; empty = not stored
    deciding : index of the source by which U falls below T; None = unknown, or U >= T
    alike : number of equal units of the same server, shown in one row
    expectation : what the policy `expected` predicts; None = another policy
    """

    server: str
    core: int | None
    platform: str
    quality: float
    target: float
    closeness: float
    verdict: str
    headroom: tuple[float, ...]
    deciding: int | None = None
    alike: int = 1
    expectation: Expectation | None = None

    @property
    def tightest(self) -> int:
        """Index of the source with the least headroom; 0 without headroom."""
        return tightest(self.headroom)

    @property
    def is_enough(self) -> bool:
        """Whether the unit is good enough: its match is 1 - (U - T), and not U."""
        return is_enough(self.quality, self.target, self.closeness)

    @property
    def fit(self) -> Fit:
        """How well the unit fits the job, whether or not it was chosen."""
        return fit_of(self)

    @property
    def verdict_text(self) -> str:
        """The verdict as text, with the deciding source if there is one."""
        return verdict_text(self, self.deciding)


@dataclass(frozen=True, slots=True)
class Decider:
    """The source that decided between the chosen unit and the runner-up.

    Attributes
    ----------
    headroom, other : in points, on the chosen unit and on the runner-up
    runner_up : name of its server
    """

    source: str
    headroom: float
    other: float
    runner_up: str


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
    units_before: int = 0
    decider: Decider | None = None
    difference: str = ""
    cost: str = ""


def heading(candidates: Sequence[CandidateFacts], examined: int) -> str:
    """Return the heading of the table: how many candidates fit, as the verdicts say.

    It speaks of headroom: a job can miss its target on units with headroom, if it waited too long
    or has too few units.
    """
    stored = len(candidates)
    if stored == 1 and examined <= 1:
        return "The only candidate"
    which = (
        f"Of the best {stored} of {formats.thousands(examined)} examined"
        if examined > stored
        else f"Of {formats.plural(stored, 'candidate')}"
    )
    counts = Counter(candidate.fit for candidate in candidates)
    if counts[Fit.UNKNOWN]:
        chosen = sum(candidate.verdict == "chosen" for candidate in candidates)
        return f"{which}, {chosen} {'was' if chosen == 1 else 'were'} chosen"
    if counts[Fit.GOOD] == stored:
        return f"{which}, all have enough headroom"
    good = counts[Fit.GOOD]
    parts = [f"{good or 'none'} {'have' if good > 1 else 'has'} enough headroom"]
    if counts[Fit.TIGHT]:
        parts.append(f"{counts[Fit.TIGHT]} {_has(counts[Fit.TIGHT])} too little headroom")
    if counts[Fit.NOISY]:
        parts.append(f"{counts[Fit.NOISY]} {_is(counts[Fit.NOISY])} too contended")
    return f"{which}, {formats.listed(parts)}"


def _has(count: int) -> str:
    return "has" if count == 1 else "have"


def _is(count: int) -> str:
    return "is" if count == 1 else "are"


def paragraph(facts: DecisionFacts) -> tuple[str, ...]:
    """Return sentences on the outcome, its reasons and the prediction; ``**`` marks bold text."""
    sentences = _placed(facts) if facts.placed else _refused(facts)
    if facts.predicted:
        interval = f" [{facts.predicted_interval}]" if facts.predicted_interval else ""
        sentences = (
            *sentences,
            f"Predicted performance: **{facts.predicted}**{interval}. Target: {facts.target}.",
        )
    if facts.cost and facts.placed:
        sentences = (*sentences, f"Predicted cost: {facts.cost}.")
    return sentences


def _placed(facts: DecisionFacts) -> tuple[str, ...]:
    where = _servers(facts.servers)
    units = formats.plural(facts.units_won, "unit")
    examined = (
        f"the {formats.plural(facts.examined, 'unit')} examined, "
        f"of {formats.thousands(facts.eligible)} eligible"
    )
    chosen = [c for c in facts.candidates if c.verdict == "chosen"]
    choice = _choice(facts.policy)
    if facts.policy == "tarcil" and chosen and chosen[0].fit in {Fit.TIGHT, Fit.NOISY}:
        choice = "the highest quality, as none is good enough,"
    first = f"The job was placed on **{units}** of **{where}**: {choice} among {examined}."
    if facts.units_before:
        first = (
            f"The running job was given **{facts.units_won} more** of **{where}**, in addition to "
            f"{facts.units_before}: {choice} among {examined}."
        )
    if facts.units_won < facts.units:
        rest = formats.plural(facts.units - facts.units_won, "unit")
        first = f"{first} It is given the remaining {rest} as units are freed."
    if not chosen or not chosen[0].headroom:
        return (first,)
    middle = facts.difference or (
        _tightest(chosen[0], facts.candidates)
        if facts.decider is None
        else _decided(facts.decider, chosen[0].server)
    )
    noisy = sum(1 for c in facts.candidates if c.verdict == "too_noisy")
    last = (
        (f"{formats.plural(noisy, 'candidate')} would not have met the target.",) if noisy else ()
    )
    return (first, f"{middle}.", *last)


def _decided(decider: Decider, server: str) -> str:
    """Describe the source that decided for a server."""
    room = f"**{formats.thousands(decider.headroom)} points** of headroom"
    gain = decider.headroom - decider.other
    apart = f"{formats.thousands(abs(gain))} {'more' if gain > 0 else 'fewer'}"
    is_quieter_kept = gain < 0 <= decider.headroom
    tail = ", which keeps the quieter unit free for a more sensitive job"
    return (
        f"{decider.source} made the difference: the job has {room} on {server}, {apart} than "
        f"on the runner-up {decider.runner_up}{tail if is_quieter_kept else ''}"
    )


def _tightest(best: CandidateFacts, candidates: Sequence[CandidateFacts]) -> str:
    """Describe the source with the least headroom, where no source decided.

    Parameters
    ----------
    candidates : all of them, with ``best``
    """
    others = [c for c in candidates if c is not best and c.headroom]
    source, room = source_name(best.tightest), best.headroom[best.tightest]
    if room < 0:
        excess = (
            f"{source} pressure on {best.server} is {formats.thousands(-room)} points above its "
            "tolerance"
        )
        is_smallest = bool(others) and all(room >= c.headroom[c.tightest] for c in others)
        return f"{excess}, the smallest excess of all candidates" if is_smallest else excess
    text = (
        f"On its tightest resource, {source}, the job has "
        f"**{formats.thousands(room)} points** of headroom on {best.server}"
    )
    runner_up = next((c for c in others if c.verdict != "chosen"), None)
    if runner_up is None or abs(gain := room - runner_up.headroom[best.tightest]) < 0.5:
        return text
    more = "more" if gain > 0 else "fewer"
    return f"{text}, {formats.thousands(abs(gain))} {more} than on {runner_up.server}"


def _choice(policy: str) -> str:
    return {
        "expected": "the best expected performance for it and its neighbours",
        "tarcil": "the closest match to its needs",
        "least_loaded": "the least loaded unit that fits",
        "random": "chosen at random",
        "heterogeneity_oblivious": "the closest fit of interference, on any platform",
        "interference_oblivious": "the fastest platform with a free unit",
        "paragon_greedy": "the fastest platform without too much interference",
        "paragon_sampling": "the closest fit of interference in the sample",
        "sampling": "the least loaded unit of the sample",
        "quasar": "the fastest server with the least interference",
        "reservation_least_loaded": "the least loaded unit that fits",
        "reservation_paragon": "the fastest platform without too much interference",
        "autoscale": "the least loaded unit that fits",
        "slot_rr": "the first free unit that fits",
        "node_rr": "the server with the fewest units in use",
        "dot_product": "the server in use whose free capacity best matches its demand",
        "roomiest": "chosen at random among servers with free capacity and quiet neighbours",
    }.get(policy, f"chosen by {policy}")


def request_text(policy: str, sample_size: int | None, guarantee: Mapping[str, Any] | None) -> str:
    """Describe what the job asks of the decision; "" if it asks nothing.

    Parameters
    ----------
    policy : named by the job; "" = none
    sample_size : R, named by the job
    guarantee : of the job, with its R at the time of the decision, as stored
    """
    parts = [f"the policy {policy}"] if policy else []
    if sample_size is not None:
        parts.append(f"{formats.plural(sample_size, 'candidate')} per unit")
    if guarantee is not None:
        top = formats.percent(1.0 - guarantee["rank_threshold"], 0)
        chance = formats.percent(guarantee["probability"], 2)
        parts.append(f"at most a {chance} chance that the best unit is outside the top {top}")
    if not parts:
        return ""
    text = f"The job requests {formats.listed(parts)}."
    if guarantee is None:
        return text
    needed, size = guarantee["needed_size"], guarantee["size"]
    if needed is None:
        return f"{text} No unit of the top {top} is free, so R is the limit of {size:g}."
    free = formats.percent(guarantee["top_free_share"], 0)
    needs = f"{text} With {free} of the top {top} free, that needs R = {formats.thousands(needed)}"
    return f"{needs}; the limit is {size:g}." if needed > size else f"{needs}."


def _refused(facts: DecisionFacts) -> tuple[str, ...]:
    sentence = facts.reason_sentence
    first = f"The job was **not placed**: {sentence[:1].lower()}{sentence[1:]}"
    detail = facts.reason_detail
    if detail and facts.reason_code in DETAILED:
        return (first, f"{detail[:1].upper()}{detail[1:]}.")
    if facts.reason_code in BEFORE_UNITS:
        return (first,)
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


def _servers(servers: tuple[str, ...]) -> str:
    if not servers:
        return "no server"
    if len(servers) == 1:
        return servers[0]
    if len(servers) <= 3:
        return ", ".join(servers[:-1]) + f" and {servers[-1]}"
    return f"{servers[0]}, {servers[1]} and {len(servers) - 2} more servers"
