"""Migrate units of one job to a named server: a plan of one migration that a user requests."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from apps.common.core.errors import ConflictError, FieldProblem, InvalidInputError
from apps.execution.core.diagnosis.remedies import RemedyKind
from apps.execution.core.migration import lost_s, migration_s, restart_s
from apps.execution.selectors.diagnosis import diagnosis
from apps.inventory.core.backends import Move, move_of
from apps.inventory.models import Rack, Server
from apps.inventory.selectors import cluster_now
from apps.placement.core.problem.objectives import OBJECTIVES
from apps.placement.core.rebalancing.executor import migrations_without_room
from apps.placement.models import MigrationPurpose, PlanCause, PlannedMigration
from apps.placement.selectors import plans as selectors
from apps.placement.selectors.objectives import effective_weights
from apps.placement.selectors.preferences import weights_in_force
from apps.placement.services.rebalancing.planner import NoGain, StalePlanError, predict_effect
from apps.placement.services.rebalancing.plans import NewPlan, counted
from apps.scheduling.models import Allocation
from apps.workloads.core.lifecycle import JobState
from apps.workloads.models import Job

# without weights in force, F compares the cluster before and after with equal weights
EQUAL_WEIGHTS: Final = dict.fromkeys(OBJECTIVES, 1.0)


@dataclass(frozen=True, slots=True)
class JobMigration:
    """Units of a job on one server, and the server they are to run on."""

    job: Job
    allocation: Allocation
    source: Server
    target: Server

    @property
    def move(self) -> Move:
        """How its backend migrates it."""
        return move_of(self.source.backend)

    @property
    def lost_s(self) -> float:
        """Cluster seconds of work that it loses now."""
        if self.move is Move.LIVE:
            return 0.0
        now_s, job = cluster_now(), self.job
        return lost_s(now_s, job.started_s or now_s, job.suspended_for_s, job.suspended_s)

    def as_arguments(self) -> dict[str, Any]:
        """JSON arguments of an operation, which `propose_job_migration` reads."""
        return {
            "job": str(self.job.pk),
            "from_server": self.source.name,
            "to_server": self.target.name,
        }


def requested_migration(job_id: UUID, from_server: str, to_server: str) -> JobMigration:
    """Return a migration by the names of its servers.

    Raises
    ------
    InvalidInputError : names each unknown job or server.
    ConflictError : the job is not running, holds no units there, or must not move alone.
    """
    job = Job.objects.filter(pk=job_id).first()
    servers = Server.objects.in_bulk([from_server, to_server], field_name="name")
    problems = [FieldProblem("/migration/job", "unknown", f"there is no job {job_id}")]
    problems = [] if job else problems
    for field, name in (("from_server", from_server), ("to_server", to_server)):
        if name not in servers:
            detail = f"there is no server {name!r}"
            problems.append(FieldProblem(f"/migration/{field}", "unknown", detail))
    if job and from_server == to_server:
        detail = "must differ from from_server"
        problems.append(FieldProblem("/migration/to_server", "duplicate", detail))
    if job is None or problems:
        raise InvalidInputError(problems)
    return _movable(job, servers[from_server], servers[to_server])


def _movable(job: Job, source: Server, target: Server) -> JobMigration:
    if job.state != JobState.RUNNING or job.cancel_requested:
        raise ConflictError(f"{job.name} is not running: only running jobs can be migrated.")
    held = Allocation.objects.filter(job=job, server_id=source.pk, released_seq__isnull=True)
    allocation = held.exclude(moved_from__isnull=False, moved_s__isnull=True).first()
    if allocation is None:
        raise ConflictError(f"{job.name} has no units on {source.name}.")
    if move_of(source.backend) is Move.NONE:
        raise ConflictError(f"The backend of {job.name} cannot migrate running jobs.")
    if source.backend != target.backend:
        msg = f"{target.name} belongs to the backend {target.backend}, not to {source.backend}."
        raise ConflictError(msg)
    if move_of(source.backend) is Move.RESTART and held.count() > 1:
        msg = f"{job.name} runs on several servers, and can only be restarted as a whole."
        raise ConflictError(msg)
    return JobMigration(job, allocation, source, target)


def propose_job_migration(arguments: Mapping[str, Any], *, by: UUID | None) -> NewPlan | NoGain:
    """Return the plan of one migration; writes nothing.

    It is proposed whatever it gains in F: it is for the job's target. The prediction shows what
    it costs, and which jobs gain and lose.
    """
    try:
        asked = requested_migration(
            UUID(arguments["job"]), arguments["from_server"], arguments["to_server"]
        )
    except (ConflictError, InvalidInputError) as error:  # since it was requested
        return NoGain(str(error))
    migration = _planned(asked)
    if misfit := _misfit(asked, migration):
        return NoGain(misfit)
    active = weights_in_force()
    weights = effective_weights(EQUAL_WEIGHTS if active is None else active.weights)
    try:
        prediction = predict_effect(weights, [migration])
    except StalePlanError:  # since it was read
        return NoGain(f"{asked.job.name} no longer has units on {asked.source.name}.")
    migration.gain = prediction.gain
    return NewPlan(
        cause=PlanCause.MIGRATE,
        weights=weights,
        activation=active,
        migrations=[migration],
        predicted=prediction.predicted,
        gap=prediction.gap,
        gain=prediction.gain,
        seconds=0.0,
        snapshot=prediction.snapshot,
        cluster_s=prediction.cluster_s,
        created_by=by,
        message=(
            f"migrates {counted(migration.units, 'unit')} of {asked.job.name}"
            f" from {asked.source.name} to {asked.target.name}{_expected(asked)}{_loss(asked)}"
        ),
    )


def _expected(asked: JobMigration) -> str:
    """Say what the diagnosis of the job expects of this migration; "" if it suggests another."""
    found = diagnosis(asked.job, Job.objects.all())
    route = (asked.source.pk, asked.target.pk)
    for remedy in found.remedies:
        is_same = remedy.kind is RemedyKind.MOVE
        if is_same and (remedy.from_server, remedy.to_server) == route and found.unchanged:
            return (
                f"; it then meets its target with {remedy.probability:.0%},"
                f" as it is with {found.unchanged.probability:.0%}"
            )
    return ""


def _loss(asked: JobMigration) -> str:
    """Say what a restart loses; "" of a live migration."""
    if asked.move is Move.LIVE:
        return ""
    return f"; the job restarts there and loses {asked.lost_s:.0f} s of work, as of now"


def _planned(asked: JobMigration) -> PlannedMigration:
    memory, source, target = asked.allocation.memory_bytes, asked.source, asked.target
    return PlannedMigration(
        ordinal=0,
        bundle=0,
        purpose=MigrationPurpose.TARGET,
        about=asked.job.name[:127],
        job_id=asked.job.pk,
        allocation_id=asked.allocation.pk,
        from_server_id=source.pk,
        to_server_id=target.pk,
        units=asked.allocation.cores,
        gain=0.0,
        predicted_s=(
            migration_s(memory, source.network_bps, target.network_bps)
            if asked.move is Move.LIVE
            else restart_s(asked.lost_s)
        ),
    )


def _misfit(asked: JobMigration, migration: PlannedMigration) -> str:
    """Say why the target server cannot take the units; "" if it can."""
    if excluded := _excluded(asked):
        return excluded
    free = selectors.free_capacities([migration])
    if asked.target.pk not in free:
        return f"{asked.target.name} accepts no new work."
    if migrations_without_room(selectors.capacity_steps([migration]), free):
        units = counted(migration.units, "unit")
        return f"{asked.target.name} has too little free capacity for {units}."
    return ""


_PLACES: Final[Mapping[str, Callable[[Rack], object]]] = {
    "rack": lambda rack: rack.pk,
    "switch": lambda rack: rack.switch or rack.pk,  # a rack without one stands alone
}


def _excluded(asked: JobMigration) -> str:
    """Say which constraint of the job excludes the target server; "" if none does."""
    name, constraints = asked.target.name, asked.job.constraints
    platforms, platform = constraints.get("platforms") or [], asked.target.platform.name
    if platforms and platform not in platforms:
        return f"{name} has the platform {platform}, which the job excludes."
    labels = constraints.get("labels") or {}
    if any(asked.target.labels.get(key) != value for key, value in labels.items()):
        return f"{name} lacks a label that the job requires."
    if name in (constraints.get("excluded") or ()):
        return f"{asked.job.name} must not run on {name}."
    if constraints.get("spread"):
        return f"The units of {asked.job.name} must be spread: they cannot be migrated alone."
    if (scope := constraints.get("locality")) in _PLACES:
        source, target = (_PLACES[scope](server.rack) for server in (asked.source, asked.target))
        if source != target:
            return f"{name} is in another {scope}, and the units of {asked.job.name} share one."
    return ""
