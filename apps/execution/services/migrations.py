"""Requests for migrations of parts of running jobs, and their cancellation.

The target units are reserved with the request; the source units stay allocated until the backend
reports that the migration is complete (`migration_reports`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple
from uuid import UUID

from django.db import transaction

from apps.common.infrastructure.database import fetch_rows
from apps.execution.core.migration import (
    MigrationOutcome,
    MigrationReport,
    lost_s,
    migration_s,
    restart_s,
)
from apps.execution.models import Launch, LaunchState, Migration
from apps.execution.services.locks import lock_launches_of, lock_migrations
from apps.execution.services.migration_reports import OPEN, migration_event, record_locked_reports
from apps.execution.services.restarts import stop_to_restart
from apps.inventory.core.backends import Capability, Move, backends_with, move_of
from apps.inventory.models import Server
from apps.inventory.selectors import cluster_now
from apps.operations.services import record_events
from apps.scheduling import services as scheduling
from apps.workloads.core.lifecycle import JobState
from apps.workloads.models import Job

_MOVABLE: Final = backends_with(Capability.MOVE_LIVE) | backends_with(Capability.MOVE_RESTART)


@dataclass(frozen=True, slots=True)
class MigrationRequest:
    """Migration of one whole allocation of a running job to another server.

    Attributes
    ----------
    reason : code of the reason, at most 40 characters
    """

    job_id: UUID
    allocation_id: int
    to_server_id: int
    reason: str


class MigrationRefusal(StrEnum):
    """Reason for refusing a migration."""

    JOB_NOT_RUNNING = "job_not_running"
    ALLOCATION_NOT_HELD = "allocation_not_held"
    JOB_IS_MOVING = "job_is_moving"
    SAME_SERVER = "same_server"
    SERVER_CLOSED = "server_closed"
    OTHER_BACKEND = "other_backend"
    SEVERAL_SERVERS = "several_servers"
    UNITS_SHORT = "units_short"
    CAPACITY_SHORT = "capacity_short"


MEANINGS: Final = {
    MigrationRefusal.JOB_NOT_RUNNING: (
        "the job is not running, is being stopped, or its backend cannot migrate it"
    ),
    MigrationRefusal.ALLOCATION_NOT_HELD: "the job does not hold this allocation",
    MigrationRefusal.JOB_IS_MOVING: "another part of the job is migrating",
    MigrationRefusal.SAME_SERVER: "the allocation is already on this server",
    MigrationRefusal.SERVER_CLOSED: "the server was removed, or accepts no new work",
    MigrationRefusal.OTHER_BACKEND: "the server belongs to another backend",
    MigrationRefusal.SEVERAL_SERVERS: (
        "the job runs on several servers, and its backend can only restart it as a whole"
    ),
    MigrationRefusal.UNITS_SHORT: "the server has too few free units",
    MigrationRefusal.CAPACITY_SHORT: "the server has too little free memory, network or storage",
}


@dataclass(frozen=True, slots=True)
class AcceptedMigration:
    """A request that became a migration.

    Attributes
    ----------
    predicted_s : cluster seconds: the pause, or the delay of a restart with the work lost
    """

    request: MigrationRequest
    migration_id: int
    predicted_s: float


@dataclass(frozen=True, slots=True)
class RefusedMigration:
    """A request that was refused."""

    request: MigrationRequest
    reason_code: MigrationRefusal
    message: str


class _EndServer(NamedTuple):
    """A server that a migration leaves or reaches."""

    backend: str
    network_bps: int


class _MigratingAllocation(NamedTuple):
    """The allocation to migrate."""

    job: UUID
    server: int
    units: int
    memory_bytes: int
    backend: str
    parts: int  # allocations on which the job runs


def request_migrations(
    requests: Sequence[MigrationRequest],
) -> list[AcceptedMigration | RefusedMigration]:
    """Reserve units for migrations and request them; at most one part of a job migrates at a time.

    Earlier requests win. The caller checks the jobs' constraints (platforms, labels, locality).
    Costs a dozen statements for any number of requests.

    Returns
    -------
    One outcome per request, in order.
    """
    with transaction.atomic():
        jobs = _lock_running(request.job_id for request in requests)
        sources = _sources(request.allocation_id for request in requests)
        servers = _servers(requests, sources)
        outcomes = _reserve(requests, jobs, sources, servers)
        reserved = [
            (request, outcome)
            for request, outcome in zip(requests, outcomes, strict=True)
            if not isinstance(outcome, MigrationRefusal)
        ]
        created = {x.target_allocation_id: x for x in _create(reserved, jobs, sources, servers)}
    return [
        RefusedMigration(request, outcome, MEANINGS[outcome])
        if isinstance(outcome, MigrationRefusal)
        else AcceptedMigration(request, created[outcome].id, created[outcome].predicted_s)
        for request, outcome in zip(requests, outcomes, strict=True)
    ]


def _lock_running(job_ids: Iterable[UUID]) -> dict[UUID, Job]:
    """Lock the jobs that run and are not being stopped, and their launches."""
    ids = set(job_ids)
    lock_launches_of(ids)
    running = Job.objects.select_for_update(of=("self",), no_key=True).filter(
        id__in=ids, state=JobState.RUNNING, cancel_requested=False,
        launches__state=LaunchState.RUNNING, launches__cancel_requested=False,
        launches__backend__in=_MOVABLE,
    )  # fmt: skip
    return {job.id: job for job in running.order_by("id")}


def _sources(allocation_ids: Iterable[int]) -> dict[int, _MigratingAllocation]:
    """Read the live allocations on which jobs run; reserved ones are left out."""
    rows = fetch_rows(
        """SELECT a.id, a.job_id, a.server_id, a.cores, a.memory_bytes, s.backend,
                  (SELECT count(*) FROM scheduling_allocation o
                   WHERE o.job_id = a.job_id AND o.released_seq IS NULL)
           FROM scheduling_allocation a JOIN inventory_server s ON s.id = a.server_id
           WHERE a.id = ANY(%s) AND a.released_seq IS NULL
             AND (a.moved_from IS NULL OR a.moved_s IS NOT NULL)""",
        [sorted(set(allocation_ids))],
    )
    return {key: _MigratingAllocation(*values) for key, *values in rows}


def _migrating(job_ids: Iterable[UUID]) -> set[UUID]:
    rows = fetch_rows(
        """SELECT job_id FROM execution_migration
           WHERE job_id = ANY(%s) AND state IN ('requested', 'running')""",
        [list(job_ids)],
    )
    return {job for (job,) in rows}


def _servers(
    requests: Iterable[MigrationRequest], sources: Mapping[int, _MigratingAllocation]
) -> dict[int, _EndServer]:
    """Read the servers that migrations may leave or reach, by id."""
    ids = {source.server for source in sources.values()}
    ids.update(request.to_server_id for request in requests)
    rows = Server.objects.filter(id__in=ids).values_list("id", "backend", "network_bps")
    return {key: _EndServer(backend, network_bps) for key, backend, network_bps in rows}


def _reserve(
    requests: Sequence[MigrationRequest],
    jobs: Collection[UUID],
    sources: Mapping[int, _MigratingAllocation],
    servers: Mapping[int, _EndServer],
) -> list[int | MigrationRefusal]:
    """Reserve the target units; the id of the new allocation, or the refusal, per request."""
    migrating = _migrating(request.job_id for request in requests)
    refusals = list[MigrationRefusal | None]()
    for request in requests:
        source = sources.get(request.allocation_id)
        refusals.append(_refusal(request, jobs, source, migrating))
        if refusals[-1] is None and source is not None:
            refusals[-1] = _misfit(source, servers.get(request.to_server_id))
        if refusals[-1] is None:
            migrating.add(request.job_id)
    reservations = [
        scheduling.ReservationRequest(request.allocation_id, request.to_server_id)
        for request, refusal in zip(requests, refusals, strict=True)
        if refusal is None
    ]
    outcomes = iter(scheduling.reserve_units(reservations) if reservations else ())
    return [_outcome(next(outcomes)) if refusal is None else refusal for refusal in refusals]


def _refusal(
    request: MigrationRequest,
    jobs: Collection[UUID],
    source: _MigratingAllocation | None,
    migrating: Collection[UUID],
) -> MigrationRefusal | None:
    if request.job_id in migrating:  # a job that restarts elsewhere is being stopped, too
        return MigrationRefusal.JOB_IS_MOVING
    if request.job_id not in jobs:
        return MigrationRefusal.JOB_NOT_RUNNING
    if source is None or source.job != request.job_id:
        return MigrationRefusal.ALLOCATION_NOT_HELD
    return MigrationRefusal.SAME_SERVER if source.server == request.to_server_id else None


def _misfit(source: _MigratingAllocation, target: _EndServer | None) -> MigrationRefusal | None:
    """Return why the backend cannot migrate the allocation; ``target`` None: no such server."""
    if target is not None and target.backend != source.backend:
        return MigrationRefusal.OTHER_BACKEND
    is_whole = move_of(source.backend) is Move.LIVE or source.parts == 1
    return None if is_whole else MigrationRefusal.SEVERAL_SERVERS


def _outcome(reserved: int | scheduling.ReservationFailure) -> int | MigrationRefusal:
    if isinstance(reserved, scheduling.ReservationFailure):
        return MigrationRefusal(reserved.value)
    return reserved


def _create(
    reserved: Sequence[tuple[MigrationRequest, int]],
    jobs: Mapping[UUID, Job],
    sources: Mapping[int, _MigratingAllocation],
    servers: Mapping[int, _EndServer],
) -> list[Migration]:
    """Create the migrations whose units are reserved."""
    ids = [request.job_id for request, _ in reserved]
    launches = dict(
        Launch.objects.filter(job__in=ids, state=LaunchState.RUNNING).values_list("job_id", "id")
    )
    origins = [sources[request.allocation_id] for request, _ in reserved]
    now_s = cluster_now()
    created = Migration.objects.bulk_create(
        Migration(
            job=jobs[request.job_id],
            launch_id=launches[request.job_id],
            source_allocation_id=request.allocation_id,
            target_allocation_id=target,
            from_server_id=origin.server,
            to_server_id=request.to_server_id,
            units=origin.units,
            predicted_s=_predicted_s(
                jobs[request.job_id],
                origin,
                (servers[origin.server].network_bps, servers[request.to_server_id].network_bps),
                now_s,
            ),
            requested_s=now_s,
            reason_code=request.reason,
        )
        for (request, target), origin in zip(reserved, origins, strict=True)
    )
    stop_to_restart(
        [
            migration
            for migration, origin in zip(created, origins, strict=True)
            if move_of(origin.backend) is Move.RESTART
        ],
        at_s=now_s,
    )
    record_events([migration_event("job.moving", migration) for migration in created])
    return created


def _predicted_s(
    job: Job, origin: _MigratingAllocation, network_bps: tuple[int, int], now_s: float
) -> float:
    if move_of(origin.backend) is Move.RESTART:
        begun_s = job.started_s or now_s
        return restart_s(lost_s(now_s, begun_s, job.suspended_for_s, job.suspended_s))
    return migration_s(origin.memory_bytes, *network_bps)


def cancel_migrations(migration_ids: Sequence[int]) -> set[int]:
    """Cancel migrations that no backend has claimed; returns their ids.

    A claimed migration continues, but is not restarted if its backend dies.
    """
    with transaction.atomic():
        lock_migrations(migration_ids)
        unclaimed = Migration.objects.filter(
            id__in=migration_ids, state="requested", claimed_by=""
        )
        ids = set(unclaimed.values_list("id", flat=True))
        now_s, message = cluster_now(), "cancelled before it started"
        record_locked_reports(
            [MigrationReport(i, now_s, MigrationOutcome.CANCELLED, message) for i in sorted(ids)]
        )
        claimed = Migration.objects.filter(id__in=migration_ids, state__in=OPEN)
        claimed.update(cancel_requested=True)
    return ids
