"""Data of the Applications list."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

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
    Sum,
    Value,
)
from django.db.models.functions import Abs, Coalesce, NullIf

from apps.classification.models import PredictionError, Profile
from apps.classification.selectors import current_number
from apps.common.api.paging import Order
from apps.dashboard.core import formats
from apps.dashboard.core.application_query import KINDS, SORTS, STANDINGS, ApplicationQuery
from apps.dashboard.core.profile_cells import KnownCells, count_known, read_cells
from apps.dashboard.core.profile_text import flag
from apps.dashboard.selectors.lists import ListPage, list_page
from apps.profiling.models import ProfilingRun, RunState
from apps.workloads.core.lifecycle import JobState
from apps.workloads.models import Application, JobCount, JobCountChange

PAGE_ROWS = 50
OPEN_RUNS = (RunState.QUEUED, RunState.RUNNING)
ACTIVE = (JobState.STARTING, JobState.RUNNING)
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)  # sorts after every profile


@dataclass(frozen=True, slots=True)
class ApplicationRow:
    """One row of the list.

    Attributes
    ----------
    error : latest measured over predicted performance, minus 1; None = never compared
    behind : revisions trained since its profile was inferred
    """

    application: Application
    running: int
    jobs: int
    profile: Profile | None
    known: KnownCells | None
    error: float | None
    is_drifted: bool
    is_profiling: bool
    behind: int

    @property
    def kind(self) -> str:
        """Display name of its kind."""
        return KINDS.get(self.application.kind, self.application.kind)

    @property
    def error_text(self) -> str:
        """The last error, e.g. "+3.2 %"."""
        return f"{formats.signed(100 * (self.error or 0.0), 1)} %"

    @property
    def flags_text(self) -> str:
        """Reasons why its estimates are degraded."""
        flags = [] if self.profile is None else self.profile.flags
        return " ".join(flag(code).why for code in flags)


def applications_page(
    projects: Sequence[UUID] | None,
    query: ApplicationQuery,
    *,
    cursor: str | None,
    limit: int = PAGE_ROWS,
) -> ListPage[Application]:
    """Return one page of the matching applications.

    Parameters
    ----------
    projects : those whose jobs are counted; None = all
    """
    columns, descending = SORTS[query.sort]
    rows = _matching(_annotated(projects), query).select_related("drift")
    order = Order(columns=columns, descending=descending)
    return list_page(rows, order, limit=limit, cursor=cursor)


def application_rows(rows: Sequence[Application]) -> list[ApplicationRow]:
    """Return the rows of a page; two statements."""
    ids = [row.id for row in rows]
    profiles = {
        profile.application_id: profile
        for profile in Profile.objects.filter(application_id__in=ids, is_current=True)
    }
    current = current_number() or 0
    return [_application_row(row, profiles.get(row.id), current) for row in rows]


def _application_row(row: Any, profile: Profile | None, current: int) -> ApplicationRow:
    """Return one row; ``row`` is an application with the annotations of `_annotated`."""
    return ApplicationRow(
        application=row,
        running=row.running,
        jobs=row.jobs_total,
        profile=profile,
        known=None if profile is None else count_known(read_cells(profile.cells)),
        error=row.last_error,
        is_drifted=row.is_drifted,
        is_profiling=row.is_profiling,
        behind=0 if profile is None else current - profile.revision,
    )


def _annotated(projects: Sequence[UUID] | None) -> QuerySet[Application]:
    profile = Profile.objects.filter(application=OuterRef("pk"), is_current=True)
    latest = PredictionError.objects.filter(application=OuterRef("pk")).order_by("-cluster_s")
    error = F("measured") / NullIf(F("predicted"), Value(0.0)) - Value(1.0)
    open_runs = ProfilingRun.objects.filter(application=OuterRef("pk"), state__in=OPEN_RUNS)
    return Application.objects.annotate(
        running=_counted(projects, ACTIVE),
        jobs_total=_counted(projects),
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


def _counted(projects: Sequence[UUID] | None, states: Sequence[str] = ()) -> Any:
    """Return the exact number of jobs of an application, from the counters."""

    def total(rows: QuerySet[Any], column: str) -> Any:
        of_application = rows.filter(application_id=OuterRef("pk"))
        if projects is not None:
            of_application = of_application.filter(project_id__in=projects)
        if states:
            of_application = of_application.filter(state__in=states)
        summed = of_application.order_by().values("application_id").annotate(n=Sum(column))
        return Coalesce(Subquery(summed.values("n"), output_field=IntegerField()), 0)

    return total(JobCount.objects.all(), "jobs") + total(JobCountChange.objects.all(), "change")


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
class FilterChoice:
    """One filter value and the number of applications that have it."""

    key: str
    value: str
    name: str
    count: int
    current: bool


@dataclass(frozen=True, slots=True)
class ApplicationTotals:
    """Number of applications by status."""

    all: int
    profiled: int
    drifted: int
    degraded: int
    kinds: tuple[FilterChoice, ...]
    standing: tuple[FilterChoice, ...]


def totals(query: ApplicationQuery) -> ApplicationTotals:
    """Return counts over all applications; one statement."""
    kinds = {kind: Count("id", filter=Q(kind=kind)) for kind in KINDS}
    counts = Application.objects.aggregate(
        all=Count("id"),
        **{name: Count("id", filter=condition) for name, condition in CONDITIONS.items()},
        **kinds,
    )
    standings = [name for name in STANDINGS if counts[name] or name == query.standing]
    return ApplicationTotals(
        all=counts["all"],
        profiled=counts["all"] - counts["unprofiled"],
        drifted=counts["drifted"],
        degraded=counts["degraded"],
        kinds=tuple(
            FilterChoice("kind", kind, name, counts[kind], kind == query.kind)
            for kind, name in KINDS.items()
            if counts[kind]
        ),
        standing=tuple(
            FilterChoice("standing", name, STANDINGS[name], counts[name], name == query.standing)
            for name in standings
        ),
    )


def search(text: str, *, limit: int = 4) -> Sequence[Application]:
    """Return applications whose name contains the text."""
    return list(Application.objects.filter(name__icontains=text).order_by("name")[:limit])


def names_starting_with(prefix: str, *, limit: int = 200) -> list[str]:
    """Return names of applications."""
    rows = Application.objects.filter(name__startswith=prefix).order_by("name")
    return list(rows.values_list("name", flat=True)[:limit])
