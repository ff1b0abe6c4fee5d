"""Why a decision came out as it did, from its own row, the profile it used, and server names."""

import json
import math
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import numpy as np

from apps.classification.core.profile import Profile
from apps.classification.selectors import profiles
from apps.dashboard.core import words
from apps.dashboard.core.contributions import Comparison, compare
from apps.dashboard.core.flips import Flip, Sizes, flips
from apps.dashboard.core.why import (
    CandidateFacts,
    DecisionFacts,
    filter_text,
    grouped,
    paragraph,
    shortened,
)
from apps.dashboard.figures.quality_cdf import kolmogorov_limit, largest_distance, superscript
from apps.dashboard.selectors.job_facts import spec_of
from apps.dashboard.selectors.sampling import ENOUGH_RANKS, SAMPLE_SIZES, comparable_ranks
from apps.inventory.models import Server
from apps.scheduling.core.sizing import ClusterFacts, Work, performance_grid
from apps.scheduling.core.types import MAX_UNITS, Within
from apps.scheduling.models import Decision
from apps.scheduling.selectors import stands
from apps.workloads.core.reasons import MEANINGS, Reason
from apps.workloads.core.targets import BestEffort, read_target

SAME_PREDICTION = 0.02  # what is launched between decision and prediction differs by less


@dataclass(frozen=True, slots=True)
class Guarantee:
    """What sampling promised for one decision; everything examined needs no promise."""

    is_exhaustive: bool
    statement: str
    formula: str
    alternatives: tuple[str, ...]
    check: str
    holds: bool | None  # None = not enough measured


@dataclass(frozen=True, slots=True)
class Dropped:
    """What one filter took out."""

    text: str
    units: int
    share: float


@dataclass(frozen=True, slots=True)
class Explanation:
    """One decision as its page tells it."""

    decision: Decision
    paragraph: tuple[str, ...]
    reason: str
    tier: int | None
    next_action: str
    also: tuple[str, ...]
    candidates: tuple[CandidateFacts, ...]
    shown_sources: tuple[int, ...]
    noisy: int
    dropped: tuple[Dropped, ...]
    guarantee: Guarantee | None
    comparison: Comparison | None
    flips: tuple[Flip, ...]

    @property
    def sized_query(self) -> str:
        """Query of the figure that shows what any size would achieve; "" where one was enough."""
        if self.decision.reason_code != Reason.INFEASIBLE_TARGET:
            return ""
        return "?" + urlencode({"spec": json.dumps(spec_of(self.decision.job))})

    @property
    def decision_key(self) -> str:
        """The decision's id as text."""
        return str(self.decision.id)

    @property
    def source_names(self) -> tuple[str, ...]:
        """Headings of the headroom columns."""
        names = list((words.SOURCE_NAMES | words.SHORT_SOURCES).values())
        return tuple(names[i] for i in self.shown_sources)

    @property
    def rows(self) -> tuple[tuple[CandidateFacts, tuple[float, ...]], ...]:
        """Candidates with their headroom in the columns shown; alike ones in one row."""
        return tuple(
            (c, tuple(c.headroom[i] for i in self.shown_sources) if c.headroom else ())
            for c in shortened(grouped(self.candidates))
        )

    @property
    def hidden(self) -> int:
        """Candidates kept with the decision but not in a row."""
        return len(self.candidates) - sum(c.alike for c, _ in self.rows)

    @property
    def heading(self) -> str:
        """What the table of candidates shows."""
        kept, examined = len(self.candidates), self.decision.examined
        which = f"Of the best {kept} of {words.thousands(examined)} examined, "
        which = which if examined > kept else f"Of {words.plural(kept, 'candidate')}, "
        if self.noisy:
            return f"{which}{self.noisy} could not keep the promise"
        return f"{which}all could keep the promise" if kept > 1 else "The one candidate fits"


def explanation(found: Decision) -> Explanation:
    """Why a decision came out as it did.

    Reads the decision's own row, the profile it used and the names of its servers.
    """
    profile = _profile(found)
    candidates = _candidates(found)
    code = _reason(found.reason_code)
    reason = MEANINGS.get(code) if code is not None else None
    dropped = sorted(_dropped(found), key=lambda pair: -pair[1])
    total = sum(units for _, units in dropped) + found.eligible
    facts = _facts(found, candidates, tuple(dropped), reason.sentence if reason else "")
    noisy = sum(1 for c in candidates if c.verdict == "too_noisy")
    return Explanation(
        decision=found,
        paragraph=paragraph(facts),
        reason=reason.sentence if reason else words.reason_text(found.reason_code),
        tier=reason.tier if reason else None,
        next_action=reason.next_action if reason else "",
        also=tuple(words.reason_text(code) for code in found.job.reason_also or ()),
        candidates=candidates,
        shown_sources=_telling_sources(candidates),
        noisy=noisy,
        dropped=tuple(
            Dropped(filter_text(name), units, units / total if total else 0.0)
            for name, units in dropped
        ),
        guarantee=_guarantee(found) if found.outcome == "placed" else None,
        comparison=None if profile is None else compare(candidates, profile.caused.tolist()),
        flips=flips(facts, None if profile is None else _sizes(found, profile)),
    )


def _profile(found: Decision) -> Profile | None:
    """Return the profile the decision used, where it is still kept."""
    if found.profile_id is None:
        return None
    return profiles([found.profile_id]).get(found.profile_id)


def _sizes(found: Decision, profile: Profile) -> Sizes | None:
    """Predict one unit less from the decision's profile, where that gives the stored prediction.

    The platform that sizing judged on is the one whose prediction is the stored one.
    """
    job, value = found.job, _number(found.predicted.get("value"))
    if job.units_requested is not None or math.isnan(value) or not 1 <= found.units <= MAX_UNITS:
        return None
    target = read_target(job.target)
    if isinstance(target, BestEffort):
        return None
    work = Work(
        input_bytes=job.input_bytes,
        tasks=job.tasks_total if job.tasks_total > 1 else None,
        elapsed_s=max(0.0, found.cluster_s - job.submitted_s),
        locality=Within(job.constraints["locality"]) if job.constraints.get("locality") else None,
    )
    n = len(profile.platforms)
    roomy = ClusterFacts(profile.platforms, (MAX_UNITS,) * n, (MAX_UNITS,) * n)
    grid = performance_grid(profile, target, work, roomy)
    off = np.abs(grid.value[found.units - 1] / value - 1.0)
    basis = int(np.nanargmin(off))
    if not off[basis] <= SAME_PREDICTION:
        return None
    ends = [float(low) if math.isfinite(low) else None for low in grid.low[:, basis]]
    at = ends[found.units - 1]
    less = ends[found.units - 2] if found.units > 1 else None
    return None if at is None else Sizes(job.target_kind, at, less)


def _facts(
    found: Decision,
    candidates: tuple[CandidateFacts, ...],
    dropped: tuple[tuple[str, int], ...],
    sentence: str,
) -> DecisionFacts:
    kind = found.job.target_kind
    value, low, high = (_number(found.predicted.get(n)) for n in ("value", "low", "high"))
    interval = (
        f"{words.performance_text(kind, low)}, {words.performance_text(kind, high)}"
        if not math.isnan(low) and not math.isnan(high)
        else ""
    )
    chosen = tuple(dict.fromkeys(c.server for c in candidates if c.verdict == "chosen"))
    return DecisionFacts(
        placed=found.outcome == "placed",
        reason_code=found.reason_code,
        reason_sentence=sentence or words.reason_text(found.reason_code) + ".",
        policy=found.policy,
        units=found.units,
        units_won=found.units_won,
        servers=chosen or _allocated_servers(found),
        examined=found.examined,
        eligible=found.eligible,
        candidates=candidates,
        dropped=dropped,
        predicted="" if math.isnan(value) else words.performance_text(kind, value),
        predicted_interval=interval,
        target=words.target_text(found.job.target),
        reason_detail=found.job.reason_message
        if found.reason_code == found.job.reason_code
        else "",
    )


def _allocated_servers(found: Decision) -> tuple[str, ...]:
    ids = list(stands(found).order_by("id").values_list("server_id", flat=True))
    names = dict(Server.objects.filter(id__in=ids).values_list("id", "name"))
    return tuple(names[pk] for pk in ids if pk in names)


def _candidates(found: Decision) -> tuple[CandidateFacts, ...]:
    stored = [row for row in found.candidates if isinstance(row, dict)]
    ids = {row["server_id"] for row in stored if isinstance(row.get("server_id"), int)}
    servers = {
        pk: (name, platform)
        for pk, name, platform in Server.objects.filter(id__in=ids).values_list(
            "id", "name", "platform__name"
        )
    }
    return tuple(_candidate(row, servers) for row in stored)


def _candidate(row: dict[str, Any], servers: dict[int, tuple[str, str]]) -> CandidateFacts:
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
    )


def _telling_sources(candidates: tuple[CandidateFacts, ...]) -> tuple[int, ...]:
    """Return the three sources with the least headroom over the candidates, in the fixed order."""
    known = [c.headroom for c in candidates if c.headroom]
    if not known:
        return ()
    least = [min(values) for values in zip(*known, strict=True)]
    return tuple(sorted(sorted(range(len(least)), key=least.__getitem__)[:3]))


def _dropped(found: Decision) -> list[tuple[str, int]]:
    return [
        (str(name), int(units))
        for name, units in found.dropped.items()
        if isinstance(units, int) and units > 0
    ]


def _guarantee(found: Decision) -> Guarantee:
    x, r = found.rank_threshold, found.sample_size
    top = words.percent(1 - x, 0)
    if found.examined >= found.eligible:
        return Guarantee(
            is_exhaustive=True,
            statement=f"All {words.thousands(found.eligible)} eligible units were examined",
            formula="The best of them was found for certain; nothing was left to a sample.",
            alternatives=(),
            check="",
            holds=None,
        )
    alternatives = tuple(
        f"R = {more}: {words.percent(x**more, 2)}" for more in SAMPLE_SIZES if more > r
    )
    ranks = comparable_ranks(r)
    measured = largest_distance(ranks, r)
    limit = kolmogorov_limit(ranks.size)
    enough = ranks.size >= ENOUGH_RANKS
    best = "the best" if found.units_won <= 1 else f"one of the best {found.units_won}"
    return Guarantee(
        is_exhaustive=False,
        statement=(
            f"{words.thousands(found.examined)} of {words.thousands(found.eligible)} examined: "
            f"{_chance(found.probability)} chance that {best} is outside the top {top}"
        ),
        formula=(
            f"x{superscript(r)} = {x:g}{superscript(r)} = {words.significant(x**r, 2)} per unit"
        ),
        alternatives=alternatives,
        check=(
            f"largest distance {measured:.3f}, limit {limit:.3f} (5 %), "
            f"last {words.thousands(ranks.size)} ranked decisions"
            if enough
            else f"{words.thousands(ranks.size)} decisions have a rank; 35 are needed"
        ),
        holds=measured <= limit if enough else None,
    )


def _reason(code: str) -> Reason | None:
    return Reason(code) if code in set(Reason) else None


def _chance(probability: float) -> str:
    return words.percent(probability) if probability >= 0.0005 else "under 0.1 %"


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")
