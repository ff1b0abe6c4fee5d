"""The explanation of one decision, from its row, the profile it used and server names."""

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlencode

import numpy as np

from apps.classification.core.profile import Profile
from apps.classification.selectors import profiles
from apps.dashboard.core import formats, labels
from apps.dashboard.core.contributions import MatchComparison, compare, deciding_source
from apps.dashboard.core.counterfactuals import Counterfactual, SizePrediction, counterfactuals
from apps.dashboard.core.expectations import (
    ExpectationComparison,
    compare_expectations,
    prediction_texts,
)
from apps.dashboard.core.explanation import (
    CandidateFacts,
    DecisionFacts,
    grouped,
    heading,
    paragraph,
    request_text,
    shortened,
)
from apps.dashboard.core.profile_text import caution
from apps.dashboard.figures.quality_cdf import kolmogorov_limit, largest_distance, superscript
from apps.dashboard.selectors.sampling import ENOUGH_RANKS, comparable_ranks
from apps.inventory.models import Server
from apps.scheduling.core.records.explain import filter_text, statement
from apps.scheduling.core.sizing.allowances import DEFAULT, Allowances
from apps.scheduling.core.sizing.rate_grid import performance_grid
from apps.scheduling.core.sizing.sizes import ClusterFacts, Work
from apps.scheduling.core.types import MAX_UNITS, Expectation, Within
from apps.scheduling.models import Decision
from apps.scheduling.selectors import (
    core_choice_of,
    current_decision,
    target_of,
    working_allocations,
)
from apps.testbed.selectors.sampling_checks import SAMPLE_SIZES
from apps.workloads.core.reasons import MEANINGS, Reason
from apps.workloads.core.targets import BestEffort, read_target
from apps.workloads.models import Job
from apps.workloads.selectors import submission_of

SAME_PREDICTION = 0.02  # launches between decision and prediction change it by less


@dataclass(frozen=True, slots=True)
class Guarantee:
    """The sampling guarantee of one decision; trivial if all units were compared."""

    is_exhaustive: bool
    statement: str
    formula: str
    alternatives: tuple[str, ...]
    check: str
    holds: bool | None  # None = too few measured ranks


@dataclass(frozen=True, slots=True)
class Dropped:
    """The units one filter excluded."""

    text: str
    units: int
    share: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """Explanation of one decision, as its page shows it."""

    decision: Decision
    paragraph: tuple[str, ...]
    request: str
    caution: str
    reason: str
    tier: int | None
    next_action: str
    also: tuple[str, ...] | None  # other reasons; None = not known any more
    candidates: tuple[CandidateFacts, ...]
    shown_sources: tuple[int, ...]
    noisy: int
    dropped: tuple[Dropped, ...]
    guarantee: Guarantee | None
    comparison: MatchComparison | None
    expectations: ExpectationComparison | None
    counterfactuals: tuple[Counterfactual, ...]

    @property
    def sized_query(self) -> str:
        """Query of the figure of all sizes; "" unless no size meets the target."""
        if self.decision.reason_code != Reason.INFEASIBLE_TARGET:
            return ""
        return "?" + urlencode({"spec": json.dumps(submission_of(self.decision.job))})

    @property
    def decision_key(self) -> str:
        """The decision's id as text."""
        return str(self.decision.id)

    @property
    def source_names(self) -> tuple[str, ...]:
        """Headings of the headroom columns."""
        names = list((labels.SOURCE_NAMES | labels.SHORT_SOURCES).values())
        return tuple(names[i] for i in self.shown_sources)

    @property
    def rows(self) -> tuple[tuple[CandidateFacts, tuple[float, ...], tuple[str, ...]], ...]:
        """Candidates with headroom and predictions as shown; equal ones share a row."""
        return tuple(
            (
                c,
                tuple(c.headroom[i] for i in self.shown_sources) if c.headroom else (),
                () if c.expectation is None else prediction_texts(c.expectation),
            )
            for c in shortened(grouped(self.candidates))
        )

    @property
    def hidden(self) -> int:
        """Number of stored candidates that are not in a row."""
        return len(self.candidates) - sum(c.alike for c, *_ in self.rows)

    @property
    def has_quality(self) -> bool:
        """Whether the policy computes the quality of units."""
        return any(not math.isnan(candidate.quality) for candidate in self.candidates)

    @property
    def has_expectations(self) -> bool:
        """Whether the policy predicts the performance on each unit."""
        return any(candidate.expectation is not None for candidate in self.candidates)

    @property
    def heading(self) -> str:
        """Heading of the table of candidates."""
        return heading(self.candidates, self.decision.examined)


def explanation(decision: Decision, job: Job | None = None) -> Explanation:
    """Explain a decision from its row, the profile it used and the names of its servers.

    Parameters
    ----------
    job : to explain, if not that of the decision: equal waiting jobs share decisions
    """
    profile = _profile(decision)
    caused = None if profile is None else profile.caused.value.tolist()
    candidates = _candidates(decision, caused)
    comparison = None if caused is None else compare(candidates, caused)
    expectations = compare_expectations(candidates)
    code = _reason(decision.reason_code)
    reason = MEANINGS.get(code) if code is not None else None
    dropped = sorted(_dropped(decision), key=lambda pair: -pair[1])
    total = sum(units for _, units in dropped) + decision.eligible
    facts = replace(
        _facts(decision, candidates, tuple(dropped), reason.sentence if reason else ""),
        decider=None if comparison is None else comparison.decider,
        difference=expectations.sentence if expectations else "",
    )
    noisy = sum(1 for c in candidates if c.verdict == "too_noisy")
    return Explanation(
        decision=decision,
        paragraph=(*paragraph(facts), *filter(None, (core_choice_of(decision),))),
        request=request_text(decision.job.policy, decision.job.sample_size, decision.guarantee),
        caution="" if profile is None else caution(profile.application, profile.flags),
        reason=reason.sentence if reason else labels.reason_text(decision.reason_code),
        tier=reason.tier if reason else None,
        next_action=reason.next_action if reason else "",
        also=_other_reasons(decision, job or decision.job),
        candidates=candidates,
        shown_sources=_tightest_sources(candidates),
        noisy=noisy,
        dropped=tuple(
            Dropped(filter_text(name), units, units / total if total else 0.0)
            for name, units in dropped
        ),
        guarantee=_guarantee(decision) if decision.outcome == "placed" else None,
        comparison=comparison,
        expectations=expectations,
        counterfactuals=counterfactuals(
            facts, None if profile is None else _sizes(decision, profile)
        ),
    )


def _other_reasons(decision: Decision, job: Job) -> tuple[str, ...] | None:
    """Return the other reasons of a decision; None if the job has a newer decision or reason."""
    is_refusal = decision.outcome != "placed"
    if decision != current_decision(job) or (
        is_refusal and job.reason_code != decision.reason_code
    ):
        return None
    return tuple(labels.reason_text(code) for code in job.reason_also or ())


def _profile(decision: Decision) -> Profile | None:
    """Return the profile the decision used, or None if it was deleted."""
    if decision.profile_id is None:
        return None
    return profiles([decision.profile_id]).get(decision.profile_id)


def _sizes(decision: Decision, profile: Profile) -> SizePrediction | None:
    """Predict the performance of the chosen size and of one unit less.

    None if the profile does not reproduce the stored prediction, or has none for that number of
    units. The platform that sizing used is the one whose prediction is the stored one.
    """
    job, value = decision.job, _number(decision.predicted.get("value"))
    if (
        job.units_requested is not None
        or math.isnan(value)
        or not 1 <= decision.units <= MAX_UNITS
    ):
        return None
    target = read_target(target_of(decision))
    if isinstance(target, BestEffort):
        return None
    work = Work(
        input_bytes=job.input_bytes,
        tasks=job.tasks_total if job.tasks_total > 1 else None,
        elapsed_s=max(0.0, decision.cluster_s - job.submitted_s),
        locality=Within(job.constraints["locality"]) if job.constraints.get("locality") else None,
    )
    n = len(profile.platforms)
    allowance = _number(decision.predicted.get("allowance"))
    roomy = ClusterFacts(
        profile.platforms,
        (MAX_UNITS,) * n,
        (MAX_UNITS,) * n,
        allowances=DEFAULT if math.isnan(allowance) else Allowances.all(allowance),
    )
    grid = performance_grid(profile, target, work, roomy)
    if decision.units > grid.sizes.size:
        return None
    off = np.abs(grid.value[decision.units - 1] / value - 1.0)
    basis = int(np.nanargmin(off))
    if not off[basis] <= SAME_PREDICTION:
        return None
    ends = [float(low) if math.isfinite(low) else None for low in grid.low[:, basis]]
    at = ends[decision.units - 1]
    less = ends[decision.units - 2] if decision.units > 1 else None
    return None if at is None else SizePrediction(target.kind, at, less)


def _facts(
    decision: Decision,
    candidates: tuple[CandidateFacts, ...],
    dropped: tuple[tuple[str, int], ...],
    sentence: str,
) -> DecisionFacts:
    target = target_of(decision)
    kind = target["kind"]
    value, low, high = (_number(decision.predicted.get(n)) for n in ("value", "low", "high"))
    interval = (
        f"{formats.performance_text(kind, low)}, {formats.performance_text(kind, high)}"
        if not math.isnan(low) and not math.isnan(high)
        else ""
    )
    chosen = tuple(dict.fromkeys(c.server for c in candidates if c.verdict == "chosen"))
    return DecisionFacts(
        placed=decision.outcome == "placed",
        reason_code=decision.reason_code,
        reason_sentence=sentence or labels.reason_text(decision.reason_code) + ".",
        policy=decision.policy,
        units=decision.units,
        units_won=decision.units_won,
        servers=chosen or _allocated_servers(decision),
        examined=decision.examined,
        eligible=decision.eligible,
        candidates=candidates,
        dropped=dropped,
        predicted="" if math.isnan(value) else formats.performance_text(kind, value),
        predicted_interval=interval,
        target=formats.target_text(target),
        cost=formats.cost_text(
            decision.job.constraints.get("max_cost"), _number(decision.predicted.get("cost"))
        ),
        reason_detail=decision.job.reason_message
        if decision.reason_code == decision.job.reason_code
        else "",
        units_before=decision.units_before,
    )


def _allocated_servers(decision: Decision) -> tuple[str, ...]:
    ids = list(working_allocations(decision).order_by("id").values_list("server_id", flat=True))
    names = dict(Server.objects.filter(id__in=ids).values_list("id", "name"))
    return tuple(names[pk] for pk in ids if pk in names)


def _candidates(decision: Decision, caused: Sequence[float] | None) -> tuple[CandidateFacts, ...]:
    stored = decision.candidates
    ids = {row["server_id"] for row in stored if isinstance(row.get("server_id"), int)}
    servers = {
        pk: (name, platform)
        for pk, name, platform in Server.objects.filter(id__in=ids).values_list(
            "id", "name", "platform__name"
        )
    }
    known = (candidate_facts(row, servers) for row in stored)
    if caused is None:
        return tuple(known)
    return tuple(
        replace(one, deciding=deciding_source(one.quality, one.target, caused)) for one in known
    )


def candidate_facts(row: dict[str, Any], servers: dict[int, tuple[str, str]]) -> CandidateFacts:
    """Return a stored candidate, with the name and the platform of its server by id."""
    name, platform = servers.get(
        row.get("server_id", -1), (str(row.get("server", "")), str(row.get("platform", "")))
    )
    headroom = row.get("headroom") or []
    return CandidateFacts(
        server=name,
        core=row.get("core"),
        platform=platform,
        quality=_number(row.get("quality")),
        target=_number(row.get("target")),
        closeness=_number(row.get("closeness", row.get("score"))),
        verdict=str(row.get("verdict", "")),
        headroom=tuple(float(value) for value in headroom),
        expectation=Expectation(**row["expected"]) if row.get("expected") else None,
    )


def _tightest_sources(candidates: tuple[CandidateFacts, ...]) -> tuple[int, ...]:
    """Return the sources with the least headroom over all candidates, in fixed order.

    Three, or one beside the columns of expected performance, which contain all sources.
    """
    known = [c.headroom for c in candidates if c.headroom]
    if not known:
        return ()
    least = [min(values) for values in zip(*known, strict=True)]
    count = 1 if any(c.expectation for c in candidates) else 3
    return tuple(sorted(sorted(range(len(least)), key=least.__getitem__)[:count]))


def _dropped(decision: Decision) -> list[tuple[str, int]]:
    return [
        (str(name), int(units))
        for name, units in decision.dropped.items()
        if isinstance(units, int) and units > 0
    ]


def _guarantee(decision: Decision) -> Guarantee:
    x, r = decision.rank_threshold, decision.sample_size
    top = formats.percent(1 - x, 0)
    examined, eligible = (formats.thousands(n) for n in (decision.examined, decision.eligible))
    if decision.probability == 0.0 or decision.examined >= decision.eligible:
        return Guarantee(
            is_exhaustive=True,
            statement=statement(decision.examined, decision.eligible, x, 0.0),
            formula="The best unit was found with certainty, without sampling.",
            alternatives=(),
            check="",
            holds=None,
        )
    alternatives = tuple(
        f"R = {more}: {formats.percent(x**more, 2)}" for more in SAMPLE_SIZES if more > r
    )
    ranks = comparable_ranks(decision.policy, r)
    measured = largest_distance(ranks, r)
    limit = kolmogorov_limit(ranks.size)
    enough = ranks.size >= ENOUGH_RANKS
    best = "the best" if decision.units_won <= 1 else f"one of the best {decision.units_won}"
    return Guarantee(
        is_exhaustive=False,
        statement=(
            f"{examined} of {eligible} examined: {_chance(decision.probability)} chance that "
            f"{best} is outside the top {top}"
        ),
        formula=(
            f"x{superscript(r)} = {x:g}{superscript(r)} = {formats.significant(x**r, 2)} per unit"
        ),
        alternatives=alternatives,
        check=(
            f"largest distance {measured:.3f}, limit {limit:.3f} (5 %), "
            f"last {formats.thousands(ranks.size)} ranked decisions"
            if enough
            else f"{formats.thousands(ranks.size)} measured ranks; {ENOUGH_RANKS} are needed"
        ),
        holds=measured <= limit if enough else None,
    )


def _reason(code: str) -> Reason | None:
    return Reason(code) if code in set(Reason) else None


def _chance(probability: float) -> str:
    return formats.percent(probability) if probability >= 0.0005 else "under 0.1 %"


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")
