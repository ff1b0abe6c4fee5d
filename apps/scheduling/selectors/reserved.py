"""Reservations of waiting jobs as operators and users see them."""

from collections.abc import Collection
from typing import Final, NamedTuple
from uuid import UUID

from apps.common.infrastructure.database import fetch_rows, without_index


class ReservationRow(NamedTuple):
    """The reservation of a waiting job; times are cluster seconds.

    Attributes
    ----------
    units, free : reserved, and those of them that no job holds
    servers : with reserved units
    made_s : when the reservation was made
    start_s, promised_s : when the last unit is free, at the pessimistic end of the predictions:
        now and at first
    """

    job: UUID
    name: str
    project: str
    priority: int
    units: int
    free: int
    servers: int
    made_s: float
    start_s: float
    promised_s: float
    for_preemption: bool

    @property
    def free_share(self) -> float:
        """Share of the reserved units that no job holds, 0-1."""
        return self.free / max(1, self.units)


# whether the reservation of a job j keeps units
HAS_EFFECT: Final = "j.state IN ('submitted', 'queued') AND NOT j.held AND NOT j.cancel_requested"
# OFFSET 0: each job is looked up by its id; a join may read all jobs
_ROWS: Final = f"""
SELECT r.job_id, job.name, p.name, job.priority, cardinality(r.unit_ids), unit.free,
       unit.servers, r.made_s, r.start_s, r.promised_s, r.for_preemption
FROM scheduling_reservation r,
LATERAL (
    SELECT j.name, j.project_id, j.priority FROM workloads_job j
    WHERE j.id = r.job_id AND {without_index(HAS_EFFECT)} OFFSET 0) job
JOIN accounts_project p ON p.id = job.project_id,
LATERAL (
    SELECT count(*) FILTER (WHERE u.allocation_id IS NULL) AS free,
           count(DISTINCT u.server_id) AS servers
    FROM inventory_resourceunit u WHERE u.id = ANY(r.unit_ids)) unit
WHERE %(projects)s::uuid[] IS NULL OR job.project_id = ANY(%(projects)s)
ORDER BY r.start_s, r.id
"""  # noqa: S608 - a constant


def reservation_rows(projects: Collection[UUID] | None) -> list[ReservationRow]:
    """Return the reservations of waiting jobs, soonest start first; O(reserved units).

    Parameters
    ----------
    projects : of the jobs; None = all
    """
    values = {"projects": None if projects is None else list(projects)}
    return [ReservationRow(*row) for row in fetch_rows(_ROWS, values)]
