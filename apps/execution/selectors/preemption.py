"""Reads for preemptions: the running jobs of lower priority, with their units and resources."""

import json
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import UUID

import numpy as np
from django.db.models import QuerySet, Sum
from django.db.models.functions import Coalesce

from apps.common.core.errors import NotFoundError
from apps.common.infrastructure.arrays import fetch_columns
from apps.common.infrastructure.database import fetch_rows
from apps.execution.models import PreemptionProposal, ProposalState
from apps.inventory.core.backends import Capability, backends_with
from apps.inventory.core.snapshot import Floats, Ints
from apps.inventory.selectors import cluster_now
from apps.scheduling.core.preemption.limits import PastPreemptions, PreemptionLimits
from apps.scheduling.core.preemption.promises import (
    DEADLINE,
    NO_TARGET,
    RATE,
    RunningJob,
    RunningJobs,
)
from apps.scheduling.core.preemption.victims import Candidates
from apps.workloads.models import Job
from apps.workloads.selectors import LAUNCH_PROGRESS

_MAY_STOP: Final = """
    l.state = 'running' AND NOT l.cancel_requested AND l.backend = ANY(%(requeue)s)
    AND j.state = 'running' AND NOT j.cancel_requested AND j.priority < %(priority)s
    AND NOT EXISTS (SELECT FROM execution_migration m
                    WHERE m.job_id = j.id AND m.state IN ('requested', 'running'))
"""
# as if it had been suspended before it started: the time of a suspension is no work
_STARTED: Final = """
j.started_s + j.suspended_for_s + greatest(0, %(now_s)s - coalesce(j.suspended_s, %(now_s)s))
"""
# up to when the work of a job is kept if it stops
_SAVED: Final = f"""
CASE WHEN l.backend = ANY(%(resume)s) THEN greatest(j.started_s, j.reported_s)
     ELSE {_STARTED} END
"""
_CANDIDATES: Final = f"""
SELECT j.id AS job, j.priority,
       CASE j.target_kind WHEN 'best_effort' THEN {NO_TARGET}
            WHEN 'completion_time' THEN {DEADLINE} ELSE {RATE} END AS kind,
       CASE j.target_kind WHEN 'completion_time' THEN (j.target->>'seconds')::float8
            ELSE 0 END AS seconds,
       j.submitted_s, {_STARTED} AS started_s, {_SAVED} AS saved_s,
       {LAUNCH_PROGRESS} AS progress,
       coalesce(j.run_high_s, 'NaN') AS run_high_s,
       a.server_id AS server, cardinality(a.unit_ids) AS units,
       CASE WHEN a.server_id = ANY(%(reserved_on)s)
            THEN (SELECT count(*) FROM unnest(a.unit_ids) AS u WHERE u = ANY(%(reserved)s))
            ELSE 0 END AS reserved,
       CASE WHEN j.attempts > 1 THEN (
            SELECT count(*) FROM execution_launch p
            WHERE p.job_id = j.id AND p.outcome = 'preempted') ELSE 0 END AS preemptions,
       CASE WHEN j.attempts > 1 THEN coalesce((
            SELECT max(p.ended_s) FROM execution_launch p
            WHERE p.job_id = j.id AND p.outcome = 'preempted'), '-Infinity')
            ELSE '-Infinity' END AS preempted_s,
       a.memory_bytes AS memory, a.network_bps AS network, a.storage_bytes AS storage
FROM execution_launch l JOIN workloads_job j ON j.id = l.job_id
JOIN scheduling_allocation a ON a.job_id = j.id AND a.released_seq IS NULL
WHERE {_MAY_STOP}
"""  # noqa: S608 - constants
_COLUMNS: Final = {
    "job": "uuid", "priority": "int8", "kind": "int8", "seconds": "float8",
    "submitted_s": "float8", "started_s": "float8", "saved_s": "float8", "progress": "float8",
    "run_high_s": "float8", "server": "int8", "units": "int8", "reserved": "int8",
    "preemptions": "int8", "preempted_s": "float8", "memory": "int8", "network": "int8",
    "storage": "int8",
}  # fmt: skip
_JOBS: Final = f"""
SELECT j.id, j.name, p.name, a.name, j.project_id, j.priority, l.id, past.times,
       coalesce(past.last_s, '-Infinity'), j.target, j.submitted_s,
       {_STARTED}, {_SAVED}, {LAUNCH_PROGRESS}, j.run_high_s
FROM execution_launch l JOIN workloads_job j ON j.id = l.job_id
JOIN accounts_project p ON p.id = j.project_id
JOIN workloads_application a ON a.id = j.application_id
CROSS JOIN LATERAL (
    SELECT count(*) AS times, max(e.ended_s) AS last_s FROM execution_launch e
    WHERE e.job_id = j.id AND e.outcome = 'preempted') past
WHERE j.id = ANY(%(jobs)s) AND {_MAY_STOP} ORDER BY j.id
"""  # noqa: S608 - constants
_HELD: Final = """
SELECT job_id, server_id, unit_ids, memory_bytes, network_bps, storage_bytes
FROM scheduling_allocation WHERE job_id = ANY(%s) AND released_seq IS NULL ORDER BY id
"""
_STOPPING: Final = """
SELECT count(*) FROM scheduling_reservation r, execution_launch l
JOIN scheduling_allocation a ON a.job_id = l.job_id AND a.released_seq IS NULL
WHERE r.job_id = %s AND l.state IN ('requested', 'running') AND l.cancel_requested
  AND a.unit_ids && r.unit_ids
"""


class HeldPart(NamedTuple):
    """Units and resources that a job holds on a server."""

    server: int
    units: Sequence[int]
    memory_bytes: int
    network_bps: int
    storage_bytes: int


@dataclass(frozen=True, slots=True)
class PreemptibleJob:
    """A running job that may be preempted."""

    id: UUID
    name: str
    project: str
    application: str
    project_id: UUID
    priority: int
    launch: int
    past: PastPreemptions
    run: RunningJob
    held: tuple[HeldPart, ...]


@dataclass(frozen=True, slots=True, eq=False)
class RunningCluster:
    """The running jobs below a priority that their backend can stop and start again.

    Jobs that start, migrate or are being stopped are left out.

    Attributes
    ----------
    jobs : (C,) of them, ascending by id
    job : (C,) ids, 16 bytes each
    priority : (C,)
    preemptions, preempted_s : (C,) number of them, and the time of the last one; -inf = none
    part_job : (n,) index of the job of each part
    part_server, part_units : (n,) ids of servers, and units that no other job has reserved
    part_freed : (n, 3) memory bytes, network bits/s and storage bytes
    """

    jobs: RunningJobs
    job: "np.ndarray[tuple[int], np.dtype[np.void]]"
    priority: Ints
    preemptions: Ints
    preempted_s: Floats
    part_job: Ints
    part_server: Ints
    part_units: Ints
    part_freed: Ints

    def candidates(
        self,
        now_s: float,
        away_s: float | None,
        limits: PreemptionLimits | None = None,
        only: Collection[UUID] | None = None,
    ) -> Candidates:
        """Return the jobs with the cost of stopping them now.

        Parameters
        ----------
        away_s : pessimistic run time of the job that takes their units; None = unknown
        limits : the units of other jobs than those that they allow make no room; None = no limits
        only : the units of other jobs make no room; None = all jobs
        """
        units = self.part_units
        if limits is not None:
            allowed = limits.allows(self.preemptions, self.preempted_s, now_s)
            units = np.where(allowed[self.part_job], units, 0)
        if only is not None:
            keys = np.array([each.bytes for each in only], dtype="V16")
            named = np.isin(self.job.view("S16"), keys.view("S16"))
            units = np.where(named[self.part_job], units, 0)
        return Candidates(
            job=self.job,
            priority=self.priority,
            lost=self.jobs.lost(now_s),
            breaks=self.jobs.breaks(now_s, away_s),
            part_job=self.part_job,
            part_server=self.part_server,
            part_units=units,
            part_freed=self.part_freed,
        )


def running_cluster(
    priority: int,
    *,
    reserved: Collection[int] = (),
    reserved_on: Collection[int] = (),
    now_s: float | None = None,
) -> RunningCluster:
    """Read the running jobs below a priority as arrays. O(n log n) for n allocations.

    Parameters
    ----------
    reserved, reserved_on : units that are reserved for other jobs, and their servers
    now_s : cluster time up to which suspended jobs are; None = now
    """
    values = {
        **_parameters(priority, now_s),
        "reserved": list(reserved),
        "reserved_on": list(reserved_on),
    }
    rows = fetch_columns(_CANDIDATES, _COLUMNS, values)
    halves = rows["job"].view([("high", ">u8"), ("low", ">u8")])
    order = np.lexsort((halves["low"], halves["high"]))
    rows = {name: column[order] for name, column in rows.items()}
    halves = halves[order]
    is_first = np.ones(order.size, dtype=np.bool_)
    is_first[1:] = halves[1:] != halves[:-1]
    first, part_job = np.flatnonzero(is_first), np.cumsum(is_first) - 1
    units = np.bincount(part_job, rows["units"], minlength=first.size).astype(np.int64)
    of_job = {name: column[first] for name, column in rows.items()}
    return RunningCluster(
        jobs=RunningJobs(units=units, **{
            name: of_job[name]
            for name in ("kind", "seconds", "submitted_s", "started_s", "saved_s", "progress",
                         "run_high_s")
        }),
        job=of_job["job"],
        priority=of_job["priority"],
        preemptions=of_job["preemptions"],
        preempted_s=of_job["preempted_s"],
        part_job=part_job,
        part_server=rows["server"],
        part_units=rows["units"] - rows["reserved"],
        part_freed=np.stack([rows[name] for name in ("memory", "network", "storage")], axis=1),
    )  # fmt: skip


def preemptible_jobs(
    job_ids: Collection[UUID], priority: int, *, now_s: float | None = None
) -> list[PreemptibleJob]:
    """Return those of some jobs that run below a priority, and that their backend can requeue.

    Jobs that start, migrate or are being stopped are left out.
    """
    rows = fetch_rows(_JOBS, {**_parameters(priority, now_s), "jobs": list(job_ids)})
    held: dict[UUID, list[HeldPart]] = defaultdict(list)
    for job, *part in fetch_rows(_HELD, [[row[0] for row in rows]]):
        held[job].append(HeldPart(*part))
    return [_preemptible(row, tuple(held[row[0]])) for row in rows]


def _preemptible(row: tuple[Any, ...], held: tuple[HeldPart, ...]) -> PreemptibleJob:
    job, name, project, application, project_id, priority, launch, *rest = row
    preemptions, preempted_s, target, *times = rest
    submitted_s, started_s, saved_s, progress, run_high_s = times
    run = RunningJob(
        target=json.loads(target),
        units=sum(len(part.units) for part in held),
        submitted_s=submitted_s,
        started_s=started_s,
        saved_s=saved_s,
        progress=progress,
        run_high_s=run_high_s,
    )
    past = PastPreemptions(name, preemptions, preempted_s)
    return PreemptibleJob(
        job, name, project, application, project_id, priority, launch, past, run, held
    )


def _parameters(priority: int, now_s: float | None) -> dict[str, Any]:
    return {
        "priority": priority,
        "now_s": cluster_now() if now_s is None else now_s,
        "requeue": sorted(backends_with(Capability.REQUEUE)),
        "resume": sorted(backends_with(Capability.RESUME)),
    }


def victims_are_stopping(job_id: UUID) -> bool:
    """Return True if jobs are being stopped whose units are reserved for a job."""
    rows = fetch_rows(_STOPPING, [job_id])
    return bool(rows[0][0])


def first_of_request(job: Job) -> str | None:
    """Return the name of the oldest job that waits with the same request; None if it is this one.

    Equal jobs start in the order of their age, and jobs that are stopped for a younger one would
    let the older one wait.
    """
    same = Job.objects.filter(shape_id=job.shape_id, held=False, cancel_requested=False)
    oldest = same.order_by("created_at", "id").first()
    return None if oldest is None or oldest.pk == job.pk else oldest.name


# shapes in their order before the look-ups of their jobs, which end at the limit
_WAITING: Final = """
SELECT next.id FROM (
    SELECT id, priority, queued_at FROM workloads_waitingshape
    WHERE reason_code = ANY(%(reasons)s)
      AND priority > (SELECT min(priority) FROM workloads_job WHERE state = 'running')
    ORDER BY priority DESC, queued_at, id) s, LATERAL (
    SELECT j.id FROM workloads_job j
    WHERE j.shape_id = s.id AND j.state = 'queued' AND NOT j.held AND NOT j.cancel_requested
    ORDER BY j.created_at, j.id LIMIT 1) next
WHERE next.id <> ALL(%(besides)s)
ORDER BY s.priority DESC, s.queued_at, s.id LIMIT %(limit)s
"""


def jobs_to_preempt_for(
    reasons: Collection[str], *, limit: int, besides: Collection[UUID] = ()
) -> list[UUID]:
    """Return the oldest jobs of the refused shapes of the highest priority, besides some jobs.

    Only shapes of a higher priority than some running job.
    """
    values = {"reasons": sorted(reasons), "limit": limit, "besides": list(besides)}
    return [job for (job,) in fetch_rows(_WAITING, values)]


def proposed_preemptions() -> QuerySet[PreemptionProposal]:
    """Return the proposals that wait for an operator, newest first."""
    return PreemptionProposal.objects.filter(state=ProposalState.PROPOSED).order_by("-id")


def proposal_by_id(proposal_id: int) -> PreemptionProposal:
    """Return a proposal.

    Raises
    ------
    NotFoundError : there is none.
    """
    found = PreemptionProposal.objects.filter(pk=proposal_id).first()
    if found is None:
        raise NotFoundError(f"there is no preemption proposal {proposal_id}")
    return found


def proposals_for(jobs: QuerySet[Job]) -> QuerySet[PreemptionProposal]:
    """Return the proposals for some waiting jobs, of every state."""
    return PreemptionProposal.objects.filter(job_id__in=jobs.values("id"))


def applied_for(job_id: UUID) -> int:
    """Return the number of proposals that were applied for a job."""
    return PreemptionProposal.objects.filter(job_id=job_id, state=ProposalState.APPLIED).count()


def was_dismissed(job_id: UUID, *, since_s: float) -> bool:
    """Return whether an operator has dismissed a proposal for a job since a cluster time."""
    return PreemptionProposal.objects.filter(
        job_id=job_id, state=ProposalState.DISMISSED, decided_s__gt=since_s
    ).exists()


def victims_since(cluster_s: float) -> int:
    """Return the number of victims of proposals that were applied since a cluster time."""
    applied = PreemptionProposal.objects.filter(
        state=ProposalState.APPLIED, decided_s__gt=cluster_s
    )
    return applied.aggregate(total=Coalesce(Sum("victims"), 0))["total"]
