"""The feedback loop: what running jobs achieve goes back to where their predictions come from.

Looks for jobs whose next observation is due, writes each down once, and lets classification learn
from the observations of the applications concerned. One look at a time: whoever comes while
another one is looking has nothing to do.

Source: Quasar §3.2 and §4.1 (Q5), Paragon §3.4 (P7).
"""

import json
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db import connection

from apps.classification.core.feedback import Observation, Part
from apps.classification.selectors.known import counted_since
from apps.classification.services.feedback import (
    REMEMBERED,
    Achieved,
    learn,
    record_achieved,
)
from apps.common.poke import poke
from apps.execution.core.telemetry import (
    EVERY_S,
    FIRST_S,
    LEAST_S,
    Rate,
    Run,
    Sample,
    busy_share,
    column_of,
    rate,
)
from apps.execution.services import CLASSIFY_QUEUE, CLASSIFY_TASK
from apps.inventory.selectors import cluster_now
from apps.scheduling.selectors import beyond_tolerance_of
from apps.workloads.core.targets import read_target

_LOOKING: Final = 7103  # advisory lock; the logs hold 7101 and 7102
ENDED_WITHIN_S: Final = 600.0  # wall seconds for which the end of a job is looked at
CHUNK: Final = 500

# A job counts where its target and its application say what its reports mean, and where there is a
# profile to hold them against. After a move it is observed anew, on what it holds since then.
_DUE: Final = """
WITH seen AS (
    SELECT j.id, j.application_id, j.target, j.target_kind, j.input_bytes, j.tasks_total, j.units,
           j.duration_s, j.attempts, j.started_s, a.kind,
           CASE WHEN j.state = 'succeeded' THEN j.finished_s END AS finished_s,
           coalesce(e.number, 0) AS number,
           greatest(e.cluster_s, j.started_s, m.moved_s) AS since_s,
           coalesce(e.cluster_s >= greatest(j.started_s, m.moved_s), false) AS is_continued
    FROM workloads_job j
    JOIN workloads_application a ON a.id = j.application_id
    JOIN classification_profile p ON p.application_id = a.id AND p.is_current
    LEFT JOIN LATERAL (
        SELECT number, cluster_s FROM classification_predictionerror
        WHERE job_id = j.id ORDER BY number DESC LIMIT 1) e ON true
    CROSS JOIN LATERAL (
        SELECT max(ended_s) AS moved_s FROM execution_migration
        WHERE job_id = j.id AND started_s IS NOT NULL) m
    WHERE (j.state = 'running'
           OR j.state = 'succeeded' AND j.finished_at > now() - make_interval(secs => %s))
      AND CASE a.kind WHEN 'latency_critical' THEN j.target_kind = 'throughput_latency'
                      ELSE j.target_kind IN ('completion_time', 'best_effort')
                               AND j.input_bytes > 0
                           OR j.target_kind = 'ips' AND a.kind = 'single_node' END)
SELECT * FROM seen
WHERE coalesce(finished_s, %s) - since_s >= CASE WHEN finished_s IS NOT NULL THEN %s
                                                 WHEN is_continued THEN %s ELSE %s END
ORDER BY since_s, id
"""
_SAMPLES: Final = """
SELECT s.job_id, s.cluster_s, s.progress, s.performance
FROM unnest(%s::uuid[], %s::float8[]) AS d(job, since_s)
JOIN execution_jobsample s ON s.job_id = d.job AND s.cluster_s >= d.since_s
ORDER BY s.job_id, s.cluster_s
"""
# What a job worked on at a moment: not what is only reserved, nor what it had left by then though
# it was given back a little later. Allocations of one server are one part.
_PARTS: Final = """
SELECT d.place, a.decision_id, c.predicted->>'setting', p.name, sum(a.cores),
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
GROUP BY d.place, a.decision_id, c.predicted->>'setting', p.name, a.server_id
ORDER BY d.place, a.server_id
"""
_CHANGED: Final = """
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
class _Due:
    """A job whose next observation is due."""

    job_id: UUID
    application_id: UUID
    number: int
    kind: str
    tasks: int
    run: Run


class _Held(NamedTuple):
    """What a job held at some moment."""

    run: str
    setting: str
    parts: tuple[Part, ...]
    decision: UUID
    has_moved: bool  # away from the neighbours that its decision knew


def give_feedback() -> int:
    """Take in what jobs achieved since the last look; returns the number of applications."""
    with _alone() as is_alone:
        if not is_alone:
            return 0
        changed: set[UUID] = set()
        due = _due()
        for begin in range(0, len(due), CHUNK):
            changed |= record_achieved(_achieved(due[begin : begin + CHUNK]))
        drawn = [learn(key, seen) for key, seen in _histories(changed).items()]
        if any(drawn):
            poke(CLASSIFY_TASK, queue=CLASSIFY_QUEUE)
        return len(changed)


@contextmanager
def _alone() -> Iterator[bool]:
    """Hold the right to look, if nobody else does; ends with the connection at the latest."""
    (is_alone,) = _rows("SELECT pg_try_advisory_lock(%s)", [_LOOKING])[0]
    try:
        yield is_alone
    finally:
        if is_alone:
            _rows("SELECT pg_advisory_unlock(%s)", [_LOOKING])


def _due() -> list[_Due]:
    waits = [ENDED_WITHIN_S, cluster_now(), LEAST_S, EVERY_S, FIRST_S]
    return [_read_due(row) for row in _rows(_DUE, waits)]


def _read_due(row: tuple[Any, ...]) -> _Due:
    job, application, target, kind, input_bytes, tasks, units, duration_s, attempts, *rest = row
    started_s, application_kind, finished_s, number, since_s, _ = rest
    run = Run(
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
    return _Due(job, application, number + 1, kind, tasks, run)


def _achieved(due: Sequence[_Due]) -> list[Achieved]:
    samples = _samples(due)
    rates = [(one, rate(one.run, samples[one.job_id])) for one in due]
    told = [(one, found) for one, found in rates if found is not None]
    changed = _changed([(one.job_id, one.run.since_s, found.at_s) for one, found in told])
    told = [pair for place, pair in enumerate(told, 1) if place not in changed]
    held = _held([(one.job_id, found.at_s) for one, found in told])
    beyond = beyond_tolerance_of(
        where.decision for where in held if where is not None and not where.has_moved
    )
    return [
        Achieved(
            application_id=one.application_id,
            job_id=one.job_id,
            number=one.number,
            at_s=found.at_s,
            seen=_observation(where, found, one.tasks, beyond.get(where.decision, 0.0)),
        )
        for (one, found), where in zip(told, held, strict=True)
        if where is not None
    ]


def _samples(due: Iterable[_Due]) -> Mapping[UUID, list[Sample]]:
    since = {one.job_id: one.run.since_s for one in due}
    found: dict[UUID, list[Sample]] = defaultdict(list)
    for job, *numbers in _rows(_SAMPLES, [list(since), list(since.values())]):
        found[job].append(Sample(*numbers))
    return found


def _changed(spans: Sequence[tuple[UUID, float, float]]) -> set[int]:
    """Places, from 1, of the spans in which something of the job was on its way elsewhere.

    To be asked after the reports were read: a move is told before the first report it touches.
    """
    columns = [list(column) for column in zip(*spans, strict=True)] or [[], [], []]
    return {place for (place,) in _rows(_CHANGED, columns)}


def _held(moments: Sequence[tuple[UUID, float]]) -> list[_Held | None]:
    """Read what jobs held at some moments; None where a server of theirs is gone."""
    rows = _rows(_PARTS, [[job for job, _ in moments], [at_s for _, at_s in moments]])
    parts: dict[int, list[Part]] = defaultdict(list)
    runs: dict[int, tuple[UUID, str]] = {}
    moved: dict[int, int] = defaultdict(int)
    for place, decision, setting, platform, cores, moved_to in rows:
        parts[place].append(Part(platform, cores))
        moved[place] = max(moved[place], moved_to or 0)
        runs[place] = (decision, setting or "")
    gone = {place for place, _, _, platform, *_ in rows if platform is None}

    def held(place: int) -> _Held:
        (decision, setting), move = runs[place], moved[place]
        run = f"{decision}/{move}" if move else str(decision)  # it has other neighbours then
        return _Held(run, setting, tuple(parts[place]), decision, has_moved=move > 0)

    return [
        held(place) if place in runs and place not in gone else None
        for place in range(1, len(moments) + 1)
    ]


def _observation(held: _Held, found: Rate, tasks: int, beyond: float) -> Observation:
    units = sum(part.units for part in held.parts)
    return Observation(
        run=held.run,
        parts=held.parts,
        column=found.column,
        rate=found.per_s,
        deviation=found.deviation,
        busy=busy_share(tasks, units),
        setting=held.setting,
        beyond=beyond,
    )


def _histories(application_ids: Collection[UUID]) -> dict[UUID, list[Observation]]:
    """Observations that count, oldest first, of each of these applications."""
    keys = sorted(application_ids)
    since = counted_since(keys)
    starts = [since.get(key, -math.inf) for key in keys]
    rows = _rows(_HISTORY, [keys, starts, REMEMBERED])
    held = _held([(job, at_s) for _, job, at_s, *_ in rows])
    found: dict[UUID, list[Observation]] = {key: [] for key in keys}
    for row, where in zip(rows, held, strict=True):
        application, _, at_s, measured, beyond, kind, tasks = row
        if where is not None:
            seen = Rate(at_s, *_in_column(kind, measured))
            found[application].append(_observation(where, seen, tasks, beyond))
    return found


def _in_column(kind: str, measured: float) -> tuple[str, float, float]:
    column, deviation = column_of(kind)
    return column, measured, deviation


# Django leaves JSON columns of plain cursors as text
def _rows(sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall()
