"""Reads of plans, of the capacity their migrations need, and of recent migrations."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.db.models import Count, Max, Q, QuerySet

from apps.common.core.errors import NotFoundError
from apps.execution.core.migration import STOP_S, lost_s
from apps.execution.models import Migration, MigrationState
from apps.inventory.core.backends import Move, move_of
from apps.inventory.models import Server, ServerState
from apps.inventory.selectors import cluster_now, server_names
from apps.operations.models import Event
from apps.placement.core.rebalancing import changes
from apps.placement.core.rebalancing.executor import PendingMigration, Resources
from apps.placement.core.rebalancing.lifecycle import PlanState
from apps.placement.models import (
    Plan,
    PlanCause,
    PlannedMigration,
    PlannedMigrationState,
    RebalancingLoop,
)
from apps.scheduling.models import Allocation
from apps.scheduling.selectors import IN_USE
from apps.workloads.core.lifecycle import JobState
from apps.workloads.models import Job

HOUR_S: Final = 3600.0
# begins the message of a migration that was left out before its plan began; stored in rows
LEFT_OUT_PREFIX: Final = "left out"
DROPPED_PREFIX: Final = "dropped"  # when the plan was re-based
TICK_EVENT: Final = "loop.looked"
LOOP_SUBJECT: Final = "placement-loop"
UNFINISHED_STATES: Final = (PlannedMigrationState.WAITING, PlannedMigrationState.MOVING)
_OPEN_MIGRATION: Final = (MigrationState.REQUESTED, MigrationState.RUNNING)


# ---- rows ----


def loop_settings() -> RebalancingLoop:
    """Return the settings of the loop; the row is created on first use."""
    row, _ = RebalancingLoop.objects.get_or_create(id=1)
    return row


def lock_loop_settings() -> RebalancingLoop:
    """Lock the row of the loop; the lock serialises the creation of plans."""
    loop_settings()
    return RebalancingLoop.objects.select_for_update().get(pk=1)


def last_tick_event() -> Event | None:
    """Return the event of the last tick with a new finding; None if there is none any more."""
    rows = Event.objects.filter(subject=LOOP_SUBJECT, kind=TICK_EVENT)
    return rows.order_by("-seq").first()


def plans() -> QuerySet[Plan]:
    """Return all plans, annotated with the number of their migrations by state.

    ``migrations_left_out`` counts the skipped ones that were left out, or dropped by a re-base,
    before the plan began.
    """
    counts = {
        f"migrations_{state.value}": Count("migrations", filter=Q(migrations__state=state))
        for state in PlannedMigrationState
    }
    left_out = Q(migrations__message__startswith=LEFT_OUT_PREFIX)
    dropped = Q(migrations__message__startswith=DROPPED_PREFIX)
    is_skipped = Q(migrations__state=PlannedMigrationState.SKIPPED)
    counts["migrations_left_out"] = Count("migrations", filter=is_skipped & (left_out | dropped))
    rows = Plan.objects.select_related("created_by", "approved_by", "preference_set", "reverses")
    return rows.annotate(**counts)


def is_left_out(migration: PlannedMigration) -> bool:
    """Whether a migration was left out or dropped before its plan began, not skipped later."""
    is_skipped = migration.state == PlannedMigrationState.SKIPPED
    return is_skipped and migration.message.startswith((LEFT_OUT_PREFIX, DROPPED_PREFIX))


def is_dropped(migration: PlannedMigration) -> bool:
    """Whether a re-base dropped a migration; it cannot be included again."""
    is_skipped = migration.state == PlannedMigrationState.SKIPPED
    return is_skipped and migration.message.startswith(DROPPED_PREFIX)


def plan_by_key(key: str | UUID) -> Plan:
    """Return a plan by id or name (p-0012).

    Raises
    ------
    NotFoundError : there is no such plan.
    """
    text = str(key)
    number = text.removeprefix("p-")
    plan = None
    if text.startswith("p-") and number.isdecimal():
        plan = plans().filter(number=int(number)).first()
    else:
        try:
            plan = plans().filter(pk=UUID(text)).first()
        except ValueError:
            plan = None
    if plan is None:
        raise NotFoundError(f"There is no plan {key}.")
    return plan


def migrations_of(plan_id: UUID) -> QuerySet[PlannedMigration]:
    """Return the migrations of a plan in order, with their jobs."""
    rows = PlannedMigration.objects.filter(plan_id=plan_id)
    return rows.select_related("job").order_by("ordinal")


def difference(plan: Plan) -> str:
    """Return what changed in a plan since it was proposed; "" if it was never re-based."""
    if plan.rebased_at is None:
        return ""
    return changes.difference(plan.proposed, plan.predicted, plan.changes)


def last_ordinal(plan_id: UUID) -> int:
    """Return the highest ordinal of a plan's migrations; -1 for none."""
    rows = PlannedMigration.objects.filter(plan_id=plan_id)
    last: int | None = rows.aggregate(last=Max("ordinal"))["last"]
    return -1 if last is None else last


def proposed_count() -> int:
    """Count the plans that await approval."""
    return Plan.objects.filter(state=PlanState.PROPOSED).count()


def unfinished_plans() -> QuerySet[Plan]:
    """Return the plans that have begun and not ended.

    A cancelled plan ends when the migrations it had started have ended.
    """
    return Plan.objects.filter(began_s__isnull=False, ended_s__isnull=True)


def has_open_plan() -> bool:
    """Whether a plan awaits approval, is approved, or has begun and not ended."""
    return open_plan() is not None


def open_plan() -> Plan | None:
    """Return the oldest plan that awaits approval, is approved, or has begun and not ended."""
    has_not_begun = Q(state__in=[PlanState.PROPOSED, PlanState.APPROVED])
    is_unfinished = Q(began_s__isnull=False, ended_s__isnull=True)
    return Plan.objects.filter(has_not_begun | is_unfinished).order_by("number").first()


# ---- capacity ----


def unfinished_migrations(migrations: Iterable[PlannedMigration]) -> list[PlannedMigration]:
    """Return the migrations that have not ended, in order."""
    in_order = sorted(migrations, key=lambda migration: migration.ordinal)
    return [migration for migration in in_order if migration.state in UNFINISHED_STATES]


def free_capacities(migrations: Iterable[PlannedMigration]) -> dict[int, Resources]:
    """Return the free capacity of the source and target servers that are active, by server id."""
    ids = {pk for m in migrations for pk in (m.from_server_id, m.to_server_id)}
    return {
        server.pk: Resources(
            server.cores - server.used_cores,
            server.memory_bytes * server.oversubscription - server.used_memory_bytes,
            server.network_bps * server.oversubscription - server.used_network_bps,
            server.storage_bytes * server.oversubscription - server.used_storage_bytes,
        )
        for server in Server.objects.filter(pk__in=ids, state=ServerState.ACTIVE)
    }


def capacity_steps(migrations: Sequence[PlannedMigration]) -> list[PendingMigration]:
    """Return the capacity that migrations need on their targets and free on their sources.

    A migration whose allocation was released needs and frees nothing. The rows may be unsaved.
    """
    allocations = Allocation.objects.in_bulk({m.allocation_id for m in migrations})
    jobs = Job.objects.filter(pk__in={m.job_id for m in migrations}).values_list(
        "pk", "unit_memory_bytes", "unit_network_bps", "unit_storage_bytes"
    )
    requested = {pk: (memory, network, storage) for pk, memory, network, storage in jobs}
    targets = Server.objects.in_bulk({m.to_server_id for m in migrations})
    return [
        _capacity_step(m, allocations.get(m.allocation_id), requested, targets.get(m.to_server_id))
        for m in migrations
    ]


# per unit: memory, network, storage; 0 = an equal share of the server
_PerUnit = tuple[int, int, int]


def _capacity_step(
    migration: PlannedMigration,
    allocation: Allocation | None,
    requested: dict[UUID, _PerUnit],
    target: Server | None,
) -> PendingMigration:
    frees = Resources(0, 0, 0, 0)
    needs = frees
    if allocation is not None and allocation.released_seq is None:
        frees = Resources(
            allocation.cores,
            allocation.memory_bytes,
            allocation.network_bps,
            allocation.storage_bytes,
        )
        per_unit = requested[migration.job_id]
        needs = frees if target is None else _needed(allocation.cores, per_unit, target)
    return PendingMigration(
        ordinal=migration.ordinal,
        bundle=migration.bundle,
        job=migration.job_id,
        source=migration.from_server_id,
        target=migration.to_server_id,
        needs=needs,
        frees=frees,
        is_moving=migration.state == PlannedMigrationState.MOVING,
    )


def _needed(units: int, per_unit: _PerUnit, target: Server) -> Resources:
    """Return the capacity of units on a server: as requested, else equal shares, as on commit."""
    totals = (target.memory_bytes, target.network_bps, target.storage_bytes)
    each = (r or total // target.cores for r, total in zip(per_unit, totals, strict=True))
    return Resources(units, *(units * amount for amount in each))


def restart_losses(migrations: Iterable[PlannedMigration]) -> dict[int, float]:
    """Return the cluster seconds of work that restarts lose, by id of the planned migration.

    As of now, until the migration begins. Live migrations lose none and are left out. Loads the
    jobs that are not loaded.
    """
    rows = list(migrations)
    backends = dict(
        Server.objects.filter(pk__in={row.from_server_id for row in rows}).values_list(
            "pk", "backend"
        )
    )
    restarts = [
        row for row in rows if move_of(backends.get(row.from_server_id, "")) is Move.RESTART
    ]
    if not restarts:
        return {}
    now_s = cluster_now()
    return {
        row.pk: row.predicted_s - STOP_S
        if row.began_s is not None or row.job.state != JobState.RUNNING
        else lost_s(
            now_s, row.job.started_s or now_s, row.job.suspended_for_s, row.job.suspended_s
        )
        for row in restarts
    }


def stale_migrations(migrations: Iterable[PlannedMigration]) -> list[PlannedMigration]:
    """Return the migrations whose container ended or is no longer in its allocation."""
    listed = list(migrations)
    at_work = set(
        Allocation.objects.filter(
            IN_USE,
            pk__in={migration.allocation_id for migration in listed},
            released_seq__isnull=True,
            job__state="running",
        ).values_list("pk", flat=True)
    )
    return [migration for migration in listed if migration.allocation_id not in at_work]


def migrating_jobs(job_ids: Collection[UUID]) -> set[UUID]:
    """Return the jobs that have an open migration."""
    rows = Migration.objects.filter(job_id__in=job_ids, state__in=_OPEN_MIGRATION)
    return set(rows.values_list("job_id", flat=True))


# ---- recent migrations ----


def started_since(at_s: float) -> int:
    """Count the migrations started after a cluster time, over all plans."""
    return PlannedMigration.objects.filter(began_s__gt=at_s).count()


def plans_per_job(job_ids: Collection[UUID] | None, *, since_s: float) -> dict[UUID, int]:
    """Return the number of plans that migrated each job since a cluster time, without rollbacks.

    Parameters
    ----------
    job_ids : None = every migrated job
    """
    rows = PlannedMigration.objects.filter(began_s__gt=since_s)
    rows = rows.exclude(plan__cause=PlanCause.REVERSE)
    if job_ids is not None:
        rows = rows.filter(job_id__in=job_ids)
    counted = rows.order_by().values("job_id").annotate(plans=Count("plan_id", distinct=True))
    return dict(counted.values_list("job_id", "plans"))


def recently_left_servers(job_ids: Collection[UUID], *, since_s: float) -> dict[int, set[int]]:
    """Return the servers that each container has left since a cluster time, by allocation id."""
    moved = Allocation.objects.filter(job_id__in=job_ids, moved_s__gt=since_s)
    previous = {pk: source for pk, source in moved.values_list("pk", "moved_from") if source}
    sources = Allocation.objects.filter(pk__in=previous.values())
    servers = dict(sources.values_list("pk", "server_id"))
    left: dict[int, set[int]] = defaultdict(set)
    for allocation in previous:
        source = allocation
        while source in previous:
            source = previous[source]
            left[allocation].add(servers[source])
    return dict(left)


@dataclass(frozen=True, slots=True)
class ThrashingReport:
    """Migrations of the last hour, and the jobs that were migrated too often.

    Attributes
    ----------
    often : name, id and number of plans of each job above the limit of plans per job
    returned : job name, job id and server of each container that is back on a server it had left
    """

    moves: int
    jobs: int
    often: tuple[tuple[str, UUID, int], ...]
    returned: tuple[tuple[str, UUID, str], ...]


def thrashing_report(now_s: float, *, allowed: int) -> ThrashingReport:
    """Find the migrations of the last hour that undo each other; O(migrations of the hour).

    Parameters
    ----------
    allowed : plans per job and hour
    """
    since = now_s - HOUR_S
    done = list(
        PlannedMigration.objects.filter(began_s__gt=since, state=PlannedMigrationState.DONE)
        .exclude(plan__cause=PlanCause.REVERSE)
        .select_related("job")
        .order_by("began_s")
    )
    counts = {job: n for job, n in plans_per_job(None, since_s=since).items() if n > allowed}
    names = dict(Job.objects.filter(pk__in=counts).values_list("pk", "name"))
    left = recently_left_servers({migration.job_id for migration in done}, since_s=since)
    returned = [
        row
        for row in Allocation.objects.filter(pk__in=left, released_seq__isnull=True)
        if row.server_id in left[row.pk]
    ]
    job_names = {migration.job_id: migration.job.name for migration in done}
    servers = server_names(row.server_id for row in returned)
    often = ((names[job], job, n) for job, n in counts.items())
    return ThrashingReport(
        moves=len(done),
        jobs=len(job_names),
        often=tuple(sorted(often, key=lambda entry: (-entry[2], entry[0]))),
        returned=tuple(
            sorted((job_names[r.job_id], r.job_id, servers[r.server_id]) for r in returned)
        ),
    )


def held_count(allocation_ids: Collection[int]) -> int:
    """Count the allocations that have not been released."""
    return Allocation.objects.filter(pk__in=allocation_ids, released_seq__isnull=True).count()


def job_changes_since(snapshot: int) -> dict[str, int]:
    """Count the jobs that arrived and left since a change-log number; migrations are neither."""
    arrived = Allocation.objects.filter(acquired_seq__gt=snapshot, moved_from__isnull=True)
    left = Allocation.objects.filter(
        acquired_seq__lte=snapshot, released_seq__gt=snapshot
    ).exclude(job__state="running")
    return {name: _job_count(rows) for name, rows in (("arrived", arrived), ("left", left))}


def _job_count(rows: QuerySet[Any]) -> int:
    return rows.order_by().values("job_id").distinct().count()
