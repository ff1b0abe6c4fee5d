"""Migrations: parts of running jobs that are to go to other servers, asked for and recalled.

The units a part goes to are held from the request on, so that nobody else takes them; those it
leaves until its backend says that it has arrived (`move_reports`).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple
from uuid import UUID

from django.db import connection, transaction

from apps.execution.core.migration import MoveOutcome, move_s
from apps.execution.locks import lock_migrations
from apps.execution.models import Launch, LaunchState, Migration
from apps.execution.move_reports import OPEN, Said, move_event, take_locked
from apps.inventory.models import Server
from apps.inventory.selectors import cluster_now
from apps.operations.services import record_events
from apps.scheduling import services as scheduling
from apps.workloads.core.lifecycle import JobState
from apps.workloads.models import Job


@dataclass(frozen=True, slots=True)
class Move:
    """One allocation of a running job to go to another server, whole.

    Attributes
    ----------
    reason : code of why it is asked for, at most 40 characters
    """

    job_id: UUID
    allocation_id: int
    to_server_id: int
    reason: str


class MoveRefusal(StrEnum):
    """Why a move is not made."""

    JOB_NOT_RUNNING = "job_not_running"
    ALLOCATION_NOT_HELD = "allocation_not_held"
    JOB_IS_MOVING = "job_is_moving"
    SAME_SERVER = "same_server"
    SERVER_CLOSED = "server_closed"
    UNITS_SHORT = "units_short"
    CAPACITY_SHORT = "capacity_short"


MEANINGS: Final = {
    MoveRefusal.JOB_NOT_RUNNING: "the job does not run, or is to be cancelled",
    MoveRefusal.ALLOCATION_NOT_HELD: "the job does not hold that allocation, or not any more",
    MoveRefusal.JOB_IS_MOVING: "another part of the job is on its way",
    MoveRefusal.SAME_SERVER: "it is there already",
    MoveRefusal.SERVER_CLOSED: "the server is gone, or takes no new work",
    MoveRefusal.UNITS_SHORT: "the server has not so many free units",
    MoveRefusal.CAPACITY_SHORT: "the server has too little memory, network or storage left",
}


@dataclass(frozen=True, slots=True)
class Requested:
    """A move that will be made; ``predicted_s`` cluster seconds of standing still."""

    move: Move
    migration_id: int
    predicted_s: float


@dataclass(frozen=True, slots=True)
class Refused:
    """A move that is not made."""

    move: Move
    reason_code: MoveRefusal
    message: str


class _Held(NamedTuple):
    job: UUID
    server: int
    units: int
    memory_bytes: int


def request_moves(moves: Sequence[Move]) -> list[Requested | Refused]:
    """Reserve the units of moves and ask for them; earlier ones win. A job moves one part at once.

    The constraints of the jobs (platforms, labels, locality) are the caller's to keep. Costs a
    dozen statements, whatever the number of moves.

    Returns
    -------
    What becomes of each move, in order.
    """
    with transaction.atomic():
        jobs = _lock_running(move.job_id for move in moves)
        held = _held(move.allocation_id for move in moves)
        outcomes = _reserve(moves, jobs, held)
        reserved = [
            (move, outcome)
            for move, outcome in zip(moves, outcomes, strict=True)
            if not isinstance(outcome, MoveRefusal)
        ]
        made = {one.target_allocation_id: one for one in _ask(reserved, jobs, held)}
    return [
        Refused(move, outcome, MEANINGS[outcome])
        if isinstance(outcome, MoveRefusal)
        else Requested(move, made[outcome].id, made[outcome].predicted_s)
        for move, outcome in zip(moves, outcomes, strict=True)
    ]


def _lock_running(job_ids: Iterable[UUID]) -> dict[UUID, Job]:
    running = Job.objects.select_for_update(of=("self",), no_key=True).filter(
        id__in=set(job_ids), state=JobState.RUNNING, cancel_requested=False,
        launches__state=LaunchState.RUNNING,
    )  # fmt: skip
    return {job.id: job for job in running.order_by("id")}


def _held(allocation_ids: Iterable[int]) -> dict[int, _Held]:
    """Read live allocations at which their jobs work; what is only reserved is none."""
    rows = _rows(
        """SELECT id, job_id, server_id, cores, memory_bytes FROM scheduling_allocation
           WHERE id = ANY(%s) AND released_seq IS NULL
             AND (moved_from IS NULL OR moved_s IS NOT NULL)""",
        [sorted(set(allocation_ids))],
    )
    return {key: _Held(*rest) for key, *rest in rows}


def _moving(job_ids: Iterable[UUID]) -> set[UUID]:
    rows = _rows(
        """SELECT job_id FROM execution_migration
           WHERE job_id = ANY(%s) AND state IN ('requested', 'running')""",
        [list(job_ids)],
    )
    return {job for (job,) in rows}


def _reserve(
    moves: Sequence[Move], jobs: Collection[UUID], held: Mapping[int, _Held]
) -> list[int | MoveRefusal]:
    """Take the units of moves: the new allocation, or why there is none, of each."""
    moving, refusals = _moving(jobs), list[MoveRefusal | None]()
    for move in moves:
        refusals.append(_refusal(move, jobs, held.get(move.allocation_id), moving))
        if refusals[-1] is None:
            moving.add(move.job_id)
    wishes = [
        scheduling.Wish(move.allocation_id, move.to_server_id)
        for move, refusal in zip(moves, refusals, strict=True)
        if refusal is None
    ]
    got = iter(scheduling.reserve(wishes) if wishes else ())
    return [_outcome(next(got)) if refusal is None else refusal for refusal in refusals]


def _refusal(
    move: Move, jobs: Collection[UUID], held: _Held | None, moving: Collection[UUID]
) -> MoveRefusal | None:
    if move.job_id not in jobs:
        return MoveRefusal.JOB_NOT_RUNNING
    if held is None or held.job != move.job_id:
        return MoveRefusal.ALLOCATION_NOT_HELD
    if move.job_id in moving:
        return MoveRefusal.JOB_IS_MOVING
    return MoveRefusal.SAME_SERVER if held.server == move.to_server_id else None


def _outcome(got: int | scheduling.Obstacle) -> int | MoveRefusal:
    return MoveRefusal(got.value) if isinstance(got, scheduling.Obstacle) else got


def _ask(
    reserved: Sequence[tuple[Move, int]], jobs: Mapping[UUID, Job], held: Mapping[int, _Held]
) -> list[Migration]:
    """Write down moves whose units are reserved."""
    ids = [move.job_id for move, _ in reserved]
    launches = dict(
        Launch.objects.filter(job__in=ids, state=LaunchState.RUNNING).values_list("job_id", "id")
    )
    sources = [held[move.allocation_id] for move, _ in reserved]
    servers = {*(source.server for source in sources), *(m.to_server_id for m, _ in reserved)}
    network = dict(Server.objects.filter(id__in=servers).values_list("id", "network_bps"))
    now_s = cluster_now()
    made = Migration.objects.bulk_create(
        Migration(
            job=jobs[move.job_id],
            launch_id=launches[move.job_id],
            source_allocation_id=move.allocation_id,
            target_allocation_id=target,
            from_server_id=source.server,
            to_server_id=move.to_server_id,
            units=source.units,
            predicted_s=move_s(
                source.memory_bytes, network[source.server], network[move.to_server_id]
            ),
            requested_s=now_s,
            reason_code=move.reason,
        )
        for (move, target), source in zip(reserved, sources, strict=True)
    )
    record_events([move_event("job.moving", one) for one in made])
    return made


def cancel_moves(migration_ids: Sequence[int]) -> set[int]:
    """Recall migrations; returns those that will not be made.

    One that a backend has taken up cannot be recalled and goes on. It is not begun anew, should
    that backend die.
    """
    with transaction.atomic():
        lock_migrations(migration_ids)
        still = Migration.objects.filter(id__in=migration_ids, state="requested", claimed_by="")
        ids = set(still.values_list("id", flat=True))
        now_s, message = cluster_now(), "recalled before it began"
        take_locked([Said(i, now_s, MoveOutcome.CANCELLED, message) for i in sorted(ids)])
        begun = Migration.objects.filter(id__in=migration_ids, state__in=OPEN)
        begun.update(cancel_requested=True)
    return ids


def _rows(sql: str, parameters: Sequence[Any]) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql, parameters)
        return cursor.fetchall()
