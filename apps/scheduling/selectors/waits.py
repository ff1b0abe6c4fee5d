"""Waiting jobs with their reasons and start estimates, and scores of earlier estimates.

Both read only jobs of the given projects; None: of all.
"""

import math
from collections.abc import Collection, Sequence
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.db.models import Max

from apps.common.infrastructure.database import fetch_rows
from apps.scheduling.core.admission.types import WINDOW_S, AdmissionNow, Control, QueueState
from apps.scheduling.core.starts.waits import (
    MAX_JOBS,
    StartScore,
    WaitingArray,
    WaitingCount,
    WaitingJob,
    WaitingJobs,
)
from apps.scheduling.models import AdmissionState, Allocation, StartEstimate
from apps.workloads.core.reasons import MEANINGS, Reason
from apps.workloads.models import Job

DAY_S: Final = 86_400.0
REQUESTED: Final = 2000  # submissions whose units are counted
READ: Final = 10 * REQUESTED  # jobs that are read for them
SCORED: Final = 20_000  # estimates of these projects in the last day, newest first

# when the wait of a waiting job ``j`` began: at its submission, or when it was requeued last
WAITS_SINCE: Final = """CASE WHEN j.attempts = 0 THEN j.submitted_s ELSE coalesce(
    (SELECT max(released_s) FROM scheduling_allocation WHERE job_id = j.id), j.submitted_s) END"""
_WAITS: Final = """j.state = ANY('{submitted,profiling,queued}')
      AND (%(projects)s::uuid[] IS NULL OR j.project_id = ANY(%(projects)s::uuid[]))"""
_REASON: Final = """CASE
    WHEN j.held AND j.reason_code <> 'WaitingForArray' THEN 'Held'
    WHEN j.held THEN j.reason_code
    WHEN j.state = 'profiling' THEN 'WaitingForProfile'
    WHEN j.reason_code = ANY(%(reasons)s::text[]) THEN j.reason_code
    ELSE 'WaitingForAgent' END"""
# A job that its quota refuses shows no earlier estimate: the simulation knows no quotas.
# The estimates of all jobs that match are read, as any of them may start soonest: 3 us each.
_WAITING: Final = f"""
SELECT j.id, j.name, p.name, a.name, j.shape_id, j.held, j.reason, j.reason_message, j.priority,
       {WAITS_SINCE}, coalesce(s.units, j.units_requested),
       j.is_whole OR coalesce(s.on_one_server, false), j.made_s, j.p50_s, j.p90_s,
       j.ahead, r.start_s, b.id, b.name, b.array_limit
FROM (
    SELECT j.*, {_REASON} AS reason, j.gang OR j.constraints->>'locality' IS NOT NULL AS is_whole,
           e.made_s, e.p50_s, e.p90_s, e.ahead
    FROM workloads_job j
    LEFT JOIN LATERAL (
        SELECT made_s, p50_s, p90_s, ahead FROM scheduling_startestimate
        WHERE job_id = j.id AND is_open ORDER BY id DESC LIMIT 1) e
        ON j.shape_id IS NOT NULL AND j.reason_code <> '{Reason.QUOTA_EXCEEDED.value}'
    WHERE {_WAITS}
      AND (%(project)s::text IS NULL
           OR j.project_id = (SELECT id FROM accounts_project WHERE name = %(project)s))
      AND (%(reason)s::text IS NULL OR %(reason)s = {_REASON})
    ORDER BY e.p50_s, j.held, j.created_at, j.array_index, j.id LIMIT %(limit)s) j
JOIN accounts_project p ON p.id = j.project_id
JOIN workloads_application a ON a.id = j.application_id
LEFT JOIN workloads_waitingshape s ON s.id = j.shape_id
LEFT JOIN scheduling_reservation r ON r.job_id = j.id
LEFT JOIN LATERAL (
    SELECT id, name, array_limit FROM workloads_batch
    WHERE id = j.batch_id AND j.reason = '{Reason.WAITING_FOR_ARRAY.value}' LIMIT 1) b ON true
ORDER BY j.p50_s, j.held, j.created_at, j.array_index, j.id
"""  # noqa: S608 - constants
_COUNTS: Final = f"""
SELECT p.name, w.reason, w.jobs
FROM (
    SELECT j.project_id, {_REASON} AS reason, count(*) AS jobs FROM workloads_job j
    WHERE {_WAITS} GROUP BY 1, 2) w
JOIN accounts_project p ON p.id = w.project_id
"""  # noqa: S608 - constants
# An estimate without a p5 is unknown: it has no interval that a start could be compared with.
_SCORES: Final = """
SELECT kind, count(p5_s), count(*) - count(p5_s),
       avg((placed_s BETWEEN p5_s AND high_s)::int) FILTER (WHERE p5_s IS NOT NULL),
       avg((placed_s <= late_s)::int) FILTER (WHERE p5_s IS NOT NULL),
       percentile_cont(0.5) WITHIN GROUP (ORDER BY error_s) FILTER (WHERE p5_s IS NOT NULL),
       avg(placed_s - made_s)
FROM (
    SELECT DISTINCT ON (e.job_id) e.kind, e.placed_s, e.made_s, e.p5_s,
           coalesce(e.p95_s, 'infinity') AS high_s, coalesce(e.p90_s, 'infinity') AS late_s,
           e.placed_s - coalesce(e.p50_s, 'infinity') AS error_s
    FROM (
        SELECT * FROM scheduling_startestimate s
        WHERE s.placed_s > %(since)s AND (%(projects)s::uuid[] IS NULL OR EXISTS (
            SELECT FROM workloads_job j
            WHERE j.id = s.job_id AND j.project_id = ANY(%(projects)s::uuid[])))
        ORDER BY s.placed_s DESC LIMIT %(limit)s) e
    ORDER BY e.job_id, e.id) first
GROUP BY kind ORDER BY kind
"""
# Along the index by age. Jobs that ended before an agent evaluated them request nothing; however
# many of them there are, no more than %(read)s jobs are read.
_REQUESTED: Final = """
SELECT count(*), avg(requested)::float8, count(*) = %(limit)s, min(submitted_s)
FROM (
    SELECT submitted_s, coalesce(
        units + units_missing,
        (SELECT s.units FROM workloads_waitingshape s WHERE s.id = shape_id), units_requested)
    FROM (SELECT * FROM workloads_job ORDER BY created_at DESC, id DESC LIMIT %(read)s) j
    WHERE NOT held AND (placed_s IS NOT NULL OR state IN ('submitted', 'profiling', 'queued'))
    ORDER BY created_at DESC, id DESC LIMIT %(limit)s) newest (submitted_s, requested)
WHERE submitted_s > %(since)s
"""


def admission_now() -> AdmissionNow | None:
    """Return the state of the admission control; None if jobs pass none."""
    control = settings.ADMISSION
    if control == Control.NONE:
        return None
    row = AdmissionState.objects.defer("memory").filter(control=control).first()
    if row is None:
        return AdmissionNow(control)
    queues = tuple(QueueState(**queue) for queue in row.queues)
    return AdmissionNow(control, row.at, row.cluster_s, queues)


def admission_memory(control: Control, since_s: float = -math.inf) -> bytes:
    """Return the history of an admission control that an agent stored; empty = none did.

    Parameters
    ----------
    since_s : cluster seconds; an older history counts as none
    """
    rows = AdmissionState.objects.filter(control=control.value, cluster_s__gte=since_s)
    return bytes(rows.values_list("memory", flat=True).first() or b"")


def requested_per_s(now_s: float) -> float | None:
    """Return the units that jobs request per cluster second; None if no size is known.

    Of the newest submissions in the window of the admission controls. Jobs that were never
    evaluated request the mean of the others; held jobs request nothing.
    """
    values = {"limit": REQUESTED, "read": READ, "since": now_s - WINDOW_S}
    ((jobs, units, is_cut, oldest_s),) = fetch_rows(_REQUESTED, values)
    if units is None:
        return None
    span_s = now_s - oldest_s if is_cut else min(WINDOW_S, now_s)
    return float(jobs * units / max(1.0, span_s))


def waiting_jobs(
    projects: Collection[UUID] | None, *, project: str | None = None, reason: str | None = None
) -> WaitingJobs:
    """Return waiting jobs, soonest start first, at most 10,000.

    Jobs without a predicted start follow, oldest first, and then held jobs; members of an array
    by their index.

    Parameters
    ----------
    project, reason : only jobs of the project with this name, or with this reason; None: all
    """
    values = {**_matched(projects), "project": project, "reason": reason}
    rows = fetch_rows(_WAITING, {**values, "limit": MAX_JOBS + 1})
    return WaitingJobs([_waiting_job(row) for row in rows[:MAX_JOBS]], len(rows) > MAX_JOBS)


def waiting_counts(projects: Collection[UUID] | None) -> list[WaitingCount]:
    """Count all waiting jobs by project and reason."""
    return [WaitingCount(*row) for row in fetch_rows(_COUNTS, _matched(projects))]


def waits_since(jobs: Sequence[Job]) -> dict[UUID, float]:
    """Return when the waits of jobs began: at the submission, or at the last requeue.

    Returns
    -------
    Cluster seconds, by job.
    """
    launched = [job.id for job in jobs if job.attempts]
    ends = Allocation.objects.filter(job__in=launched, released_s__isnull=False)
    requeued = dict(ends.values_list("job_id").annotate(Max("released_s"))) if launched else {}
    return {job.id: requeued.get(job.id, job.submitted_s) for job in jobs}


def _matched(projects: Collection[UUID] | None) -> dict[str, Any]:
    return {"projects": _ids(projects), "reasons": [reason.value for reason in Reason]}


def _ids(projects: Collection[UUID] | None) -> list[UUID] | None:
    return None if projects is None else sorted(projects)


def _waiting_job(row: Sequence[Any]) -> WaitingJob:
    key, name, project, application, shape, held, reason, message, priority, *rest = row
    since_s, units, is_whole, made_s, start_s, latest_s, ahead, reserved_s, *array = rest
    return WaitingJob(
        id=key,
        name=name,
        project=project,
        application=application,
        shape=shape,
        units=units,
        is_gang=is_whole,
        reason=reason,
        message="" if held else message,
        tier=MEANINGS[Reason(reason)].tier,
        priority=priority,
        since_s=since_s,
        start_s=start_s,
        latest_s=latest_s,
        ahead=None if made_s is None else ahead,
        reserved_s=None if held else reserved_s,
        is_held=held,
        array=WaitingArray(*array) if array[0] is not None else None,
    )


def start_scores(projects: Collection[UUID] | None, *, now_s: float) -> list[StartScore]:
    """Score the first estimates of the jobs that started in the last day of cluster time."""
    values = {"projects": _ids(projects), "since": now_s - DAY_S, "limit": SCORED}
    return [_start_score(row) for row in fetch_rows(_SCORES, values)]


def _start_score(row: Sequence[Any]) -> StartScore:
    kind, count, unknown, covered, by_p90, bias_s, waited_s = row
    return StartScore(
        kind=kind,
        count=count,
        unknown=unknown,
        covered=None if covered is None else float(covered),
        by_p90=None if by_p90 is None else float(by_p90),
        bias_s=bias_s if bias_s is not None and math.isfinite(bias_s) else None,
        waited_s=waited_s,
    )


def estimates_of(job_id: UUID) -> list[StartEstimate]:
    """Return the estimates of a job, newest first, at most 200."""
    return list(StartEstimate.objects.filter(job_id=job_id).order_by("-id")[:200])


def current_estimate(job: Job) -> StartEstimate | None:
    """Return the current estimate of a waiting job; None if it has none, or a quota refuses it."""
    if job.shape_id is None or job.reason_code == Reason.QUOTA_EXCEEDED:
        return None
    return StartEstimate.objects.filter(job_id=job.pk, is_open=True).order_by("-id").first()
