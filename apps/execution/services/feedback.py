"""The feedback loop: the performance of running jobs corrects their applications' profiles.

Finds the jobs whose next observation is due, records each observation once, and passes the
observations of each application to classification. Only one process runs the loop at a time; the
others return immediately.

Source: Quasar §3.2 and §4.1 (Q5), Paragon §3.4 (P7).
"""

import json
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import UUID

from apps.classification.core.feedback import Observation, ServerUnits
from apps.classification.selectors.known_cells import valid_since
from apps.classification.services.feedback import (
    MAX_OBSERVATIONS,
    JobObservation,
    learn,
    record_observations,
)
from apps.common.infrastructure.advisory_locks import AdvisoryLock, held_if_free
from apps.common.infrastructure.database import fetch_rows
from apps.common.infrastructure.notifications import notify
from apps.execution.core.telemetry import (
    EVERY_S,
    FIRST_S,
    MIN_S,
    ObservedRate,
    ObservedRun,
    Sample,
    busy_share,
    column_of,
    rate,
)
from apps.execution.services.profiles import CLASSIFY_QUEUE, CLASSIFY_TASK
from apps.inventory.selectors import cluster_now
from apps.scheduling.selectors import beyond_tolerance_of
from apps.scheduling.services.allowances import JobSpeed, record_speeds
from apps.workloads.core.targets import read_target

ENDED_WITHIN_S: Final = 600.0  # wall seconds for which an ended job is still observed
NEWEST_ENDED: Final = 4096  # ended jobs that are considered at once
# Jobs of each application that are observed at once, of running and of ended ones each: a random
# sample if more are due. An application learns from its newest ones, and forgets the others.
MAX_OBSERVED: Final = MAX_OBSERVATIONS
SHARE_DUE: Final = (
    0.25  # of the jobs looked up: if fewer are due, fewer than `MAX_OBSERVED` are found
)
CHUNK: Final = 500

# A job is observed if its reports can be compared with a prediction: its application has a
# profile, and its kind and target match. After a migration, or after it was given units, it is
# observed again, on its new allocations. A random sample of those that have run for long enough is
# looked up.
_DUE_JOBS: Final = """
WITH candidate AS (
    SELECT * FROM workloads_job WHERE state = 'running'
    UNION ALL (
        SELECT * FROM workloads_job
        WHERE state = 'succeeded' AND finished_at > now() - make_interval(secs => %(within_s)s)
        ORDER BY finished_at DESC LIMIT %(newest)s)
), sampled AS (
    SELECT j.id, j.application_id, j.target, j.target_kind, j.input_bytes, j.tasks_total, j.units,
           j.duration_s, j.attempts, j.started_s, j.finished_s, j.grown_s, j.state, a.kind,
           row_number() OVER (PARTITION BY j.application_id, j.state
                              ORDER BY random()) AS place
    FROM candidate j
    JOIN workloads_application a ON a.id = j.application_id
    JOIN classification_profile p ON p.application_id = a.id AND p.is_current
    WHERE j.units_pending = 0
      AND CASE a.kind WHEN 'latency_critical' THEN j.target_kind = 'throughput_latency'
                      ELSE j.target_kind IN ('completion_time', 'best_effort')
                               AND j.input_bytes > 0
                           OR j.target_kind = 'ips' AND a.kind = 'single_node' END
      AND CASE j.state WHEN 'succeeded' THEN j.finished_s ELSE %(now_s)s END
              - greatest(j.started_s, j.grown_s)
          >= CASE j.state WHEN 'succeeded' THEN %(ended_s)s ELSE %(first_s)s END
), observable AS (
    SELECT j.id, j.application_id, j.target, j.target_kind, j.input_bytes, j.tasks_total, j.units,
           j.duration_s, j.attempts, j.started_s, j.kind, j.grown_s IS NULL AS is_whole,
           CASE WHEN j.state = 'succeeded' THEN j.finished_s END AS finished_s,
           coalesce(e.number, 0) AS number,
           greatest(e.cluster_s, j.started_s, m.moved_s, j.grown_s) AS since_s,
           coalesce(e.cluster_s >= greatest(j.started_s, m.moved_s, j.grown_s), false)
               AS is_continued
    FROM sampled j
    LEFT JOIN LATERAL (
        SELECT number, cluster_s FROM classification_predictionerror
        WHERE job_id = j.id ORDER BY number DESC LIMIT 1) e ON true
    CROSS JOIN LATERAL (
        SELECT max(ended_s) AS moved_s FROM execution_migration
        WHERE job_id = j.id AND started_s IS NOT NULL) m
    WHERE j.place <= %(considered)s
), due AS (
    SELECT *, row_number() OVER (PARTITION BY application_id, finished_s IS NULL
                                 ORDER BY random()) AS place
    FROM observable
    WHERE coalesce(finished_s, %(now_s)s) - since_s >= CASE
        WHEN finished_s IS NOT NULL THEN %(ended_s)s
        WHEN is_continued THEN %(every_s)s ELSE %(first_s)s END
)
SELECT id, application_id, target, target_kind, input_bytes, tasks_total, units, duration_s,
       attempts, started_s, kind, is_whole, finished_s, number, since_s
FROM due WHERE place <= %(most)s
ORDER BY since_s, id
"""
_SAMPLES: Final = """
SELECT s.job_id, s.cluster_s, s.progress, s.performance, coalesce(s.offered_qps, 'NaN')
FROM unnest(%s::uuid[], %s::float8[]) AS d(job, since_s)
JOIN execution_jobsample s ON s.job_id = d.job AND s.cluster_s >= d.since_s
    AND s.progress IS NOT NULL
ORDER BY s.job_id, s.cluster_s
"""
# The allocations on which a job ran at a moment: neither reserved ones, nor those it had already
# left but not yet released. Allocations on one server form one part.
_PARTS: Final = """
SELECT d.place, a.decision_id, c.predicted->>'setting',
       (c.predicted->'slow_rates'->>p.name)::float8, p.name, sum(a.cores),
       max(CASE WHEN a.moved_from IS NOT NULL THEN a.id END)
FROM unnest(%s::uuid[], %s::float8[]) WITH ORDINALITY AS d(job, at_s, place)
JOIN scheduling_allocation a ON a.job_id = d.job
     AND CASE WHEN a.moved_from IS NULL THEN a.acquired_s ELSE a.moved_s END <= d.at_s
     AND (a.released_s IS NULL OR a.released_s >= d.at_s)
JOIN scheduling_decision c ON c.id = a.decision_id
LEFT JOIN inventory_server s ON s.id = a.server_id
LEFT JOIN inventory_platform p ON p.id = s.platform_id
WHERE NOT EXISTS (
    SELECT FROM scheduling_allocation n WHERE n.moved_from = a.id AND n.moved_s <= d.at_s)
GROUP BY d.place, a.decision_id, c.predicted, p.name, a.server_id
ORDER BY d.place, a.server_id
"""
_OVERLAPPING_MIGRATIONS: Final = """
SELECT d.place
FROM unnest(%s::uuid[], %s::float8[], %s::float8[]) WITH ORDINALITY AS d(job, since_s, at_s, place)
WHERE EXISTS (
    SELECT FROM execution_migration m
    WHERE m.job_id = d.job AND m.started_s < d.at_s AND coalesce(m.ended_s > d.since_s, true))
"""
_HISTORY: Final = """
SELECT e.application_id, e.job_id, e.cluster_s, e.measured, e.beyond, j.target_kind,
       j.tasks_total
FROM unnest(%s::uuid[], %s::float8[]) AS d(application, since_s)
JOIN LATERAL (
    SELECT * FROM classification_predictionerror
    WHERE application_id = d.application AND cluster_s >= d.since_s
    ORDER BY cluster_s DESC LIMIT %s) e ON true
JOIN workloads_job j ON j.id = e.job_id
ORDER BY e.cluster_s, e.job_id, e.number
"""


@dataclass(frozen=True, slots=True)
class _DueJob:
    """A job whose next observation is due."""

    job_id: UUID
    application_id: UUID
    number: int
    kind: str
    tasks: int
    is_whole: bool  # it was never given units later
    run: ObservedRun


class _Placement(NamedTuple):
    """The allocations of a job at one moment."""

    run: str
    setting: str
    parts: tuple[ServerUnits, ...]
    decision: UUID
    slow_rate: float | None  # pessimistic work per second there, without an allowance
    has_migrated: bool  # its neighbours differ from those at its decision


def update_from_feedback() -> int:
    """Record the observations that are due; returns the number of applications observed."""
    with held_if_free(AdvisoryLock.FEEDBACK) as is_ours:
        if not is_ours:
            return 0
        changed: set[UUID] = set()
        due = _due_jobs()
        for begin in range(0, len(due), CHUNK):
            found = _observed(due[begin : begin + CHUNK])
            changed |= record_observations(_observations(found))
            record_speeds(_speeds(found), now_s=cluster_now())
        requested = [learn(key, history) for key, history in _histories(changed).items()]
        if any(requested):
            notify(CLASSIFY_TASK, queue=CLASSIFY_QUEUE)
        return len(changed)


def _due_jobs() -> list[_DueJob]:
    parameters: dict[str, Any] = {
        "within_s": ENDED_WITHIN_S,
        "newest": NEWEST_ENDED,
        "now_s": cluster_now(),
        "ended_s": MIN_S,
        "every_s": EVERY_S,
        "first_s": FIRST_S,
        "most": MAX_OBSERVED,
        "considered": math.ceil(MAX_OBSERVED / SHARE_DUE),
    }
    return [_read_due(row) for row in fetch_rows(_DUE_JOBS, parameters)]


def _read_due(row: tuple[Any, ...]) -> _DueJob:
    job, application, target, kind, input_bytes, tasks, units, duration_s, attempts, *rest = row
    started_s, application_kind, is_whole, finished_s, number, since_s = rest
    run = ObservedRun(
        target=read_target(json.loads(target)),
        input_bytes=float(input_bytes),
        units=units,
        duration_s=duration_s,
        is_service=application_kind == "latency_critical",
        is_first_run=attempts == 1,
        started_s=started_s,
        since_s=since_s,
        finished_s=finished_s,
    )
    return _DueJob(job, application, number + 1, kind, tasks, is_whole, run)


class _Observed(NamedTuple):
    """A job, its measured rate, and where it ran."""

    job: _DueJob
    rate: ObservedRate
    placement: _Placement


def _observed(due: Sequence[_DueJob]) -> list[_Observed]:
    samples = _samples(due)
    all_rates = [(job, rate(job.run, samples[job.job_id])) for job in due]
    rates = [(job, observed) for job, observed in all_rates if observed is not None]
    migrating = _migrating([(job.job_id, job.run.since_s, x.at_s) for job, x in rates])
    rates = [pair for place, pair in enumerate(rates, 1) if place not in migrating]
    placements = _placements([(job.job_id, observed.at_s) for job, observed in rates])
    return [
        _Observed(job, observed, placement)
        for (job, observed), placement in zip(rates, placements, strict=True)
        if placement is not None
    ]


def _observations(found: Sequence[_Observed]) -> list[JobObservation]:
    beyond = beyond_tolerance_of(
        each.placement.decision for each in found if not each.placement.has_migrated
    )
    return [
        JobObservation(
            application_id=job.application_id,
            job_id=job.job_id,
            number=job.number,
            at_s=observed.at_s,
            observation=_observation(
                placement, observed, job.tasks, beyond.get(placement.decision, 0.0)
            ),
        )
        for job, observed, placement in found
    ]


def _speeds(found: Sequence[_Observed]) -> list[JobSpeed]:
    """Return the speeds of jobs that run as they were sized: all of it, on the same servers."""
    return [
        JobSpeed(job.job_id, job.kind, observed.per_s / placement.slow_rate, observed.at_s)
        for job, observed, placement in found
        if placement.slow_rate
        and job.is_whole
        and job.run.is_first_run
        and not placement.has_migrated
    ]


def _samples(due: Iterable[_DueJob]) -> Mapping[UUID, list[Sample]]:
    since = {job.job_id: job.run.since_s for job in due}
    samples: dict[UUID, list[Sample]] = defaultdict(list)
    for job, *numbers in fetch_rows(_SAMPLES, [list(since), list(since.values())]):
        samples[job].append(Sample(*numbers))
    return samples


def _migrating(spans: Sequence[tuple[UUID, float, float]]) -> set[int]:
    """Places, from 1, of the (job, since, until) spans that overlap with a migration of the job.

    Call it after reading the reports: a migration is recorded before the first report it affects.
    """
    columns = [list(column) for column in zip(*spans, strict=True)] or [[], [], []]
    return {place for (place,) in fetch_rows(_OVERLAPPING_MIGRATIONS, columns)}


def _placements(moments: Sequence[tuple[UUID, float]]) -> list[_Placement | None]:
    """Placements of (job, time) pairs; None if one of the servers was removed."""
    rows = fetch_rows(_PARTS, [[job for job, _ in moments], [at_s for _, at_s in moments]])
    parts: dict[int, list[ServerUnits]] = defaultdict(list)
    slow_rates: dict[int, list[float | None]] = defaultdict(list)
    runs: dict[int, tuple[UUID, str]] = {}
    migrated: dict[int, int] = defaultdict(int)
    for place, decision, setting, slow_rate, platform, cores, migrated_to in rows:
        parts[place].append(ServerUnits(platform, cores))
        migrated[place] = max(migrated[place], migrated_to or 0)
        slow_rates[place].append(slow_rate)
        runs[place] = (decision, setting or "")
    removed = {place for place, _, _, _, platform, *_ in rows if platform is None}

    def placement(place: int) -> _Placement:
        (decision, setting), last = runs[place], migrated[place]
        known = [rate for rate in slow_rates[place] if rate is not None]
        slow_rate = min(known) if len(known) == len(slow_rates[place]) else None
        run = f"{decision}/{last}" if last else str(decision)  # a migration changes the neighbours
        return _Placement(
            run, setting, tuple(parts[place]), decision, slow_rate, has_migrated=last > 0
        )

    return [
        placement(place) if place in runs and place not in removed else None
        for place in range(1, len(moments) + 1)
    ]


def _observation(
    placement: _Placement, observed: ObservedRate, tasks: int, beyond: float
) -> Observation:
    units = sum(part.units for part in placement.parts)
    return Observation(
        run=placement.run,
        parts=placement.parts,
        column=observed.column,
        rate=observed.per_s,
        deviation=observed.deviation,
        busy=busy_share(tasks, units),
        setting=placement.setting,
        beyond=beyond,
    )


def _histories(application_ids: Collection[UUID]) -> dict[UUID, list[Observation]]:
    """Read the valid observations of each application, oldest first."""
    keys = sorted(application_ids)
    since = valid_since(keys)
    starts = [since.get(key, -math.inf) for key in keys]
    rows = fetch_rows(_HISTORY, [keys, starts, MAX_OBSERVATIONS])
    placements = _placements([(job, at_s) for _, job, at_s, *_ in rows])
    histories: dict[UUID, list[Observation]] = {key: [] for key in keys}
    for row, placement in zip(rows, placements, strict=True):
        application, _, at_s, measured, beyond, kind, tasks = row
        if placement is not None:
            column, deviation = column_of(kind)
            observed = ObservedRate(at_s, column, measured, deviation)
            histories[application].append(_observation(placement, observed, tasks, beyond))
    return histories
