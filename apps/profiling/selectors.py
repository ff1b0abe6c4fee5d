"""Reads of profiling: what to measure on and in which order, runs, and what was measured."""

from collections.abc import Collection, Sequence
from uuid import UUID

from django.db.models import Count, Q, QuerySet

from apps.inventory.models import Platform, ServerState
from apps.operations.core.states import OperationStatus
from apps.profiling.core.plan import PlatformShape
from apps.profiling.core.plan import Ranking as Order
from apps.profiling.models import OPEN_STATES, Measurement, ProfilingRun, Ranking, RunState

UNWANTED = Q(operation__cancel_requested=True) | Q(operation__status=OperationStatus.CANCELLED)


def platform_shapes() -> list[PlatformShape]:
    """Platforms, highest-end first, with their servers that are not down.

    The highest-end one is always there, as every measurement is compared to it; the others only
    where they have servers.
    """
    alive = Count("servers", filter=~Q(servers__state=ServerState.DOWN))
    rows = Platform.objects.annotate(alive=alive).order_by("rank")
    return [
        PlatformShape(row.name, row.alive, row.cores)
        for i, row in enumerate(rows)
        if i == 0 or row.alive
    ]


def measurements_of(application_id: UUID) -> Sequence[Measurement]:
    """Every cell measured of an application, oldest first."""
    return list(Measurement.objects.filter(application_id=application_id).order_by("id"))


def ranking() -> Order:
    """Columns of each matrix, the most informative first; empty where nobody has ranked them."""
    found = Ranking.objects.first()
    return found.order if found else {}


def runs() -> QuerySet[ProfilingRun]:
    """All runs, with their application and operation."""
    return ProfilingRun.objects.select_related("application", "operation")


def open_run(application_id: UUID) -> ProfilingRun | None:
    """Find the run of an application that has not ended."""
    return runs().filter(application_id=application_id, state__in=OPEN_STATES).first()


def runs_to_stop(run_ids: Collection[UUID]) -> list[UUID]:
    """Those of the runs a backend is doing that are over here, or that somebody cancelled."""
    if not run_ids:
        return []
    doing = ProfilingRun.objects.filter(id__in=run_ids)
    found = doing.filter(UNWANTED | ~Q(state=RunState.RUNNING))
    return list(found.order_by("id").values_list("id", flat=True))
