"""Migrations as backends see them: claimed, begun, arrived or failed; and how they end otherwise.

A migration moves only forward (requested, running, then done, failed or cancelled), and only what
moved is told further, so every report may come twice. Rows are locked as `locks` says.
"""

import json
from collections.abc import Collection, Iterable, Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple, Protocol
from uuid import UUID

from django.db import connection, transaction
from django.utils import timezone

from apps.execution.core.migration import MoveOutcome, moved_parts
from apps.execution.locks import lock_migrations
from apps.execution.models import Migration, MigrationState
from apps.inventory.selectors import cluster_now
from apps.operations.services import NewEvent, record_events
from apps.scheduling import services as scheduling

OPEN: Final = (MigrationState.REQUESTED, MigrationState.RUNNING)
LEASE_S: Final = 10.0  # wall seconds


class Order(NamedTuple):
    """A migration for a backend to make."""

    migration: int
    launch: int
    from_server: int
    to_server: int
    units: int


class Report(Protocol):
    """What a backend says of a migration."""

    @property
    def migration(self) -> int:
        """Its id."""

    @property
    def at_s(self) -> float:
        """When it happened, in cluster seconds."""

    @property
    def outcome(self) -> MoveOutcome:
        """What happened."""

    @property
    def message(self) -> str:
        """Why it was not made."""


class Said(NamedTuple):
    """A report of our own."""

    migration: int
    at_s: float
    outcome: MoveOutcome
    message: str


# ---- claims ----

_RENEW: Final = """
UPDATE execution_migration SET claimed_until = %s
WHERE id = ANY(ARRAY(
    SELECT id FROM execution_migration
    WHERE id = ANY(%s) AND claimed_by = %s AND claimed_until < %s
      AND state IN ('requested', 'running')
    ORDER BY id FOR UPDATE SKIP LOCKED))
"""
_CLAIM: Final = """
UPDATE execution_migration SET claimed_by = %s, claimed_until = %s
WHERE id = ANY(ARRAY(
    SELECT m.id FROM execution_migration m JOIN execution_launch l ON l.id = m.launch_id
    WHERE m.state IN ('requested', 'running') AND l.backend = %s AND l.state = 'running'
      AND m.id <> ALL(%s)
      AND (m.claimed_until IS NULL OR m.claimed_until < %s OR m.claimed_by = %s)
    ORDER BY m.id LIMIT %s FOR UPDATE OF m SKIP LOCKED))
RETURNING id, launch_id, from_server_id, to_server_id, units, cancel_requested
"""


def claim_moves(
    backend: str, *, worker: str, limit: int, doing: Collection[int] = ()
) -> list[Order]:
    """Claim migrations for a process to begin now, those included that a dead one had begun.

    The claims of ``doing``, which it has begun and not told the end of, are kept.
    """
    now, known = timezone.now(), list(doing)
    until = now + timedelta(seconds=LEASE_S)
    if known:
        _run(_RENEW, [until, known, worker, now + timedelta(seconds=LEASE_S / 2.0)])
    rows = _rows(_CLAIM, [worker, until, backend, known, now, worker, limit])
    _cancel([row[0] for row in rows if row[-1]], "recalled before its backend had made it")
    return sorted(Order(*row[:-1]) for row in rows if not row[-1])


# ---- reports ----


def take_move_reports(reports: Sequence[Report]) -> None:
    """Take in what a backend says of migrations; the same report twice changes nothing."""
    if not reports:
        return
    with transaction.atomic():
        lock_migrations(report.migration for report in reports)
        take_locked(reports)


_START: Final = """
UPDATE execution_migration AS m SET state = 'running', started_s = d.at
FROM unnest(%s::bigint[], %s::float8[]) AS d(id, at)
WHERE m.id = d.id AND m.state = 'requested'
"""
_END: Final = """
UPDATE execution_migration AS m
SET state = d.state, ended_s = d.at, message = left(d.message, 500), claimed_until = NULL
FROM unnest(%s::bigint[], %s::text[], %s::float8[], %s::text[]) AS d(id, state, at, message)
WHERE m.id = d.id AND m.state IN ('requested', 'running')
RETURNING m.id
"""


def take_locked(reports: Sequence[Report]) -> None:
    """Take in reports of locked migrations; last in the caller's transaction."""
    begun = [report for report in reports if report.outcome is MoveOutcome.STARTED]
    over = [report for report in reports if report.outcome is not MoveOutcome.STARTED]
    if begun:
        _run(_START, [[r.migration for r in begun], [r.at_s for r in begun]])
    if over:
        columns = [
            [r.migration for r in over],
            [r.outcome.value for r in over],
            [r.at_s for r in over],
            [r.message for r in over],
        ]
        ended = [migration for (migration,) in _rows(_END, columns)]
        _settle(Migration.objects.filter(id__in=ended).select_related("job").order_by("id"))


def _settle(ended: Iterable[Migration]) -> None:
    """Let what follows from the end of migrations happen."""
    done = [one for one in ended if one.state == MigrationState.DONE]
    rest = [one for one in ended if one.state != MigrationState.DONE]
    for one in done:
        _lead(one)
    scheduling.settle_moves(
        {one.target_allocation_id: one.ended_s or 0.0 for one in done},
        given_up=[one.target_allocation_id for one in rest],
    )
    record_events(
        [move_event("job.moved", one) for one in done]
        + [move_event(f"job.move_{one.state}", one) for one in rest]
    )


def _lead(done: Migration) -> None:
    """Name the new place in the launch, so that a backend that begins anew resumes there."""
    (order,) = _rows('SELECT "order" FROM execution_launch WHERE id = %s', [done.launch_id])[0]
    told = json.loads(order)
    told["parts"] = moved_parts(
        [(server, units) for server, units in told["parts"]],
        units=done.units,
        from_server=done.from_server_id,
        to_server=done.to_server_id,
    )
    _run(
        'UPDATE execution_launch SET "order" = %s WHERE id = %s',
        [json.dumps(told), done.launch_id],
    )


def move_event(kind: str, about: Migration) -> NewEvent:
    """Make the event of a migration, whose job is at hand."""
    job = about.job
    data: dict[str, Any] = {
        "name": job.name,
        "state": job.state,
        "migration": about.id,
        "from_server": about.from_server_id,
        "to_server": about.to_server_id,
        "units": about.units,
    }
    if about.message:
        data["message"] = about.message
    return NewEvent(
        topic="jobs", kind=kind, subject=str(job.id), project_id=job.project_id,
        request_id=job.correlation_id, data=data,
    )  # fmt: skip


# ---- other ends ----


def end_moves(job_ids: Sequence[UUID], *, outcome: MoveOutcome, message: str) -> None:
    """End the migrations of jobs that run no more, in the transaction that ended them.

    It has locked them, and gives back their units, the reserved ones too.
    """
    _run(
        """UPDATE execution_migration SET state = %s, message = %s, ended_s = %s,
                  claimed_until = NULL
           WHERE job_id = ANY(%s) AND state IN ('requested', 'running')""",
        [outcome.value, message, cluster_now(), list(job_ids)],
    )


_STRANDED: Final = """
SELECT m.id FROM execution_migration m JOIN execution_launch l ON l.id = m.launch_id
LEFT JOIN inventory_server s ON s.id = m.to_server_id AND s.state = 'active'
WHERE m.state IN ('requested', 'running')
  AND (l.state = 'ended' OR m.claimed_by = '' AND s.id IS NULL) ORDER BY m.id
"""


def end_stranded_moves() -> int:
    """End migrations whose launch runs no more, or whose server closed before anybody began.

    Returns how many.
    """
    seen = _rows(_STRANDED, [])
    if not seen:
        return 0
    with transaction.atomic():
        lock_migrations(migration for (migration,) in seen)
        # a backend may have begun one before it was locked
        stranded = sorted(set(_rows(_STRANDED, [])) & set(seen))
        _cancel(
            [migration for (migration,) in stranded],
            "its launch ended, or its server takes no new work",
        )
    return len(stranded)


def _cancel(migration_ids: Sequence[int], message: str) -> None:
    now_s = cluster_now()
    take_move_reports([Said(i, now_s, MoveOutcome.CANCELLED, message) for i in migration_ids])


# Django leaves JSON columns of plain cursors as text
def _rows(sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall()


def _run(sql: str, parameters: Sequence[Any]) -> None:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
