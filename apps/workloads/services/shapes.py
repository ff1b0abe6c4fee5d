"""Waiting shapes: which refused jobs agents evaluate again, and when.

Refused jobs wait in the shape of their request. Agents evaluate only the oldest jobs of a shape,
and those for which units are reserved, when capacity that they need was freed or when the shape is
due; new jobs of that shape join it without an evaluation.

Rows are locked in the order of `common.infrastructure.locks`, shapes by key.
"""

import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import connection, transaction

from apps.common.infrastructure.database import (
    database_now,
    fetch_rows,
    number_array,
    without_index,
)
from apps.operations.services import record_events
from apps.workloads.core.reasons import Reason
from apps.workloads.core.shapes import Freed
from apps.workloads.services.growth import BEFORE_ALL
from apps.workloads.services.rows import row_event
from apps.workloads.services.turns import (
    EQUAL_SHARE,
    JOB_IS_NEW,
    JOB_IS_UNCLAIMED,
    NO_SHARES,
    PROJECTS_OF_NEW_JOBS,
    PROJECTS_OF_SHAPES,
    SHARE,
    SHARES,
    shares_as_values,
)
from apps.workloads.services.waiting import CLAIM_S, IS_JOINED, RETRY_S

MAX_ALLOWANCE: Final = 128  # jobs of one shape that are evaluated at once

# Only the first jobs of each project are compared with the shapes: the others are read later.
_JOINING: Final = f"""
WITH RECURSIVE {PROJECTS_OF_NEW_JOBS}
SELECT j.id, s.id FROM projects p, LATERAL (
    SELECT j.id, j.shape_key FROM workloads_job j
    WHERE j.project_id = p.id AND {JOB_IS_NEW} AND {JOB_IS_UNCLAIMED}
    ORDER BY j.priority DESC, j.created_at, j.id LIMIT %(limit)s) j
JOIN workloads_waitingshape s ON s.key = j.shape_key AND {IS_JOINED}
LIMIT %(limit)s
"""  # noqa: S608 - constants
_JOIN: Final = f"""
UPDATE workloads_job AS j
SET state = 'queued', queued_s = coalesce(j.queued_s, %(cluster_s)s), shape_id = s.id,
    reason_code = s.reason_code, reason_message = s.reason_message, reason_also = s.reason_also,
    claimed_by = '', claimed_until = NULL, updated_at = now(), generation = j.generation + 1
FROM unnest(%(jobs)s::uuid[], %(shapes)s::bigint[]) AS d(job_id, shape_id)
JOIN workloads_waitingshape AS s ON s.id = d.shape_id
WHERE j.id = d.job_id AND s.key = j.shape_key AND {without_index(JOB_IS_NEW)}
  AND {JOB_IS_UNCLAIMED}
RETURNING j.id, j.name, j.project_id, j.state, j.reason_code
"""  # noqa: S608 - constants


def join_shapes(*, cluster_s: float, limit: int = 500) -> int:
    """Queue new jobs whose shape could not be placed, with its reason; returns their number.

    They are not evaluated: the older jobs of their shape come first.
    """
    now = database_now()
    with transaction.atomic():
        joining = fetch_rows(_JOINING, {"now": now, "limit": limit})
        if not joining:
            return 0
        shapes = fetch_rows(
            # the lock keeps the shapes from being deleted as empty
            "SELECT id FROM workloads_waitingshape WHERE id = ANY(%s) ORDER BY id FOR KEY SHARE",
            [sorted({shape for _, shape in joining})],
        )
        jobs = fetch_rows(
            "SELECT id FROM workloads_job WHERE id = ANY(%s) FOR NO KEY UPDATE SKIP LOCKED",
            [[job for job, _ in joining]],
        )
        locked = {row[0] for row in [*shapes, *jobs]}
        pairs = [(job, shape) for job, shape in joining if {job, shape} <= locked]
        rows = fetch_rows(
            _JOIN,
            {
                "cluster_s": cluster_s,
                "now": now,
                "jobs": [job for job, _ in pairs],
                "shapes": [shape for _, shape in pairs],
            },
        )
        record_events([row_event("job.waiting", row, reason=row[4]) for row in rows])
    return len(rows)


@dataclass(frozen=True, slots=True)
class ClaimedShapes:
    """Shapes that an agent evaluates, and the oldest jobs of them, which it has claimed.

    Attributes
    ----------
    found : number of shapes to evaluate, including those without a claimable job
    """

    shape_ids: Sequence[int] = ()
    job_ids: Sequence[UUID] = ()
    found: int = 0


_SHAPE_IS_UNCLAIMED: Final = "(s.claimed_until IS NULL OR s.claimed_until < %(now)s)"
_DUE: Final = f"""
SELECT s.id, s.allowance FROM workloads_waitingshape s
WHERE s.due_at <= %(now)s AND {_SHAPE_IS_UNCLAIMED}
ORDER BY s.due_at LIMIT %(limit)s FOR UPDATE SKIP LOCKED
"""  # noqa: S608 - constants
_WOKEN: Final = f"""
WITH RECURSIVE {PROJECTS_OF_SHAPES}, freed AS MATERIALIZED (
    SELECT * FROM jsonb_to_recordset(%(freed)s::jsonb) AS f(
        platform text, labels jsonb, units int, memory_bytes bigint, network_bps bigint,
        storage_bytes bigint, wakes jsonb, sequence bigint))
SELECT next.id, CASE WHEN %(fair)s
    THEN greatest(next.allowance, least(%(most)s, %(free)s / greatest(1, next.min_units)))
    ELSE next.allowance END
FROM projects p LEFT JOIN {SHARES} ON shares.project = p.id, LATERAL (
    SELECT s.id, s.allowance, s.priority, s.queued_at, s.min_units
    FROM workloads_waitingshape s
    WHERE s.project_id = p.id AND {_SHAPE_IS_UNCLAIMED} AND s.min_units <= %(free)s
      AND NOT s.id = ANY(%(claimed)s)
      AND EXISTS (
        SELECT FROM freed f
        WHERE s.evaluated_seq < f.sequence AND f.wakes ? s.waits_for
          AND (s.platforms IS NULL OR s.platforms ? f.platform) AND f.labels @> s.labels
          AND (NOT s.on_one_server OR s.min_units <= f.units)
          AND s.unit_memory_bytes <= f.memory_bytes AND s.unit_network_bps <= f.network_bps
          AND s.unit_storage_bytes <= f.storage_bytes)
    ORDER BY s.priority DESC, s.queued_at, s.id
    LIMIT {EQUAL_SHARE} FOR UPDATE SKIP LOCKED) next
ORDER BY row_number() OVER (
    PARTITION BY p.id ORDER BY next.priority DESC, next.queued_at, next.id),
    next.priority DESC, {SHARE}, next.queued_at, next.id
LIMIT %(limit)s
"""  # noqa: S608 - constants
_CLAIM_OLDEST: Final = f"""
UPDATE workloads_job SET claimed_by = %(agent)s, claimed_until = %(until)s
WHERE id = ANY(ARRAY(
    SELECT oldest.id FROM unnest(%(shapes)s::bigint[], %(allowances)s::int[]) AS d(id, allowance),
    LATERAL (
        SELECT j.id FROM workloads_job j WHERE j.shape_id = d.id AND {JOB_IS_UNCLAIMED}
        ORDER BY j.created_at, j.id LIMIT d.allowance FOR NO KEY UPDATE SKIP LOCKED) oldest)
  || ARRAY(
    SELECT j.id FROM workloads_job j
    WHERE j.id = ANY(%(always)s::uuid[]) AND {without_index("j.shape_id = ANY(%(shapes)s)")}
      AND {JOB_IS_UNCLAIMED} LIMIT %(left)s FOR NO KEY UPDATE SKIP LOCKED))
RETURNING id, shape_id
"""  # noqa: S608 - constants


def claim_shapes(
    *,
    agent: str,
    limit: int,
    paths: int = MAX_ALLOWANCE,
    freed: Freed | None = None,
    shares: Mapping[UUID, float] = NO_SHARES,
    always: Collection[UUID] = (),
) -> ClaimedShapes:
    """Claim shapes to evaluate again, at most ``limit``, and the oldest jobs of each.

    A quarter of the limit is kept for shapes that are due; the rest is for shapes that ``freed``
    may let start, with an equal share for every project. Shapes without jobs are deleted.

    Parameters
    ----------
    shares : of the cluster, by project: the smaller one of equal shapes comes first, with as many
        jobs as may start, so that no job of a larger share starts before them
    paths : of jobs, at most
    always : jobs that are claimed with their shapes, however many older jobs these have
    """
    now = database_now()
    values: dict[str, Any] = {"now": now, "until": now + timedelta(seconds=CLAIM_S)}
    values |= {**shares_as_values(shares), "fair": bool(shares), "most": MAX_ALLOWANCE}
    with transaction.atomic():
        due = limit if freed is None else -(-limit // 4)
        found = fetch_rows(_DUE, {**values, "limit": due})
        if freed is not None and len(found) < limit:
            found += _woken(freed, values, limit - len(found), [row[0] for row in found])
        if not found:
            return ClaimedShapes()
        # with one path, a job with a reservation comes if it is the oldest of its shape
        others = min(MAX_ALLOWANCE, paths - 1 if always and paths > 1 else paths)
        shapes = dict(_within(found, others))
        claimed = fetch_rows(
            _CLAIM_OLDEST,
            {
                **values,
                "agent": agent,
                "shapes": list(shapes),
                "allowances": list(shapes.values()),
                "always": list(always),
                "left": paths - sum(shapes.values()),
            },
        )
        ours = {shape for _, shape in claimed}
        _lease(sorted(ours), sorted(shapes.keys() - ours), until=values["until"])
    return ClaimedShapes(sorted(ours), [job for job, _ in claimed], len(found))


def _woken(
    freed: Freed, values: dict[str, Any], limit: int, claimed: Sequence[int]
) -> list[tuple[Any, ...]]:
    servers = json.dumps([asdict(each) for each in freed.servers])
    return fetch_rows(
        _WOKEN,
        {**values, "limit": limit, "freed": servers, "free": freed.units, "claimed": claimed},
    )


def _within(found: Sequence[tuple[Any, ...]], jobs: int) -> list[tuple[int, int]]:
    """Return the first shapes whose allowances add up to at most ``jobs``, at least one.

    Its allowance is at most ``jobs``.
    """
    chosen: list[tuple[int, int]] = []
    for shape, allowance in found:
        if chosen and allowance > jobs:
            break
        chosen.append((shape, min(allowance, jobs)))
        jobs -= allowance
    return chosen


def _lease(ours: list[int], others: list[int], *, until: datetime) -> None:
    """Lease locked shapes; of those without a claimable job, delete the empty ones."""
    with connection.cursor() as cursor:
        cursor.execute(
            "UPDATE workloads_waitingshape SET claimed_until = %s WHERE id = ANY(%s)",
            [until, ours],
        )
        if others:
            cursor.execute(
                """DELETE FROM workloads_waitingshape s WHERE id = ANY(%s)
                   AND NOT EXISTS (SELECT FROM workloads_job j WHERE j.shape_id = s.id)""",
                [others],
            )
            cursor.execute(
                """UPDATE workloads_waitingshape
                   SET due_at = clock_timestamp() + make_interval(secs => %s)
                   WHERE id = ANY(%s)""",
                [RETRY_S, others],
            )


_EVALUATE_SOON: Final = """
UPDATE workloads_waitingshape SET due_at = clock_timestamp()
WHERE id = ANY(ARRAY(
    SELECT id FROM workloads_waitingshape
    WHERE reason_code = %(reason)s AND due_at > clock_timestamp()
      AND (%(lenders)s::uuid[] IS NULL OR EXISTS (
        SELECT FROM accounts_project
        WHERE id = ANY(%(lenders)s) AND guaranteed_units IS NOT NULL))
    ORDER BY key FOR NO KEY UPDATE SKIP LOCKED))
"""


def evaluate_soon(reason: Reason, *, lenders: Collection[UUID] | None = None) -> None:
    """Let shapes with a reason be due once the transaction ends: the reason may hold no more.

    Shapes that are evaluated at this moment are left out; they are due later, as all are.

    Parameters
    ----------
    lenders : only if any of these projects has guaranteed units, which it may have claimed
    """
    ids = None if lenders is None else number_array(sorted(lenders))

    def wake() -> None:
        with connection.cursor() as cursor:
            cursor.execute(_EVALUATE_SOON, {"reason": reason.value, "lenders": ids})

    transaction.on_commit(wake)


def continue_shapes(claimed: ClaimedShapes, *, agent: str) -> None:
    """Let more jobs of shapes be evaluated at once: twice as many as before.

    Ignores shapes that were refused, and those with a job that the agent has not decided.
    """
    if not claimed.shape_ids:
        return
    with connection.cursor() as cursor:
        cursor.execute(
            """UPDATE workloads_waitingshape s
               SET claimed_until = NULL, due_at = clock_timestamp(), decision_id = NULL,
                   queued_at = clock_timestamp(), allowance = least(2 * allowance, %s)
               WHERE id = ANY(ARRAY(SELECT id FROM workloads_waitingshape WHERE id = ANY(%s)
                                    ORDER BY key FOR NO KEY UPDATE))
                 AND claimed_until IS NOT NULL AND NOT EXISTS (
                   SELECT FROM workloads_job j
                   WHERE j.id = ANY(%s) AND j.shape_id = s.id AND j.claimed_by = %s)""",
            [MAX_ALLOWANCE, list(claimed.shape_ids), list(claimed.job_ids), agent],
        )


_UNCOPIED: Final = """
SELECT id, reason_code FROM workloads_waitingshape WHERE NOT is_reason_copied AND id > %(last)s
ORDER BY id LIMIT %(limit)s FOR NO KEY UPDATE SKIP LOCKED
"""
_IS_STALE: Final = "(j.reason_code, j.reason_message) <> (s.reason_code, s.reason_message)"
_COPY_REASONS: Final = f"""
UPDATE workloads_job AS j
SET reason_code = s.reason_code, reason_message = s.reason_message, reason_also = s.reason_also,
    updated_at = now(), generation = j.generation + 1
FROM workloads_waitingshape s
WHERE s.id = j.shape_id AND j.id = ANY(ARRAY(
    SELECT stale.id
    FROM unnest(%(shapes)s::bigint[], %(created_at)s::timestamptz[], %(ids)s::uuid[])
        AS d(shape, created_at, id),
    LATERAL (
        SELECT j.id FROM workloads_job j JOIN workloads_waitingshape s ON s.id = j.shape_id
        WHERE j.shape_id = d.shape AND {_IS_STALE} AND (j.created_at, j.id) > (d.created_at, d.id)
        ORDER BY j.created_at, j.id LIMIT %(part)s FOR NO KEY UPDATE OF j SKIP LOCKED) stale))
RETURNING j.id, j.name, j.project_id, j.state, j.reason_code, j.shape_id, j.created_at
"""  # noqa: S608 - constants
_COPIED: Final = f"""
UPDATE workloads_waitingshape s SET is_reason_copied = true
WHERE s.id = ANY(%s) AND NOT EXISTS (
    SELECT FROM workloads_job j WHERE j.shape_id = s.id AND {_IS_STALE})
"""  # noqa: S608 - constants


@dataclass(slots=True)
class CopyRound:
    """Position of an agent among the shapes with a new reason, and among their jobs, oldest first.

    Without the latter, each of the thousands of turns that a shape of a million jobs takes would
    read all jobs that have the reason already.

    Attributes
    ----------
    last : id of the last shape; the next turn continues after it
    after : of shapes with further jobs: the code of the reason, and when the last of the jobs that
        have it was created, and its id
    """

    last: int = 0
    after: dict[int, tuple[str, tuple[datetime, UUID]]] = field(default_factory=dict)

    def after_in(self, shape: int, code: str) -> tuple[datetime, UUID]:
        """Return the job of a shape after which its reason is copied."""
        known, after = self.after.get(shape, (code, BEFORE_ALL))
        return after if known == code else BEFORE_ALL


def copy_reasons(*, limit: int, position: CopyRound | None = None) -> int:
    """Copy the new reasons of shapes to their next jobs, at most ``limit``; returns their number.

    The shapes get equal parts of the limit, so that none keeps the others out: of two jobs at
    least, so that a shape of one job is known to have no further one. Moves the position on.
    Without one, starts a round; after the last job of a shape, looks once whether any has another
    reason, as it was locked or joined the shape meanwhile.
    """
    position = position or CopyRound()
    with transaction.atomic():
        most = max(1, limit // 2)
        codes = dict(fetch_rows(_UNCOPIED, {"last": position.last, "limit": most}))
        if not codes and position.last:  # a round ended
            codes = dict(fetch_rows(_UNCOPIED, {"last": 0, "limit": most}))
        position.last = max(codes) if len(codes) == most else 0
        if not codes:
            position.after.clear()
            return 0
        part = limit // len(codes)
        rows = _copy_parts(codes, part, position)
        counts = Counter(row[5] for row in rows)
        ended = [shape for shape in codes if counts[shape] < part]
        for shape in ended:
            position.after.pop(shape, None)
        with connection.cursor() as cursor:
            cursor.execute(_COPIED, [ended])
        record_events([row_event("job.waiting", row[:5], reason=row[4]) for row in rows])
    return len(rows)


def _copy_parts(codes: Mapping[int, str], part: int, position: CopyRound) -> list[tuple[Any, ...]]:
    """Copy the reasons of locked shapes to the next jobs of each; returns their rows."""
    after = [position.after_in(shape, code) for shape, code in codes.items()]
    values = {"shapes": list(codes), "part": part}
    values |= {"created_at": [at for at, _ in after], "ids": [job for _, job in after]}
    rows = fetch_rows(_COPY_REASONS, values)
    for key, *_, shape, created_at in sorted(rows, key=lambda row: (row[6], row[0])):
        position.after[shape] = (codes[shape], (created_at, key))
    return rows
