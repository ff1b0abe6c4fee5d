"""What the Applications list shows."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.core.exceptions import EmptyResultSet
from django.db.models import (
    Count,
    DateTimeField,
    Exists,
    F,
    FloatField,
    IntegerField,
    OuterRef,
    Q,
    QuerySet,
    Subquery,
    Value,
)
from django.db.models.functions import Abs, Coalesce, NullIf

from apps.classification.models import PredictionError, Profile
from apps.classification.selectors import current_number
from apps.common.paging import Order, Page, keyset_page
from apps.dashboard.core import words
from apps.dashboard.core.application_query import KINDS, SORTS, STANDINGS, ApplicationQuery
from apps.dashboard.core.profile_cells import Known, known_in, read_cells
from apps.dashboard.core.profile_words import flag
from apps.profiling.models import ProfilingRun, RunState
from apps.workloads.core.lifecycle import JobState
from apps.workloads.models import Application, Job

PAGE_ROWS = 50
JOBS_COUNTED = 10_000
OPEN_RUNS = (RunState.QUEUED, RunState.RUNNING)
ACTIVE = (JobState.STARTING, JobState.RUNNING)
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)  # sorts after every profile


@dataclass(frozen=True, slots=True)
class ApplicationRow:
    """One line of the list.

    Attributes
    ----------
    error : last measured over predicted, less 1; None = never compared
    behind : revisions in force since its profile was drawn
    """

    application: Application
    running: int
    jobs: int
    profile: Profile | None
    known: Known | None
    error: float | None
    is_drifted: bool
    is_profiling: bool
    behind: int

    @property
    def kind(self) -> str:
        """Its kind in words."""
        return KINDS.get(self.application.kind, self.application.kind)

    @property
    def error_text(self) -> str:
        """The last error, e.g. "+3.2 %"."""
        return f"{words.signed(100 * (self.error or 0.0), 1)} %"

    @property
    def flags_text(self) -> str:
        """Why its estimates are degraded."""
        flags = [] if self.profile is None else self.profile.flags
        return " ".join(flag(code).why for code in flags)

    @property
    def jobs_text(self) -> str:
        """All its jobs; counted to a limit, so that the list stays quick."""
        return f"{JOBS_COUNTED:,}+" if self.jobs > JOBS_COUNTED else f"{self.jobs:,}"


def applications_page(
    seen: QuerySet[Job], query: ApplicationQuery, *, cursor: str | None, limit: int = PAGE_ROWS
) -> Page[Application]:
    """Return one page of the applications that match; their jobs are counted as far as seen."""
    columns, descending = SORTS[query.sort]
    rows = _matching(_annotated(seen), query).select_related("drift")
    order = Order(columns=columns, descending=descending)
    return keyset_page(rows, order, limit=limit, cursor=cursor or None)


def application_rows(rows: Sequence[Application]) -> list[ApplicationRow]:
    """Return the lines of a page; two statements."""
    ids = [row.id for row in rows]
    profiles = {
        profile.application_id: profile
        for profile in Profile.objects.filter(application_id__in=ids, is_current=True)
    }
    current = current_number() or 0
    return [_row(row, profiles.get(row.id), current) for row in rows]


def _row(row: Any, profile: Profile | None, current: int) -> ApplicationRow:
    """Return one line; ``row`` is an application with the annotations of `_annotated`."""
    return ApplicationRow(
        application=row,
        running=row.running,
        jobs=row.jobs_total,
        profile=profile,
        known=None if profile is None else known_in(read_cells(profile.cells)),
        error=row.last_error,
        is_drifted=row.is_drifted,
        is_profiling=row.is_profiling,
        behind=0 if profile is None else current - profile.revision,
    )


def _annotated(seen: QuerySet[Job]) -> QuerySet[Application]:
    jobs = seen.filter(application=OuterRef("pk")).order_by()
    profile = Profile.objects.filter(application=OuterRef("pk"), is_current=True)
    latest = PredictionError.objects.filter(application=OuterRef("pk")).order_by("-cluster_s")
    error = F("measured") / NullIf(F("predicted"), Value(0.0)) - Value(1.0)
    open_runs = ProfilingRun.objects.filter(application=OuterRef("pk"), state__in=OPEN_RUNS)
    return Application.objects.annotate(
        running=_Counted(jobs.filter(state__in=ACTIVE)),
        jobs_total=_Counted(jobs),
        profiled_at=Coalesce(
            Subquery(profile.values("created_at")[:1]),
            Value(LONG_AGO, output_field=DateTimeField()),
            output_field=DateTimeField(),
        ),
        last_error=Subquery(
            latest.annotate(error=error).values("error")[:1], output_field=FloatField(null=True)
        ),
        error_size=Coalesce(Abs(F("last_error")), Value(-1.0)),
        is_drifted=Q(drift__flagged_s__isnull=False),
        is_profiling=Exists(open_runs),
    )


class _Counted(Subquery):
    """How many jobs, at most one more than `JOBS_COUNTED`; 0 for who may see none."""

    template = "(SELECT count(*) FROM (%(subquery)s) AS counted)"
    output_field = IntegerField()

    def __init__(self, jobs: QuerySet[Job]) -> None:
        super().__init__(jobs.values("pk")[: JOBS_COUNTED + 1])

    def as_sql(self, *args: Any, **kwargs: Any) -> tuple[str, Any]:
        """Return the statement; Django leaves out one that cannot find anything."""
        try:
            return super().as_sql(*args, **kwargs)
        except EmptyResultSet:
            return "0", ()


def _matching(rows: QuerySet[Application], query: ApplicationQuery) -> QuerySet[Application]:
    if query.text:
        rows = rows.filter(name__icontains=query.text)
    if query.kind:
        rows = rows.filter(kind=query.kind)
    return rows.filter(CONDITIONS[query.standing]) if query.standing else rows


_PROFILED = Exists(Profile.objects.filter(application=OuterRef("pk"), is_current=True))
_DEGRADED = Exists(
    Profile.objects.filter(application=OuterRef("pk"), is_current=True).exclude(flags=[])
)
CONDITIONS = {
    "drifted": Q(drift__flagged_s__isnull=False),
    "unprofiled": ~Q(_PROFILED),
    "degraded": Q(_DEGRADED),
}


@dataclass(frozen=True, slots=True)
class Choice:
    """One value to filter by: how many applications have it."""

    key: str
    value: str
    name: str
    count: int
    current: bool


@dataclass(frozen=True, slots=True)
class Totals:
    """All applications, by how they stand."""

    all: int
    profiled: int
    drifted: int
    degraded: int
    kinds: tuple[Choice, ...]
    standing: tuple[Choice, ...]


def totals(query: ApplicationQuery) -> Totals:
    """Return counts over all applications; one statement."""
    kinds = {kind: Count("id", filter=Q(kind=kind)) for kind in KINDS}
    found = Application.objects.aggregate(
        all=Count("id"),
        **{name: Count("id", filter=condition) for name, condition in CONDITIONS.items()},
        **kinds,
    )
    standings = [name for name in STANDINGS if found[name] or name == query.standing]
    return Totals(
        all=found["all"],
        profiled=found["all"] - found["unprofiled"],
        drifted=found["drifted"],
        degraded=found["degraded"],
        kinds=tuple(
            Choice("kind", kind, name, found[kind], kind == query.kind)
            for kind, name in KINDS.items()
            if found[kind]
        ),
        standing=tuple(
            Choice("standing", name, STANDINGS[name], found[name], name == query.standing)
            for name in standings
        ),
    )


def search(text: str, *, most: int = 4) -> Sequence[Application]:
    """Applications whose name holds the text."""
    return list(Application.objects.filter(name__icontains=text).order_by("name")[:most])
