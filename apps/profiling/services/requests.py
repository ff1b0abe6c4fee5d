"""Requests for profiling runs, and the column ranking that their plans follow.

Every service that opens or ends a run, or stores a profile, locks the row of the application first
(`lock_applications`), so that a job in profiling always has a run that will end. The rows of the
run, its operation and the jobs follow, and the event log comes last.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

import numpy as np
from django.conf import settings
from django.db import transaction

from apps.common.core.errors import ConflictError
from apps.common.infrastructure.database import database_now
from apps.common.infrastructure.request_id import current_request_id
from apps.inventory.selectors import cluster_now
from apps.operations.models import Operation
from apps.operations.services import operation_created, record_events
from apps.profiling import selectors
from apps.profiling.core.plan import ColumnRanking, PlatformShape, plan
from apps.profiling.core.probe import probe_plan
from apps.profiling.models import NO_PROJECT, OPEN_STATES, ProfilingRun, Ranking
from apps.workloads.models import Application
from apps.workloads.selectors import waiting_projects

KIND: Final = "profiling"  # of the operations
UNKNOWN: Final = "the application has no profile yet"


def lock_applications(application_ids: Iterable[UUID]) -> list[Application]:
    """Lock applications in the order of their ids until the transaction ends."""
    rows = Application.objects.select_for_update(no_key=True).filter(id__in=list(application_ids))
    return list(rows.order_by("id"))


def rank_columns(ranking: ColumnRanking) -> None:
    """Store the ranking of columns by information about a new application, for later plans.

    Parameters
    ----------
    ranking : columns of "heterogeneity", "scale_up", "scale_out" and "tolerated", best first
    """
    columns = {matrix: list(ranked) for matrix, ranked in ranking.items()}
    Ranking.objects.update_or_create(id=1, defaults={"order": columns})


def request_runs(application_ids: Iterable[UUID]) -> int:
    """Request a profiling run of each application without an open one; returns their number.

    Runs in the caller's transaction. Records no event: the first is recorded when a backend
    claims the run.

    Raises
    ------
    ValueError : the cluster has no servers.
    """
    applications = lock_applications(application_ids)
    is_open = set(
        ProfilingRun.objects.filter(
            application__in=applications, state__in=OPEN_STATES
        ).values_list("application_id", flat=True)
    )
    new = [application for application in applications if application.id not in is_open]
    waiting = waiting_projects([application.id for application in new])
    return len(_create_runs(new, _Request(UNKNOWN, None, waiting)))


def request_probes(application_ids: Iterable[UUID]) -> set[UUID]:
    """Request a run of each application of commands that had none, or whose last was cancelled.

    Returns the applications whose jobs wait for an open run. Runs in the caller's transaction, and
    records no event. An application whose run has failed is not measured again, and one whose run
    a user cancelled not before the pause has ended.
    """
    applications, now = lock_applications(application_ids), database_now()
    last = {
        run.application_id: run
        for run in ProfilingRun.objects.filter(application__in=applications).order_by("created_at")
    }
    awaited = {a.id for a in applications if selectors.is_awaited(last.get(a.id), now)}
    new = [a for a in applications if selectors.is_due(last.get(a.id), now)]
    waiting = waiting_projects([application.id for application in new])
    now_s = cluster_now()
    runs = [
        ProfilingRun(
            application=application,
            requested_s=now_s,
            seed=0,
            plan=probe_plan(settings.PROBE_STRESSORS),
            reason=UNKNOWN,
            project_id=waiting.get(application.id, NO_PROJECT),
        )
        for application in new
    ]
    for run in runs:
        run.operation = _new_operation(run, None)
    Operation.objects.bulk_create(run.operation for run in runs if run.operation)
    ProfilingRun.objects.bulk_create(runs)
    return awaited


def request_run(
    application_id: UUID,
    *,
    requested_by: UUID | None = None,
    reason: str = "",
    thorough: bool = False,
) -> ProfilingRun:
    """Request a run of one application, even if it has a profile.

    The new measurements are added to the existing ones; the current profile is used until
    then. A ``thorough`` run measures every source. It belongs to no project.

    Raises
    ------
    ConflictError : it is being profiled already, it runs commands, or the cluster has no servers.
    """
    with transaction.atomic():
        (application,) = lock_applications([application_id])
        if application.runs_commands:
            raise ConflictError(
                f"{application.name} runs commands: submit a copyable job, or import a report."
            )
        if (other := selectors.open_run(application_id)) is not None:
            raise ConflictError(
                f"{application.name} is being profiled already: run {other.pk} is {other.state}."
            )
        try:
            request = _Request(reason, requested_by, is_thorough=thorough)
            (run,) = _create_runs([application], request)
        except ValueError as error:
            raise ConflictError(f"{application.name} cannot be profiled now: {error}.") from error
        if run.operation is not None:
            record_events([operation_created(run.operation)])
    return run


@dataclass(frozen=True, slots=True)
class _Request:
    """What the runs of one request share; ``projects`` whose jobs wait, by application."""

    reason: str
    by: UUID | None
    projects: Mapping[UUID, UUID] = field(default_factory=dict)
    is_thorough: bool = False


def _create_runs(applications: Sequence[Application], request: _Request) -> list[ProfilingRun]:
    if not applications:
        return []
    shapes, ranking, now_s = selectors.platform_shapes(), selectors.ranking(), cluster_now()
    runs = [
        _new_run(application, shapes, ranking, now_s, thorough=request.is_thorough)
        for application in applications
    ]
    for run in runs:
        run.reason = request.reason
        run.project_id = request.projects.get(run.application_id, NO_PROJECT)
        run.operation = _new_operation(run, request.by)
    Operation.objects.bulk_create(run.operation for run in runs if run.operation)
    return ProfilingRun.objects.bulk_create(runs)


def _new_run(
    application: Application,
    shapes: Sequence[PlatformShape],
    ranking: ColumnRanking,
    now_s: float,
    *,
    thorough: bool,
) -> ProfilingRun:
    run = ProfilingRun(application=application, requested_s=now_s)
    # seeded by the id, so that another run of the same application draws other columns
    run.seed = run.id.int & (1 << 62) - 1
    rng = np.random.default_rng(run.seed)
    run.plan = plan(application.kind, shapes, rng, ranking=ranking, thorough=thorough)
    return run


def _new_operation(run: ProfilingRun, by: UUID | None) -> Operation:
    return Operation(
        kind=KIND,
        total=_steps(run.plan),
        message=f"{run.application.name} waits for a backend",
        arguments={"application": run.application.name, "run": str(run.pk)},
        created_by_id=by,
        request_id=current_request_id(),
    )


def _steps(plan_json: Mapping[str, Any]) -> int:
    if not plan_json["runs"]:
        return len(plan_json["stressors"])
    return len(plan_json["runs"]) + len(plan_json["runs"][0]["sources"])
