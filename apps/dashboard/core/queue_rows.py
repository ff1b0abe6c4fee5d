"""Rows of the Queues page: waiting jobs of equal requests together, soonest start first."""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from apps.dashboard.core import formats, labels
from apps.scheduling.core.starts.waits import StartScore, WaitingCount, WaitingJob, WaitingJobs
from apps.workloads.core.reasons import MEANINGS, Reason

MAX_ROWS: Final = 100
AXES_S: Final = (60.0, 300.0, 600.0, 1200.0, 3600.0, 10_800.0, 43_200.0, 86_400.0, 604_800.0)
ENOUGH: Final = 30  # scored starts below which a share says little


@dataclass(frozen=True, slots=True)
class QueueRow:
    """One job, the waiting jobs of one request, or the members that their array holds.

    Attributes
    ----------
    jobs : oldest first
    waited_s : of the oldest
    start_s, latest_s : p50 and p90 of the start in cluster seconds from now; None = unknown.
        Of several jobs: the medians
    """

    jobs: tuple[WaitingJob, ...]
    waited_s: float
    start_s: float | None
    latest_s: float | None
    is_member: bool = False

    @property
    def first(self) -> WaitingJob:
        """The oldest job."""
        return self.jobs[0]

    @property
    def request(self) -> str:
        """Number of units, and whether the job needs several at once to start."""
        units = "size not known yet"
        if self.first.units is not None:
            units = formats.plural(self.first.units, "unit")
        is_gang = self.first.is_gang and self.first.units != 1
        return f"{units}{', gang' if is_gang else ''}"

    @property
    def is_unmatched(self) -> bool:
        """Whether no server matches its request: it has no start, however long it waits."""
        return self.first.reason == Reason.NO_MATCHING_SERVER

    @property
    def why(self) -> str:
        """The reason in a few words."""
        return labels.reason_text(self.first.reason)

    @property
    def position(self) -> str:
        """Number of jobs that are predicted to start before it, in words."""
        ahead = self.first.ahead
        if ahead is None or self.is_unmatched:
            return ""
        if ahead:
            return f"after {formats.plural(ahead, 'job')}"
        return "" if self.start_s is None else "next to start"

    @property
    def start(self) -> str:
        """The p50 in words."""
        return labels.ONLY_IF_CHANGED if self.is_unmatched else _start(self.start_s)

    @property
    def latest(self) -> str:
        """The p90 in words."""
        return _start(self.latest_s)


@dataclass(frozen=True, slots=True)
class QueueScore:
    """How estimates compared with starts, over all classes; see `StartScore`."""

    count: int
    unknown: int
    by_p90: float
    covered: float

    @property
    def is_enough(self) -> bool:
        """Whether a share of these starts says something."""
        return self.count >= ENOUGH


@dataclass(frozen=True, slots=True)
class QueuePage:
    """Contents of the Queues page.

    Attributes
    ----------
    axis_s : end of the common axis of the starts
    waiting, units : jobs that match, were read and are not held, and their units
    held : jobs that match and are held, by a user or by their array; not part of the other numbers
    shapes : different requests; the held members of an array are one
    start_s, latest_s : medians of the p50 and p90; None = no estimate, or none of half the jobs
    unpredicted : jobs without a p50 that servers match
    unmatched : jobs that no server matches
    oldest, oldest_s : job that waits longest of those that servers match, and cluster seconds
    reasons, projects : of all visible jobs, with the number of jobs
    hidden, hidden_jobs : rows that are not shown, and jobs of the request that is listed
    is_cut : whether more jobs match than were read
    """

    rows: tuple[QueueRow, ...]
    axis_s: float
    waiting: int
    held: int
    shapes: int
    units: int
    start_s: float | None
    latest_s: float | None
    unpredicted: int
    unmatched: int
    oldest: WaitingJob | None
    oldest_s: float
    reasons: tuple[tuple[str, str, int], ...]
    projects: tuple[tuple[str, int], ...]
    hidden: int
    hidden_jobs: int
    is_cut: bool
    scores: tuple[StartScore, ...]
    score: QueueScore | None

    @property
    def axis(self) -> str:
        """End of the axis in words."""
        return formats.duration(self.axis_s)

    @property
    def half_axis(self) -> str:
        """Middle of the axis in words."""
        return formats.duration(self.axis_s / 2.0)


@dataclass(frozen=True, slots=True)
class QueueFilter:
    """Filters in the address of the page; an empty one matches all jobs.

    ``shape`` is the request whose jobs are listed one by one.
    """

    project: str = ""
    reason: str = ""
    shape: str = ""


def queue_page(
    waiting: WaitingJobs,
    counts: Sequence[WaitingCount],
    scores: Sequence[StartScore],
    by: QueueFilter,
    *,
    now_s: float,
) -> QueuePage:
    """Group the waiting jobs that match by request, at most 100 rows.

    Parameters
    ----------
    counts : of all visible jobs
    """
    chosen = sorted(waiting.jobs, key=lambda job: job.since_s)
    rows = sorted((_row(group, now_s) for group in _groups(chosen)), key=_soonest_first)
    shown = [row for group in rows[:MAX_ROWS] for row in _with_members(group, by, now_s)]
    every = [_row((job,), now_s) for job in chosen if not job.is_held]
    starts = [at for row in shown for at in (row.start_s, row.latest_s) if at is not None]
    matched = [row for row in every if not row.is_unmatched]
    oldest = matched[0] if matched else None
    return QueuePage(
        rows=tuple(shown),
        axis_s=next((axis for axis in AXES_S if axis >= max(starts, default=0.0)), AXES_S[-1]),
        waiting=len(every),
        held=len(chosen) - len(every),
        shapes=len(rows),
        units=sum(row.first.units or 0 for row in every),
        start_s=_median([row.start_s for row in every]),
        latest_s=_median([row.latest_s for row in every]),
        unpredicted=sum(row.start_s is None for row in matched),
        unmatched=len(every) - len(matched),
        oldest=None if oldest is None else oldest.first,
        oldest_s=0.0 if oldest is None else oldest.waited_s,
        reasons=_reasons(counts),
        projects=tuple(sorted(_sums((count.project, count.jobs) for count in counts).items())),
        hidden=max(0, len(rows) - MAX_ROWS),
        hidden_jobs=sum(
            max(0, len(row.jobs) - MAX_ROWS) for row in rows[:MAX_ROWS] if _is_listed(row, by)
        ),
        is_cut=waiting.is_cut,
        scores=tuple(scores),
        score=_score(scores),
    )


def _groups(jobs: Sequence[WaitingJob]) -> list[tuple[WaitingJob, ...]]:
    groups: dict[object, list[WaitingJob]] = {}
    for job in jobs:
        groups.setdefault(_group_key(job), []).append(job)
    return [tuple(group) for group in groups.values()]


def _group_key(job: WaitingJob) -> object:
    if job.array is not None:
        return job.array.id
    return job.id if job.shape is None or job.reserved_s is not None else job.shape


def _row(jobs: tuple[WaitingJob, ...], now_s: float, *, is_member: bool = False) -> QueueRow:
    return QueueRow(
        jobs=jobs,
        waited_s=_waited(jobs[0], now_s),
        start_s=_median([_from_now(job.start_s, now_s) for job in jobs]),
        latest_s=_median([_from_now(job.latest_s, now_s) for job in jobs]),
        is_member=is_member,
    )


def _with_members(group: QueueRow, by: QueueFilter, now_s: float) -> list[QueueRow]:
    """Return a row, and those of its jobs if the address asks for them."""
    if not _is_listed(group, by):
        return [group]
    members = [_row((job,), now_s, is_member=True) for job in group.jobs[:MAX_ROWS]]
    return [group, *members]


def _is_listed(group: QueueRow, by: QueueFilter) -> bool:
    return len(group.jobs) > 1 and by.shape == str(group.first.shape or "-")


def _waited(job: WaitingJob, now_s: float) -> float:
    return max(0.0, now_s - job.since_s)  # the clock is read before the jobs


def _from_now(at_s: float | None, now_s: float) -> float | None:
    return None if at_s is None else max(0.0, at_s - now_s)


def _median(values: Sequence[float | None]) -> float | None:
    """Return the upper median; unknown values count as the largest."""
    ranked = sorted(math.inf if value is None else value for value in values)
    middle = ranked[len(ranked) // 2] if ranked else math.inf
    return middle if math.isfinite(middle) else None


def _soonest_first(row: QueueRow) -> tuple[float, bool, float]:
    """Return the order of a row; held jobs are last."""
    return math.inf if row.start_s is None else row.start_s, row.first.is_held, -row.waited_s


def _reasons(counts: Sequence[WaitingCount]) -> tuple[tuple[str, str, int], ...]:
    """Return reasons in the order of their tier: code, text and number of jobs."""
    sums = _sums((count.reason, count.jobs) for count in counts)
    ranked = sorted(sums, key=lambda code: (MEANINGS[Reason(code)].tier, code))
    return tuple((code, labels.reason_text(code), sums[code]) for code in ranked)


def _sums(counts: Iterable[tuple[str, int]]) -> Counter[str]:
    """Add the numbers of each name."""
    sums: Counter[str] = Counter()
    for name, jobs in counts:
        sums[name] += jobs
    return sums


def _score(scores: Sequence[StartScore]) -> QueueScore | None:
    if not scores:
        return None
    count = sum(score.count for score in scores)
    return QueueScore(
        count,
        unknown=sum(score.unknown for score in scores),
        by_p90=sum((score.by_p90 or 0.0) * score.count for score in scores) / max(1, count),
        covered=sum((score.covered or 0.0) * score.count for score in scores) / max(1, count),
    )


def _start(seconds: float | None) -> str:
    if seconds is None:
        return "unknown"
    return "now" if seconds < 1.0 else formats.duration(seconds)
