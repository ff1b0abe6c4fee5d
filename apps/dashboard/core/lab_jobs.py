"""The single jobs that gain or lose most, as the table of a comparison's page."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from apps.dashboard.core import formats
from apps.dashboard.core.lab_matrix import HALF_BAR
from apps.testbed.core.lab_jobs import JobChange, JobChanges

SHOWN: Final = 12


@dataclass(frozen=True, slots=True)
class NamedChange:
    """One job that changes, with what the page may say of it.

    Attributes
    ----------
    name, job_id : of a job of this cluster that the viewer may see; else empty
    """

    change: JobChange
    application: str
    submitted_s: float
    name: str
    job_id: str


@dataclass(frozen=True, slots=True)
class JobRow:
    """One job; ``left`` and ``width`` are px of its bar, right of the middle if it gains."""

    name: str
    job_id: str
    about: str
    before: str
    after: str
    value: str
    seeds: str
    outcome: str
    left: float
    width: float


@dataclass(frozen=True, slots=True)
class JobTable:
    """The jobs that change most under a setting."""

    title: str
    note: str
    rows: tuple[JobRow, ...]
    foot: str


def job_table(
    found: Sequence[NamedChange], summary: JobChanges, *, setting: str, baseline: str
) -> JobTable:
    """Return the table; ``found`` has the largest change first."""
    largest = max((abs(each.change.change) for each in found), default=0.0)
    return JobTable(
        title=_title(summary),
        note=f"{setting} − {baseline}, points, the largest first",
        rows=tuple(_row(each, largest, summary.seeds) for each in found),
        foot=_foot(summary),
    )


def _title(summary: JobChanges) -> str:
    count = formats.plural(summary.jobs, "job")
    gained, lost = formats.thousands(summary.gained), formats.thousands(summary.lost)
    if summary.seeds < 2:
        return f"{gained} of {count} gain and {lost} lose, with one seed"
    return f"{gained} of {count} gain in every seed, {lost} lose in every seed"


def _foot(summary: JobChanges) -> str:
    counted = (
        "A change counts from half a point. A job that did not finish has a performance of 0."
    )
    if summary.seeds < 2:
        return f"{counted} One seed cannot tell a change from chance."
    chance = summary.jobs * 0.5**summary.seeds
    return (
        f"{counted} Without any true difference, up to {formats.significant(chance, 2)} jobs would"
        f" gain in all {summary.seeds} seeds by chance, and as many would lose."
    )


def _row(each: NamedChange, largest: float, seeds: int) -> JobRow:
    change = each.change
    width = HALF_BAR * 2.0 * abs(change.change) / largest if largest else 0.0
    is_gain = change.change > 0.0
    agreeing = change.seeds_gained if is_gain else change.seeds_lost
    outcome = "unclear" if agreeing < seeds or seeds < 2 else "better" if is_gain else "worse"
    about = f"{each.application}, {formats.duration(each.submitted_s)} after the first job"
    return JobRow(
        name=each.name or f"job {change.place + 1:,} of the trace",
        job_id=each.job_id,
        about=about,
        before=formats.percent(change.before),
        after=formats.percent(change.after),
        value=formats.signed(100.0 * change.change, 1),
        seeds=f"{agreeing} of {seeds}",
        outcome=outcome,
        left=round(HALF_BAR * 2.0 - (0.0 if is_gain else width), 2),
        width=round(width, 2),
    )
