"""Reads of scheduling: copies of the cluster, claimed jobs, and decisions."""

import json
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from uuid import UUID

import numpy as np
from django.db import connection, transaction
from django.db.models import Q, QuerySet, Subquery

from apps.common.core.interference import N_SOURCES
from apps.common.infrastructure.database import fetch_rows, number_array, without_index
from apps.inventory import selectors as inventory
from apps.inventory.core.snapshot import Floats
from apps.inventory.models import ChangeKind as LoggedKind
from apps.inventory.models import Server, ServerState
from apps.scheduling.core.cluster.chips import core_sentence
from apps.scheduling.core.cluster.copy import Change, ChangeKind, ClusterCopy, UnknownUnitError
from apps.scheduling.core.records.candidate_layout import chosen_headroom
from apps.scheduling.core.scorers import beyond_tolerance
from apps.scheduling.core.starts.wakes import BY_NEW_SERVERS, BY_OPENING, BY_RELEASE, FreedLog
from apps.scheduling.models import Allocation, Decision, Reservation
from apps.scheduling.models.decisions import Outcome
from apps.workloads.core.constraints import Constraints
from apps.workloads.core.guarantees import QualityGuarantee
from apps.workloads.core.lifecycle import WAITING_STATES, JobState
from apps.workloads.core.shapes import WaitsFor
from apps.workloads.core.spec import JobSpec
from apps.workloads.core.targets import read_target
from apps.workloads.models import Job

PAGE: Final = 10_000
_RELOAD: Final = {LoggedKind.TOPOLOGY, LoggedKind.PRUNED}
_LIVE: Final = """
SELECT unit_ids, caused, tolerated, memory_bytes, network_bps, storage_bytes
FROM scheduling_allocation WHERE released_seq IS NULL ORDER BY id
"""
_CANDIDATES: Final = "SELECT id, candidates FROM scheduling_decision WHERE id = ANY(%s::uuid[])"


def profiles_with_decisions(profile_ids: Sequence[UUID]) -> set[UUID]:
    """Return the ids of profiles that some decision refers to."""
    rows = Decision.objects.filter(profile_id__in=profile_ids).order_by()
    referenced = rows.values_list("profile_id", flat=True).distinct()
    return {key for key in referenced if key is not None}


def beyond_tolerance_of(decision_ids: Iterable[UUID]) -> dict[UUID, float]:
    """Return the pressure beyond tolerance on the chosen units in points, by decision."""
    return {
        key: beyond_tolerance(chosen_headroom(bytes(packed)))
        for key, packed in fetch_rows(_CANDIDATES, [list(decision_ids)])
    }


def current_decision(job: Job) -> Decision | None:
    """Return the decision that explains a job's state; None if there is none.

    For a job that waits in a shape it is the decision on that shape, often about another job.
    """
    own = job.decisions.order_by("-at", "-id")
    if job.shape is None:
        return own.first()
    if job.shape.decision_id is not None:
        shared = Decision.objects.select_related("job", "job__application")
        decision = shared.filter(id=job.shape.decision_id).first()
        if decision is not None:
            return decision
    return own.filter(reason_code=job.reason_code).first()


def is_repeated(job: Job, decision: Decision) -> bool:
    """Whether later evaluations of the shape that a job waits in gave the reason of a decision.

    Only the first one stores a decision, so that its counts may be out of date.
    """
    shape = job.shape
    if shape is None or shape.decision_id != decision.pk:
        return False
    return shape.evaluated_seq > decision.snapshot > 0


def target_of(decision: Decision) -> dict[str, Any]:
    """Return the target that a decision was made for, as JSON.

    Decisions without a prediction, and those made before it was stored, have that of their job.
    """
    target: dict[str, Any] = decision.predicted.get("target") or decision.job.target
    return target


def reservation_of(job: Job) -> Reservation | None:
    """Return the reservation of a waiting job, if it has one."""
    if job.state not in WAITING_STATES or job.held or job.cancel_requested:
        return None
    return Reservation.objects.filter(job_id=job.pk).first()


# allocations that jobs run or ran on, excluding reservations for migrations
IN_USE: Final = Q(moved_from__isnull=True) | Q(moved_s__isnull=False)


def working_allocations(decision: Decision) -> QuerySet[Allocation]:
    """Return the allocations of a decision that its job runs or last ran on."""
    replaced = decision.allocations.filter(moved_s__isnull=False).values("moved_from")
    return decision.allocations.filter(IN_USE).exclude(id__in=replaced)


def last_allocations(job: Job) -> QuerySet[Allocation]:
    """Return what the latest run of a job works or worked on, with all that it was given later."""
    begun = Decision.objects.filter(job=job, outcome=Outcome.PLACED, units_before=0)
    latest = begun.order_by("-at").values("at")[:1]
    replaced = job.allocations.filter(moved_s__isnull=False).values("moved_from")
    of_run = job.allocations.filter(IN_USE, decision__at__gte=Subquery(latest))
    return of_run.exclude(id__in=replaced)


def units_of_allocation(allocation_id: int) -> list[int]:
    """Return the ids of the units that an allocation holds or held; empty if there is none."""
    found = Allocation.objects.filter(pk=allocation_id).values_list("unit_ids", flat=True)
    return [unit for units in found for unit in units]


def core_choice_of(decision: Decision) -> str:
    """Return why its job runs or ran on its cores; "" if its server has one L3 group."""
    choices = working_allocations(decision).values_list("core_choice", flat=True)
    return " ".join(filter(None, (core_sentence(choice) for choice in choices if choice)))


_FREES: Final[dict[str, frozenset[WaitsFor]]] = {
    LoggedKind.RELEASE: BY_RELEASE,
    LoggedKind.OPEN: BY_OPENING,
}


class ClusterFollower:
    """A copy of the cluster, kept up to date from the change log; not thread-safe.

    Attributes
    ----------
    freed : servers whose capacity was freed by the changes read
    exact_from : change-log number from which on the copy is the state at its number: the tables
        that it was read from may have been ahead of the log
    """

    MAX_RELEASED: Final = 8192

    def __init__(self) -> None:
        self._copy: ClusterCopy | None = None
        self.exact_from = 0
        self.freed = FreedLog()
        self._released: deque[int] = deque(maxlen=self.MAX_RELEASED)

    @property
    def copy(self) -> ClusterCopy:
        """The copy, as of the last `follow`.

        Raises
        ------
        RuntimeError : `follow` was never called.
        """
        if self._copy is None:
            raise RuntimeError("call follow() before reading the copy")
        return self._copy

    @property
    def is_exact(self) -> bool:
        """Whether the copy is the state at its number of the change log."""
        return self.copy.sequence >= self.exact_from

    def follow(self) -> ClusterCopy:
        """Apply the change log; read the whole cluster at first and if its servers changed.

        So it is if entries were deleted that the copy has not seen, as the machine was asleep.
        """
        if self._copy is None:
            self._copy = self._read_all()
        try:
            while self._read_page(self._copy):
                pass
        except UnknownUnitError:
            self._copy = self._read_all()
        return self._copy

    def take_released(self) -> list[int]:
        """Return the ids of released units, and forget them."""
        released = list(self._released)
        self._released.clear()
        return released

    def _read_all(self) -> ClusterCopy:
        copy = read_copy()
        self.exact_from = inventory.newest_change()
        self.freed.note(copy.topology.server_id.tolist(), BY_NEW_SERVERS, copy.sequence)
        return copy

    def _read_page(self, copy: ClusterCopy) -> bool:
        """Apply one page of the log; return True if there may be more."""
        entries = inventory.changes_since(copy.sequence, limit=PAGE)
        if any(entry.kind in _RELOAD for entry in entries):
            self._copy = self._read_all()
            return False
        copy.apply(change_of(entry) for entry in entries)
        for entry in entries:
            if entry.kind in _FREES:
                self.freed.note([entry.server_id], _FREES[entry.kind], entry.seq)
            if entry.kind == LoggedKind.RELEASE:
                self._released.extend(entry.unit_ids)
        return len(entries) == PAGE


def read_copy() -> ClusterCopy:
    """Read a consistent copy of the cluster. Takes about 10 µs per server."""
    sequence = inventory.log_position()
    with transaction.atomic():
        if not connection.savepoint_ids:  # except in a test's transaction, which has already begun
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        servers = Server.objects.order_by("id").values_list("id", "state", "oversubscription")
        closed = [key for key, state, _ in servers if state != ServerState.ACTIVE]
        allowed = np.array([row[2] for row in servers], dtype=np.float64)
        copy = ClusterCopy(inventory.topology(), oversubscription=allowed, sequence=sequence)
        copy.apply(_live_claims(sequence))
        copy.apply([Change(sequence, ChangeKind.CLOSE, servers=closed)])
    return copy


def _live_claims(sequence: int) -> Iterable[Change]:
    for units, caused, tolerated, *used in fetch_rows(_LIVE):
        vector = np.array(used, dtype=np.float64) / len(units)
        yield Change(
            sequence, ChangeKind.CLAIM, units, np.array(caused), _known(tolerated), vector
        )


def _known(scores: Sequence[float]) -> Floats | None:
    return np.array(scores) if scores else None


def change_of(entry: inventory.LogEntry) -> Change:
    """Return an entry of the log as a change of a copy; not one that makes it be read again."""
    kind = ChangeKind(entry.kind)
    match kind:
        case ChangeKind.CLAIM:
            caused = np.array(entry.caused or [0.0] * N_SOURCES)
            limit = _known(entry.tolerated)
            return Change(entry.seq, kind, entry.unit_ids, caused, limit, np.array(entry.vector))
        case ChangeKind.RELEASE:
            return Change(entry.seq, kind, entry.unit_ids)
        case _:
            return Change(entry.seq, kind, servers=(entry.server_id,))


@dataclass(frozen=True, slots=True)
class ClaimedJob:
    """A job that an agent has claimed.

    Attributes
    ----------
    submitted_s : cluster seconds
    elapsed_s : cluster seconds from submission to the expected start
    waited_s : cluster seconds since agents could first evaluate it, after profiling
    profiling_s : cluster seconds that it waited for a profile
    spec : without names and labels, which no decision depends on
    units, missing : that a running job has, and still needs; 0 for a waiting job
    held : ids of the servers of a running job that must be spread
    runs_command : whether it has a command, which the spec leaves out
    is_copyable : whether copies of its command may run, to profile it
    backend : that it was submitted to; empty = any that can run it
    was_launched : it has run before, or it runs
    """

    id: UUID
    name: str
    project_id: UUID
    application_id: UUID
    submitted_s: float
    elapsed_s: float
    spec: JobSpec
    units: int = 0
    missing: int = 0
    held: frozenset[int] = frozenset()
    runs_command: bool = False
    is_copyable: bool = False
    backend: str = ""
    waited_s: float = 0.0
    profiling_s: float = 0.0
    priority: int = 0
    was_launched: bool = False


# OFFSET 0: found by their ids, not among all jobs of their applications
_CLAIMED: Final = f"""
SELECT j.id, j.name, j.project_id, j.application_id, j.submitted_s,
       coalesce(j.profiled_s, j.submitted_s), j.priority,
       a.name, a.kind, j.duration_s, j.target, j.constraints, j.input_bytes, j.tasks_total,
       j.units_requested, j.gang, j.unit_memory_bytes, j.unit_network_bps, j.unit_storage_bytes,
       j.policy, j.sample_size, j.guarantee, j.units, j.units_missing,
       CASE WHEN j.state IN ('starting', 'running') AND j.constraints->>'spread' IS NOT NULL
            THEN ARRAY(SELECT server_id FROM scheduling_allocation
                       WHERE job_id = j.id AND {without_index("released_seq IS NULL")}) END,
       j.state, j.program IS NOT NULL,
       coalesce((j.program->>'copyable')::boolean, false), j.backend, j.attempts > 0
FROM (SELECT * FROM workloads_job WHERE id = ANY(%s) OFFSET 0) j
JOIN workloads_application a ON a.id = j.application_id
ORDER BY j.priority DESC, j.created_at, j.id
"""  # noqa: S608 - a constant


def claimed_jobs(
    job_ids: Sequence[UUID], *, cluster_s: float, start_delay_s: float
) -> list[ClaimedJob]:
    """Return claimed jobs, most urgent first.

    Parameters
    ----------
    cluster_s : now
    start_delay_s : cluster seconds from the commit of a job to its start
    """
    rows = fetch_rows(_CLAIMED, [number_array(job_ids)])
    return [_claimed(row, cluster_s, start_delay_s) for row in rows]


def _claimed(row: tuple[Any, ...], cluster_s: float, start_delay_s: float) -> ClaimedJob:
    job, name, project, application, submitted_s, ready_s, priority, *rest = row
    *spec, units, missing, held = rest[:-5]
    state, command, is_copyable, backend, was_launched = rest[-5:]
    known = ClaimedJob(
        job,
        name,
        project,
        application,
        submitted_s,
        elapsed_s=max(0.0, cluster_s + start_delay_s - submitted_s),
        spec=_spec(*spec),
        runs_command=command,
        is_copyable=is_copyable,
        backend=backend,
        waited_s=max(0.0, cluster_s - ready_s),
        profiling_s=max(0.0, ready_s - submitted_s),
        priority=priority,
        was_launched=was_launched,
    )
    if state not in {JobState.STARTING, JobState.RUNNING}:
        return known
    return replace(known, units=units, missing=missing, held=frozenset(held or ()))


def _spec(*row: Any) -> JobSpec:
    application, kind, duration_s, target, constraints, *work = row
    input_bytes, tasks, units, gang, memory_bytes, network_bps, storage_bytes, *decision = work
    policy, sample_size, guarantee = decision
    where = json.loads(constraints)
    return JobSpec(
        application=application,
        application_kind=kind,
        target=read_target(json.loads(target)),
        duration_s=duration_s,
        constraints=Constraints(
            platforms=tuple(where.get("platforms") or ()),
            labels=where.get("labels") or {},
            locality=where.get("locality"),
            spread=where.get("spread"),
            max_cost=where.get("max_cost"),
            excluded=tuple(where.get("excluded") or ()),
        ),
        input_bytes=input_bytes,
        tasks=tasks,
        units=units,
        gang=gang,
        unit_memory_bytes=memory_bytes,
        unit_network_bps=network_bps,
        unit_storage_bytes=storage_bytes,
        policy=policy or None,
        sample_size=sample_size,
        guarantee=None if guarantee is None else QualityGuarantee(**json.loads(guarantee)),
    )
