"""Reads of scheduling: an agent's copy of the cluster, and the jobs it has claimed."""

import json
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import numpy as np
from django.db import connection, transaction
from django.db.models import Q, QuerySet

from apps.common.core.interference import N_SOURCES
from apps.inventory import selectors as inventory
from apps.inventory.models import ChangeKind as LoggedKind
from apps.inventory.models import Server, ServerState
from apps.scheduling.core.ask import Ask
from apps.scheduling.core.localcopy import Change, ChangeKind, LocalCopy, UnknownUnitError
from apps.scheduling.core.scorers import beyond_tolerance
from apps.scheduling.core.types import Verdict
from apps.scheduling.models import Allocation, Decision
from apps.workloads.core.spec import Constraints
from apps.workloads.core.targets import read_target

PAGE: Final = 10_000
# Wall seconds without a look after which a copy is read anew: the log is kept for days only. Wall
# time also passes while the machine sleeps.
REREAD_S: Final = 3600.0
_LIVE: Final = """
SELECT unit_ids, caused, memory_bytes, network_bps, storage_bytes
FROM scheduling_allocation WHERE released_seq IS NULL ORDER BY id
"""


def profiles_named(profile_ids: Sequence[UUID]) -> set[UUID]:
    """Those of the profiles that some decision names."""
    rows = Decision.objects.filter(profile_id__in=profile_ids).order_by()
    named = rows.values_list("profile_id", flat=True).distinct()
    return {key for key in named if key is not None}


def beyond_tolerance_of(decision_ids: Iterable[UUID]) -> dict[UUID, float]:
    """Points of pressure beyond what the units chosen tolerate, by decision (`scorers`)."""
    rows = Decision.objects.filter(id__in=list(decision_ids)).values_list("id", "candidates")
    return {
        key: beyond_tolerance(
            [one["headroom"] for one in candidates if one["verdict"] == Verdict.CHOSEN]
        )
        for key, candidates in rows
    }


# allocations at which jobs work, or worked: others are, or were, only reserved for a move
AT_WORK: Final = Q(moved_from__isnull=True) | Q(moved_s__isnull=False)


def stands(decision: Decision) -> QuerySet[Allocation]:
    """Where the units of a decision work, or did last; not where they were moved away from."""
    left = decision.allocations.filter(moved_s__isnull=False).values("moved_from")
    return decision.allocations.filter(AT_WORK).exclude(id__in=left)


class ClusterCopy:
    """A local copy that can read itself anew: what an agent, or a dry run, decides on.

    Not for two threads at once.
    """

    def __init__(self) -> None:
        self._copy: LocalCopy | None = None
        self._followed_at = 0.0

    @property
    def copy(self) -> LocalCopy:
        """The arrays; `follow` first.

        Raises
        ------
        RuntimeError : never followed yet.
        """
        if self._copy is None:
            raise RuntimeError("follow the change log before looking at the copy")
        return self._copy

    def follow(self) -> LocalCopy:
        """Read the change log to its end; the whole cluster at first, and when servers came."""
        now = time.time()
        if self._copy is None or now - self._followed_at > REREAD_S:
            self._copy = read_copy()
        self._followed_at = now
        try:
            while self._read_page(self._copy):
                pass
        except UnknownUnitError:
            self._copy = read_copy()
        return self._copy

    def _read_page(self, copy: LocalCopy) -> bool:
        """Whether there may be more."""
        entries = inventory.changes_since(copy.sequence, limit=PAGE)
        if any(entry.kind == LoggedKind.TOPOLOGY for entry in entries):
            self._copy = read_copy()
            return False
        copy.apply(_change(entry) for entry in entries)
        return len(entries) == PAGE


def read_copy() -> LocalCopy:
    """Read the cluster as it is, at one moment. Cost: some 10 µs a server."""
    with transaction.atomic():
        if not connection.savepoint_ids:  # a test's transaction has begun already
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        sequence = _last_sequence()
        servers = Server.objects.order_by("id").values_list("id", "state", "oversubscription")
        closed = [key for key, state, _ in servers if state != ServerState.ACTIVE]
        allowed = np.array([row[2] for row in servers], dtype=np.float64)
        copy = LocalCopy(inventory.topology(), oversubscription=allowed, sequence=sequence)
        copy.apply(_live_claims(sequence))
        copy.apply([Change(sequence, ChangeKind.CLOSE, servers=closed)])
    return copy


def _last_sequence() -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT coalesce(max(seq), 0) FROM inventory_change")
        return int(cursor.fetchone()[0])


def _live_claims(sequence: int) -> Iterable[Change]:
    with connection.cursor() as cursor:
        cursor.execute(_LIVE)
        rows = cursor.fetchall()
    for units, caused, *taken in rows:
        vector = np.array(taken, dtype=np.float64) / len(units)
        yield Change(sequence, ChangeKind.CLAIM, units, np.array(caused), vector)


def _change(entry: inventory.LogEntry) -> Change:
    kind = ChangeKind(entry.kind)
    match kind:
        case ChangeKind.CLAIM:
            caused = np.array(entry.caused or [0.0] * N_SOURCES)
            return Change(entry.seq, kind, entry.unit_ids, caused, np.array(entry.vector))
        case ChangeKind.RELEASE:
            return Change(entry.seq, kind, entry.unit_ids)
        case _:
            return Change(entry.seq, kind, servers=(entry.server_id,))


@dataclass(frozen=True, slots=True)
class ClaimedJob:
    """A job this agent decides about.

    Attributes
    ----------
    kind : of its application
    submitted_s : cluster seconds
    tries : decisions since it was queued
    duration_s : cluster seconds after which it ends whatever its work; None = not declared
    """

    id: UUID
    name: str
    project_id: UUID
    application_id: UUID
    kind: str
    submitted_s: float
    tries: int
    duration_s: float | None
    ask: Ask


_CLAIMED: Final = """
SELECT j.id, j.name, j.project_id, j.application_id, a.kind, j.submitted_s, j.tries, j.duration_s,
       j.target, j.constraints, j.input_bytes, j.tasks_total, j.units_requested, j.gang,
       j.unit_memory_bytes, j.unit_network_bps, j.unit_storage_bytes
FROM workloads_job j JOIN workloads_application a ON a.id = j.application_id
WHERE j.id = ANY(%s) ORDER BY j.priority DESC, j.created_at, j.id
"""


def claimed_jobs(
    job_ids: Sequence[UUID], *, cluster_s: float, start_delay_s: float
) -> list[ClaimedJob]:
    """Read jobs as scheduling sees them, most urgent first.

    Parameters
    ----------
    cluster_s : now
    start_delay_s : cluster seconds a job placed now takes to begin
    """
    with connection.cursor() as cursor:
        cursor.execute(_CLAIMED, [list(job_ids)])
        rows = cursor.fetchall()
    return [_claimed(row, cluster_s + start_delay_s) for row in rows]


def _claimed(row: tuple[Any, ...], begins_s: float) -> ClaimedJob:
    job, name, project, application, kind, submitted_s, tries, duration_s, *work = row
    target, constraints, input_bytes, tasks, units, gang, memory, network, storage = work
    where = json.loads(constraints)
    return ClaimedJob(
        id=job,
        name=name,
        project_id=project,
        application_id=application,
        kind=kind,
        submitted_s=submitted_s,
        tries=tries,
        duration_s=duration_s,
        ask=Ask(
            job=str(job),
            target=read_target(json.loads(target)),
            constraints=Constraints(
                platforms=tuple(where.get("platforms") or ()),
                labels=where.get("labels") or {},
                locality=where.get("locality"),
                spread=where.get("spread"),
            ),
            input_bytes=float(input_bytes),
            tasks=tasks,
            units=units,
            gang=gang,
            unit_memory_bytes=memory,
            unit_network_bps=network,
            unit_storage_bytes=storage,
            elapsed_s=max(0.0, begins_s - submitted_s),
        ),
    )


def waiting_jobs() -> int:
    """Jobs that agents have to decide about, now or later."""
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM workloads_job"
            " WHERE state IN ('submitted', 'queued') AND NOT held"
        )
        return int(cursor.fetchone()[0])
