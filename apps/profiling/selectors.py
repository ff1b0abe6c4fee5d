"""Reads of profiling: platforms, column ranking, runs and measurements."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db.models import Count, Q, QuerySet

from apps.accounts.core.principal import Principal
from apps.common.infrastructure.database import fetch_rows
from apps.inventory.core.backends import CAPABILITIES, Capability, backends_with
from apps.inventory.models import Platform, ServerState
from apps.operations.core.states import OperationStatus
from apps.profiling.core.plan import ColumnRanking, PlatformShape
from apps.profiling.models import (
    NO_PROJECT,
    OPEN_STATES,
    Measurement,
    ProfilingRun,
    Ranking,
    RunState,
)

CANCELLED = Q(operation__cancel_requested=True) | Q(operation__status=OperationStatus.CANCELLED)
NOT_PROFILED: Final = "The command could not be profiled."  # to callers outside of its project


def platform_shapes() -> list[PlatformShape]:
    """Platforms to profile on, highest-end first, with the number of servers that are not down.

    The highest-end platform is always included, as every measurement is relative to it; others
    are included only if they have such servers.
    """
    alive = Count("servers", filter=~Q(servers__state=ServerState.DOWN))
    others = CAPABILITIES.keys() - backends_with(Capability.PROBE)
    platforms = Platform.objects.exclude(servers__backend__in=others)
    rows = platforms.annotate(alive=alive).order_by("rank")
    return [
        PlatformShape(row.name, row.alive, row.cores)
        for i, row in enumerate(rows)
        if i == 0 or row.alive
    ]


def measurements_of(application_id: UUID) -> Sequence[Measurement]:
    """All measurements of an application, oldest first."""
    return list(Measurement.objects.filter(application_id=application_id).order_by("id"))


def ranking() -> ColumnRanking:
    """Columns of each matrix, the most informative first; empty before the first ranking."""
    row = Ranking.objects.first()
    return row.order if row else {}


def runs() -> QuerySet[ProfilingRun]:
    """All runs, with their application and operation."""
    return ProfilingRun.objects.select_related("application", "operation")


def may_see_texts(principal: Principal, run: ProfilingRun) -> bool:
    """Return whether a caller may see the texts and the operation of a run.

    Those of a run for a job of a project may name the command and quote its output.
    """
    return run.project_id == NO_PROJECT or principal.sees(run.project_id)


def message_to_others(run: ProfilingRun) -> str:
    """Return the message of a run to a caller who may not see its texts."""
    return NOT_PROFILED if run.state == RunState.FAILED else ""


def open_run(application_id: UUID) -> ProfilingRun | None:
    """Return the queued or running run of an application, if any."""
    return runs().filter(application_id=application_id, state__in=OPEN_STATES).first()


def is_awaited(run: ProfilingRun | None, now: datetime) -> bool:
    """Return whether jobs of a command wait for its newest run, or for one that they request."""
    return is_due(run, now) or (run is not None and run.state in OPEN_STATES and run.is_awaited)


def is_due(run: ProfilingRun | None, now: datetime) -> bool:
    """Return whether the next job that permits copies requests a run of its command.

    Parameters
    ----------
    run : the newest one; None = there is none
    """
    if run is None:
        return True
    is_paused = run.paused_until is not None and now < run.paused_until
    return run.state == RunState.CANCELLED and not is_paused


def newest_run(application: str) -> ProfilingRun | None:
    """Return the newest run of an application by name."""
    of = ProfilingRun.objects.filter(application__name=application)
    return of.order_by("-created_at").first()


def runs_to_stop(run_ids: Collection[UUID]) -> list[UUID]:
    """Ids of the given runs that have been cancelled or have ended, in order."""
    if not run_ids:
        return []
    claimed = ProfilingRun.objects.filter(id__in=run_ids)
    stopped = claimed.filter(CANCELLED | ~Q(state=RunState.RUNNING))
    return list(stopped.order_by("id").values_list("id", flat=True))


def has_open_runs() -> bool:
    """Return True if any profiling run is queued or running."""
    rows = fetch_rows(
        "SELECT EXISTS (SELECT FROM profiling_profilingrun WHERE state IN ('queued', 'running'))"
    )
    return bool(rows[0][0])
