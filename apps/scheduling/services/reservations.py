"""Reservations of gangs that have waited long: reads, and their creation by agents.

Agents read all reservations once for each batch. A commit reads them again after it has locked
its units, and a reservation locks its free units before it is stored: so no unit is taken by a
job that ends too late.
"""

from collections.abc import Collection, Sequence
from typing import Any, Final
from uuid import UUID

import numpy as np
from django.conf import settings
from django.db import connection, transaction

from apps.common.infrastructure.advisory_locks import AdvisoryLock, acquire
from apps.common.infrastructure.database import fetch_prepared, fetch_rows, without_index
from apps.inventory.core.snapshot import Floats, Snapshot
from apps.inventory.selectors import cluster_now
from apps.inventory.services import lock_units
from apps.operations.services import NewEvent, record_events
from apps.scheduling.core.batch_state import TopologyFacts
from apps.scheduling.core.reservations.gangs import (
    MARGIN,
    Releases,
    Reservation,
    held_mask,
    kept_room,
    plan,
    without_room,
)
from apps.scheduling.core.types import Request
from apps.scheduling.selectors.reserved import HAS_EFFECT
from apps.workloads import services as workloads
from apps.workloads.core.lifecycle import WAITING_STATES
from apps.workloads.core.reasons import Reason

# mostly there is none, and to plan the statement below takes longer than to run it
_HAS_ANY: Final = "SELECT EXISTS (SELECT FROM scheduling_reservation)"
# OFFSET 0 keeps the planner from a join, which may read all jobs. A reservation whose units
# victims still hold is not late, however long they take to stop: planned again, it would stop
# others. Jobs that nobody stops, such as backfilled ones, make it late.
_READ: Final = f"""
SELECT r.job_id, r.start_s, r.unit_ids, units.held, job.per_unit,
       r.for_preemption AND EXISTS (
           SELECT FROM execution_launch l
           WHERE l.job_id = ANY(units.jobs)
             AND {without_index("l.state IN ('requested', 'running') AND l.cancel_requested")})
FROM scheduling_reservation r,
LATERAL (
    SELECT coalesce(array_agg(ARRAY[u.id, a.memory_bytes, a.network_bps, a.storage_bytes,
                                    cardinality(a.unit_ids)]), '{{}}') AS held,
           array_agg(a.job_id) AS jobs
    FROM inventory_resourceunit u JOIN scheduling_allocation a ON a.id = u.allocation_id
    WHERE u.id = ANY(r.unit_ids)) units,
LATERAL (
    SELECT ARRAY[j.unit_memory_bytes, j.unit_network_bps, j.unit_storage_bytes] AS per_unit,
           {HAS_EFFECT} AS waits
    FROM workloads_job j WHERE j.id = r.job_id OFFSET 0) job
WHERE job.waits
ORDER BY r.id
"""  # noqa: S608 - a constant
# When the units and the capacity of each running job are free: the pessimistic end of the
# prediction; later than that, or without one, what the progress tells. Nothing tells when a
# suspended job ends.
_ENDS: Final = """
SELECT a.unit_ids, a.server_id, a.memory_bytes, a.network_bps, a.storage_bytes,
       CASE WHEN by.prediction > %(now)s THEN by.prediction ELSE by.progress END
FROM scheduling_allocation a JOIN workloads_job j ON j.id = a.job_id,
LATERAL (
    SELECT coalesce(j.started_s, j.placed_s) + j.suspended_for_s + j.run_high_s AS prediction,
           CASE WHEN j.progress > j.progress_before AND j.started_s IS NOT NULL
                THEN %(now)s + %(margin)s * (%(now)s - j.started_s - j.suspended_for_s)
                     * (1 - j.progress) / (j.progress - j.progress_before)
           END AS progress) AS by
WHERE a.released_seq IS NULL AND j.suspended_s IS NULL
"""
# The subquery reads each job by its id; a join may read all jobs.
_DELETE_ENDED: Final = """
DELETE FROM scheduling_reservation r
WHERE coalesce((SELECT j.state <> ALL(%s) FROM workloads_job j WHERE j.id = r.job_id), true)
"""
_STORE: Final = """
INSERT INTO scheduling_reservation AS r
    (job_id, unit_ids, made_s, start_s, promised_s, for_preemption)
VALUES (%(job)s, %(units)s, %(now)s, %(start)s, %(start)s, %(for_preemption)s)
ON CONFLICT (job_id) DO UPDATE SET unit_ids = excluded.unit_ids, start_s = excluded.start_s,
    for_preemption = excluded.for_preemption
"""


def reservations() -> list[Reservation]:
    """Read the reservations of jobs that still wait."""
    ((has_any,),) = fetch_prepared(_HAS_ANY, ())
    rows = fetch_rows(_READ) if has_any else []
    now_s = cluster_now() if any(is_awaiting for *_, is_awaiting in rows) else 0.0
    return [
        Reservation(
            job=job,
            start_s=max(start_s, now_s) if is_awaiting else start_s,
            units=frozenset(units),
            per_unit=(memory, network, storage),
            held={unit: (m / cores, n / cores, s / cores) for unit, m, n, s, cores in held},
            is_awaiting=is_awaiting,
        )
        for job, start_s, units, held, (memory, network, storage), is_awaiting in rows
    ]


def jobs_with_reservations() -> list[UUID]:
    """Return the ids of the jobs for which units are reserved."""
    return [job for (job,) in fetch_rows("SELECT job_id FROM scheduling_reservation")]


def end_reservations(job_ids: Collection[UUID]) -> None:
    """Delete the reservations of jobs that were placed, or cannot start."""
    _delete("DELETE FROM scheduling_reservation WHERE job_id = ANY(%s)", [sorted(job_ids)])


def end_all_reservations() -> None:
    """Delete all reservations but those of preemptions."""
    _delete("DELETE FROM scheduling_reservation WHERE NOT for_preemption")


def end_reservations_of_ended_jobs() -> None:
    """Delete the reservations of jobs that are gone or wait no more; held jobs keep theirs."""
    _delete(_DELETE_ENDED, [sorted(WAITING_STATES)])


def _delete(sql: str, values: Sequence[Any] = ()) -> None:
    """Delete reservations; jobs that they kept from units are evaluated soon."""
    with connection.cursor() as cursor:
        cursor.execute(sql, values)
        if cursor.rowcount:
            workloads.evaluate_soon(Reason.UNITS_RESERVED)


def reserve(job: UUID, request: Request, snapshot: Snapshot, facts: TopologyFacts) -> bool:
    """Reserve the units that a refused job can have first; renew a reservation that is late.

    A late one that cannot be renewed is given up: no plan means that no start is known.

    Returns
    -------
    False if it has one that is not late, if it has none and there are too many, if no units are
    free at a known time, or if units were taken meanwhile.
    """
    with transaction.atomic():
        lock_reservations()
        end_reservations_of_ended_jobs()
        now_s, known = cluster_now(), reservations()
        mine = next((each for each in known if each.job == job), None)
        others = [each for each in known if each.job != job]
        if mine.start_s >= now_s if mine else len(others) >= settings.MAX_RESERVATIONS:
            return False
        row = _waiting(job)
        if row is None:
            return False
        topology = snapshot.topology
        free_s, releases = _ends(snapshot, now_s)
        taken = kept_room(others, topology, at_start=True)
        seen = without_room(snapshot, taken, may_lack=True)
        planned = plan(request, seen, facts, free_s, held_mask(topology, others), releases)
        if planned is None:
            if mine:  # late: its units would wait for nobody knows how long
                end_reservations([job])
            return False
        free = topology.unit_id[planned.units[snapshot.unit_free[planned.units]]].tolist()
        if any(owner is not None for owner in lock_units(free).values()):
            return False
        units = topology.unit_id[planned.units].tolist()
        keep_units(job, units, start_s=planned.start_s)
        record_events([_event(job, row, planned.start_s, len(units))])
    return True


def lock_reservations() -> None:
    """Let no other transaction plan a reservation until the caller's transaction ends.

    Call it before any row is locked.
    """
    acquire(AdvisoryLock.RESERVATIONS)


def keep_units(
    job: UUID, units: Collection[int], *, start_s: float, for_preemption: bool = False
) -> None:
    """Reserve units for a waiting job, which then are its only reservation.

    Runs in the caller's transaction, which has called `lock_reservations`, and has locked the job
    and those of the units that are free.

    Parameters
    ----------
    for_preemption : the units that are not free are those of jobs that are being stopped
    """
    with connection.cursor() as cursor:
        values: dict[str, Any] = {"job": job, "units": sorted(units), "now": cluster_now()}
        values |= {"start": start_s, "for_preemption": for_preemption}
        cursor.execute(_STORE, values)


def _waiting(job: UUID) -> tuple[str, UUID] | None:
    """Lock a job and return its name and project, if it still waits."""
    rows = fetch_rows(
        """SELECT name, project_id FROM workloads_job
           WHERE id = %s AND state = 'queued' AND NOT held AND NOT cancel_requested
           FOR NO KEY UPDATE""",
        [job],
    )
    return (rows[0][0], rows[0][1]) if rows else None


def _ends(snapshot: Snapshot, now_s: float) -> tuple[Floats, Releases]:
    """Return when the units and the capacity of running jobs are free.

    Returns
    -------
    (U,) now, at the predicted end of the job, or never; the capacity freed at known ends
    """
    topology = snapshot.topology
    rows = fetch_rows(_ENDS, {"now": now_s, "margin": MARGIN})
    known = [row for row in rows if row[-1] is not None]
    ends = {unit: end_s for units, *_, end_s in known for unit in units}
    busy = [ends.get(unit, np.inf) for unit in topology.unit_id.tolist()]
    free: Floats = np.where(snapshot.unit_free, now_s, np.maximum(busy, now_s))
    place = {server: i for i, server in enumerate(topology.server_id.tolist())}
    parts = [(place[server], end_s, *use) for _, server, *use, end_s in known if server in place]
    columns = np.array(parts, dtype=np.float64).reshape(-1, 5)
    at_s = np.maximum(columns[:, 1], now_s)
    return free, Releases(columns[:, 0].astype(np.int64), at_s, columns[:, 2:])


def _event(job: UUID, row: tuple[str, UUID], start_s: float, units: int) -> NewEvent:
    name, project = row
    data = {"name": name, "units": units, "start_seconds": start_s}
    return NewEvent(
        topic="jobs", kind="job.reserved", subject=str(job), project_id=project, data=data
    )
