"""What the pages show of decisions: the log, one decision's reasons, the quality of sampling."""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import numpy as np
from django.db.models import QuerySet
from django.http import Http404
from numpy.typing import NDArray

from apps.common.paging import Order, Page, keyset_page
from apps.dashboard.core import words
from apps.dashboard.core.why import (
    CandidateFacts,
    DecisionFacts,
    filter_text,
    grouped,
    paragraph,
    shortened,
)
from apps.dashboard.figures.quality_cdf import (
    QualityCdf,
    kolmogorov_limit,
    largest_distance,
    superscript,
)
from apps.inventory.models import Server
from apps.scheduling.models import Decision
from apps.testbed.models import SamplingCheck
from apps.workloads.core.reasons import MEANINGS, Reason
from apps.workloads.models import Job

ORDER = Order(columns=("at", "id"), descending=True)
PAGE_ROWS = 50
LAST_RANKED = 1_000
ENOUGH_RANKS = 35  # from here the asymptotic limit is close enough
SAMPLE_SIZES = (8, 16, 32)
THRESHOLD = 0.8


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

    @property
    def decision_key(self) -> str:
        """The decision's id as text."""
        return str(self.decision.id)

    @property
    def source_names(self) -> tuple[str, ...]:
        """Headings of the headroom columns."""
        names = list(words.SOURCE_NAMES.values())
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


def decisions_page(
    seen: QuerySet[Job], *, cursor: str | None, outcome: str = "", limit: int = PAGE_ROWS
) -> Page[Decision]:
    """One page of the log, newest first, without the candidates."""
    rows = Decision.objects.select_related("job").defer("candidates", "dropped")
    if seen.query.where:  # operators see all; no need to look each job up
        rows = rows.filter(job__in=seen.values("id"))
    if outcome:
        rows = rows.filter(outcome=outcome)
    return keyset_page(rows, ORDER, limit=limit, cursor=cursor or None)


def decision(seen: QuerySet[Job], decision_id: str | UUID) -> Decision:
    """One decision with its job.

    Raises
    ------
    Http404 : there is no such decision.
    """
    found = None
    with suppress(ValueError):
        rows = Decision.objects.select_related("job", "job__application")
        found = rows.filter(id=UUID(str(decision_id)), job__in=seen.values("id")).first()
    if found is None:
        raise Http404(f"there is no decision {decision_id}")
    return found


def decisions_of(job: Job, *, most: int = 50) -> Sequence[Decision]:
    """Return a job's decisions, newest first."""
    return list(job.decisions.order_by("-at", "-id")[:most])


def explanation(found: Decision) -> Explanation:
    """Why a decision came out as it did.

    Reads the decision's own row and the names of its servers.
    """
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
    )


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
    )


def _allocated_servers(found: Decision) -> tuple[str, ...]:
    ids = list(found.allocations.values_list("server_id", flat=True))
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
    ranks = _comparable_ranks(r)
    measured = largest_distance(ranks, r)
    limit = kolmogorov_limit(ranks.size)
    enough = ranks.size >= ENOUGH_RANKS
    return Guarantee(
        is_exhaustive=False,
        statement=(
            f"{words.thousands(found.examined)} of {words.thousands(found.eligible)} examined: "
            f"{words.percent(found.probability)} chance that the best is outside the top {top}"
        ),
        formula=f"x{superscript(r)} = {x:g}{superscript(r)} = {x**r:.3f} per unit",
        alternatives=alternatives,
        check=(
            f"largest distance {measured:.3f}, limit {limit:.3f} (5 %), "
            f"last {words.thousands(ranks.size)} ranked decisions"
            if enough
            else f"{words.thousands(ranks.size)} decisions have a rank; 35 are needed"
        ),
        holds=measured <= limit if enough else None,
    )


def guarantee(found: Decision) -> QualityCdf:
    """Return the promise of one decision beside the ranks that decisions reached."""
    r = found.sample_size
    own = _live_ranks(r).size >= ENOUGH_RANKS
    return _cdf(
        _comparable_ranks(r),
        r,
        threshold=found.rank_threshold,
        source="Live decisions" if own else f"Live decisions of any R, brought to R = {r}",
    )


def quality(sample_size: str, source: str) -> QualityCdf:
    """Measured ranks at one sample size.

    ``source`` "check" for the testbed's run, else live decisions.
    """
    r = (
        int(sample_size)
        if sample_size in {str(size) for size in SAMPLE_SIZES}
        else SAMPLE_SIZES[0]
    )
    if source == "check":
        return _checked(r)
    return _cdf(_live_ranks(r), r, threshold=THRESHOLD, source="Live decisions")


def _cdf(ranks: NDArray[np.float64], r: int, *, threshold: float, source: str) -> QualityCdf:
    return QualityCdf(
        sample_size=r,
        ranks=ranks,
        shares=np.arange(1, ranks.size + 1) / max(1, ranks.size),
        samples=ranks.size,
        distance=largest_distance(ranks, r),
        limit=kolmogorov_limit(ranks.size),
        threshold=threshold,
        source=source,
    )


def _checked(r: int) -> QualityCdf:
    """Return the newest run of the testbed's check at one sample size."""
    row = SamplingCheck.objects.filter(size=r).order_by("-created_at").first()
    if row is None:
        nothing = np.zeros(0)
        return _cdf(nothing, r, threshold=THRESHOLD, source="Offline check")
    return QualityCdf(
        sample_size=r,
        ranks=np.array(row.xs, dtype=float),
        shares=np.array(row.cdf, dtype=float),
        samples=row.decisions,
        distance=row.ks_distance,
        limit=kolmogorov_limit(row.decisions),
        threshold=THRESHOLD,
        source=f"Offline check at {words.percent(row.load, 0)} load",
    )


def _comparable_ranks(sample_size: int) -> NDArray[np.float64]:
    """Ranks at a sample size; where there are few, those of all sizes brought to it.

    A rank D at R' that follows its promise has D^R' uniform, so D^(R'/R) follows the promise of R.
    """
    own = _live_ranks(sample_size)
    if own.size >= ENOUGH_RANKS:
        return own
    rows = Decision.objects.filter(rank__isnull=False, units=1, sample_size__gt=0)
    pairs = rows.order_by("-at").values_list("rank", "sample_size")[:LAST_RANKED]
    table = np.array(list(pairs), dtype=float).reshape(-1, 2)
    return np.sort(table[:, 0] ** (table[:, 1] / sample_size))


def _live_ranks(sample_size: int) -> NDArray[np.float64]:
    """Ranks of the last ranked decisions at a sample size, ascending.

    One-unit jobs only, as x^R promises.
    """
    rows = Decision.objects.filter(sample_size=sample_size, rank__isnull=False, units=1).order_by(
        "-at"
    )
    return np.sort(np.array(rows.values_list("rank", flat=True)[:LAST_RANKED], dtype=float))


def _reason(code: str) -> Reason | None:
    return Reason(code) if code in set(Reason) else None


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else float("nan")


@dataclass(frozen=True, slots=True)
class LogSummary:
    """The latest decisions in one sentence."""

    latest: int
    placed: int
    conflicts: int


def log_summary() -> LogSummary:
    """Outcomes of the last thousand decisions."""
    outcomes = list(
        Decision.objects.order_by("-at", "-id").values_list("outcome", "commit_retries")[:1000]
    )
    return LogSummary(
        latest=len(outcomes),
        placed=sum(1 for outcome, _ in outcomes if outcome == "placed"),
        conflicts=sum(retries for _, retries in outcomes),
    )


@dataclass(frozen=True, slots=True)
class SamplingRow:
    """One sample size: offline and live distance from the promise."""

    sample_size: int
    promised: float
    checked: QualityCdf
    live: QualityCdf

    @property
    def check_query(self) -> str:
        """Query of the offline figure."""
        return f"?source=check&r={self.sample_size}"

    @property
    def live_query(self) -> str:
        """Query of the live figure."""
        return f"?source=live&r={self.sample_size}"

    @property
    def check_name(self) -> str:
        """Name of the offline figure."""
        return f"Rank found at R = {self.sample_size}, offline check"

    @property
    def live_name(self) -> str:
        """Name of the live figure."""
        return f"Rank found at R = {self.sample_size}, live decisions"


def sampling_summary() -> tuple[SamplingRow, ...]:
    """Return the three sample sizes side by side."""
    return tuple(
        SamplingRow(r, THRESHOLD**r, quality(str(r), "check"), quality(str(r), "live"))
        for r in SAMPLE_SIZES
    )
