"""Reads of plans, of what their moves need, and of what was moved lately."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.db.models import Count, Q, QuerySet

from apps.common.core.errors import NotFoundError
from apps.execution.models import Migration, MigrationState
from apps.inventory.models import Server, ServerState
from apps.inventory.selectors import server_names
from apps.operations.models import Event
from apps.placement.core.carrying import Room, Step
from apps.placement.models import Cause, Loop, Move, MoveState, Plan, PlanState
from apps.scheduling.models import Allocation
from apps.scheduling.selectors import AT_WORK
from apps.workloads.models import Job

HOUR_S: Final = 3600.0
LEFT_OUT: Final = "left out"  # begins the message of a move that is, before the plan begins
LOOKED: Final = "loop.looked"
LOOP_SUBJECT: Final = "placement-loop"
UNENDED: Final = (MoveState.WAITING, MoveState.MOVING)
_OPEN_MIGRATION: Final = (MigrationState.REQUESTED, MigrationState.RUNNING)


# ---- rows ----


def loop() -> Loop:
    """Return the settings of the loop; made on first use."""
    row, _ = Loop.objects.get_or_create(id=1)
    return row


def lock_loop() -> Loop:
    """Lock the row of the loop: whoever makes plans holds it."""
    loop()
    return Loop.objects.select_for_update().get(pk=1)


def last_look() -> Event | None:
    """Return what the loop said when it looked last; None where it never did, or long ago."""
    rows = Event.objects.filter(subject=LOOP_SUBJECT, kind=LOOKED)
    return rows.order_by("-seq").first()


def plans() -> QuerySet[Plan]:
    """Return all plans, with how many of their moves stand where.

    Of those skipped ``moves_left_out`` were so before the plan began: they were not to be made.
    """
    by_state = {
        f"moves_{state.value}": Count("moves", filter=Q(moves__state=state)) for state in MoveState
    }
    left_out = Q(moves__state=MoveState.SKIPPED, moves__message__startswith=LEFT_OUT)
    by_state["moves_left_out"] = Count("moves", filter=left_out)
    rows = Plan.objects.select_related("created_by", "approved_by", "preference_set", "reverses")
    return rows.annotate(**by_state)


def is_left_out(move: Move) -> bool:
    """Whether a move was left out before its plan began, and not passed over afterwards."""
    return move.state == MoveState.SKIPPED and move.message.startswith(LEFT_OUT)


def plan_by(key: str | UUID) -> Plan:
    """Return a plan by id or name (p-0012).

    Raises
    ------
    NotFoundError : there is none.
    """
    text = str(key)
    number = text.removeprefix("p-")
    found = None
    if text.startswith("p-") and number.isdecimal():
        found = plans().filter(number=int(number)).first()
    else:
        try:
            found = plans().filter(pk=UUID(text)).first()
        except ValueError:
            found = None
    if found is None:
        raise NotFoundError(f"There is no plan {key}.")
    return found


def moves_of(plan_id: UUID) -> QuerySet[Move]:
    """Return the moves of a plan in order, with their jobs."""
    return Move.objects.filter(plan_id=plan_id).select_related("job").order_by("ordinal")


def proposed_count() -> int:
    """Count the plans that wait for somebody to approve them."""
    return Plan.objects.filter(state=PlanState.PROPOSED).count()


def unsettled() -> QuerySet[Plan]:
    """Return plans that have begun and are not over: those stopped early included.

    A plan that was cancelled is over when the moves it had begun are.
    """
    return Plan.objects.filter(began_s__isnull=False, ended_s__isnull=True)


def has_open_plan() -> bool:
    """Tell whether a plan waits, runs or has not been settled."""
    return open_plan() is not None


def open_plan() -> Plan | None:
    """Return the plan that waits, runs or has not been settled, the first made of several."""
    waits = Q(state__in=[PlanState.PROPOSED, PlanState.APPROVED])
    settles = Q(began_s__isnull=False, ended_s__isnull=True)
    return Plan.objects.filter(waits | settles).order_by("number").first()


# ---- what moves need ----


def rooms(server_ids: Iterable[int]) -> dict[int, Room]:
    """Return what is free on those of some servers that take new containers."""
    rows = Server.objects.filter(pk__in=set(server_ids), state=ServerState.ACTIVE)
    return {
        row.pk: Room(
            row.cores - row.used_cores,
            row.memory_bytes * row.oversubscription - row.used_memory_bytes,
            row.network_bps * row.oversubscription - row.used_network_bps,
            row.storage_bytes * row.oversubscription - row.used_storage_bytes,
        )
        for row in rows
    }


@dataclass(frozen=True, slots=True)
class Transfer:
    """A container that is to move, before it is a row.

    Attributes
    ----------
    ordinal, bundle : as of `Move`
    """

    ordinal: int
    bundle: int
    job_id: UUID
    allocation_id: int
    from_server_id: int
    to_server_id: int
    is_moving: bool = False


def transfer_of(move: Move) -> Transfer:
    """Return what a move transfers."""
    return Transfer(
        move.ordinal,
        move.bundle,
        move.job_id,
        move.allocation_id,
        move.from_server_id,
        move.to_server_id,
        is_moving=move.state == MoveState.MOVING,
    )


def transfers_of(moves: Iterable[Move]) -> list[Transfer]:
    """Return moves that have not ended as what they transfer, in order."""
    in_order = sorted(moves, key=lambda move: move.ordinal)
    return [transfer_of(move) for move in in_order if move.state in UNENDED]


def steps(transfers: Sequence[Transfer]) -> list[Step]:
    """Return transfers with what they need where they go, and free where they leave.

    Those whose allocation is gone need and free nothing.
    """
    held = {
        row.pk: row
        for row in Allocation.objects.filter(pk__in={t.allocation_id for t in transfers})
    }
    jobs = Job.objects.filter(pk__in={t.job_id for t in transfers}).values_list(
        "pk", "unit_memory_bytes", "unit_network_bps", "unit_storage_bytes"
    )
    asked = {pk: (memory, network, storage) for pk, memory, network, storage in jobs}
    targets = Server.objects.in_bulk({t.to_server_id for t in transfers})
    return [
        _step(one, held.get(one.allocation_id), asked[one.job_id], targets.get(one.to_server_id))
        for one in transfers
    ]


_Asked = tuple[int, int, int]  # per unit of memory, network and storage; 0 = an equal share


def _step(
    transfer: Transfer, held: Allocation | None, asked: _Asked, target: Server | None
) -> Step:
    frees = Room(0, 0, 0, 0)
    needs = frees
    if held is not None and held.released_seq is None:
        frees = Room(held.cores, held.memory_bytes, held.network_bps, held.storage_bytes)
        needs = frees if target is None else _needs(held.cores, asked, target)
    return Step(
        ordinal=transfer.ordinal,
        bundle=transfer.bundle,
        job=transfer.job_id,
        source=transfer.from_server_id,
        target=transfer.to_server_id,
        needs=needs,
        frees=frees,
        is_moving=transfer.is_moving,
    )


def _needs(units: int, asked: _Asked, target: Server) -> Room:
    """Return what units take of a server: as asked, else its equal shares, as a commit does."""
    capacity = (target.memory_bytes, target.network_bps, target.storage_bytes)
    each = (a or whole // target.cores for a, whole in zip(asked, capacity, strict=True))
    return Room(units, *(units * one for one in each))


def gone(transfers: Iterable[Transfer]) -> list[Transfer]:
    """Return those whose container is no longer where it was."""
    listed = list(transfers)
    there = set(
        Allocation.objects.filter(
            AT_WORK,
            pk__in={one.allocation_id for one in listed},
            released_seq__isnull=True,
            job__state="running",
        ).values_list("pk", flat=True)
    )
    return [one for one in listed if one.allocation_id not in there]


def busy_jobs(job_ids: Collection[UUID]) -> set[UUID]:
    """Return those of some jobs of which a part is on its way."""
    rows = Migration.objects.filter(job_id__in=job_ids, state__in=_OPEN_MIGRATION)
    return set(rows.values_list("job_id", flat=True))


# ---- what was moved lately ----


def begun_since(at_s: float) -> int:
    """Count moves that began after a moment, over all plans."""
    return Move.objects.filter(began_s__gt=at_s).count()


def rounds(job_ids: Collection[UUID] | None, *, since_s: float) -> dict[UUID, int]:
    """Return how many plans moved each job since a moment; reverse plans do not count.

    Parameters
    ----------
    job_ids : None = all that were moved
    """
    rows = Move.objects.filter(began_s__gt=since_s).exclude(plan__cause=Cause.REVERSE)
    if job_ids is not None:
        rows = rows.filter(job_id__in=job_ids)
    counted = rows.order_by().values("job_id").annotate(plans=Count("plan_id", distinct=True))
    return dict(counted.values_list("job_id", "plans"))


def left_lately(job_ids: Collection[UUID], *, since_s: float) -> dict[int, set[int]]:
    """Return the servers that each container of jobs has left since a moment, by allocation."""
    moved = Allocation.objects.filter(job_id__in=job_ids, moved_s__gt=since_s)
    before = {pk: source for pk, source in moved.values_list("pk", "moved_from") if source}
    sources = Allocation.objects.filter(pk__in=before.values())
    servers = dict(sources.values_list("pk", "server_id"))
    left: dict[int, set[int]] = defaultdict(set)
    for allocation in before:
        source = allocation
        while source in before:
            source = before[source]
            left[allocation].add(servers[source])
    return dict(left)


@dataclass(frozen=True, slots=True)
class Thrash:
    """What was moved too often within the last hour.

    Attributes
    ----------
    often : name, id and number of plans of each job moved more often than the budget allows
    returned : job name and id, and server, of each container that went back to where it had been
    """

    moves: int
    jobs: int
    often: tuple[tuple[str, UUID, int], ...]
    returned: tuple[tuple[str, UUID, str], ...]


def thrash(now_s: float, *, allowed: int) -> Thrash:
    """Look for moves that undo each other; O(moves of the hour)."""
    since = now_s - HOUR_S
    done = list(
        Move.objects.filter(began_s__gt=since, state=MoveState.DONE)
        .exclude(plan__cause=Cause.REVERSE)
        .select_related("job")
        .order_by("began_s")
    )
    counts = {job: n for job, n in rounds(None, since_s=since).items() if n > allowed}
    names = dict(Job.objects.filter(pk__in=counts).values_list("pk", "name"))
    left = left_lately({move.job_id for move in done}, since_s=since)
    live = {
        row.pk: row
        for row in Allocation.objects.filter(pk__in=left, released_seq__isnull=True)
        if row.server_id in left[row.pk]
    }
    of_job = {move.job_id: move.job.name for move in done}
    server = server_names(row.server_id for row in live.values())
    back = ((of_job[row.job_id], row.job_id, server[row.server_id]) for row in live.values())
    often = ((names[job], job, n) for job, n in counts.items())
    return Thrash(
        moves=len(done),
        jobs=len(of_job),
        often=tuple(sorted(often, key=lambda one: (-one[2], one[0]))),
        returned=tuple(sorted(back)),
    )


def still_held(allocation_ids: Collection[int]) -> int:
    """Count those of some allocations that have not been given back."""
    return Allocation.objects.filter(pk__in=allocation_ids, released_seq__isnull=True).count()


def moved_meanwhile(snapshot: int) -> dict[str, int]:
    """Count jobs that came and went since a change-log number; moves are neither."""
    came = Allocation.objects.filter(acquired_seq__gt=snapshot, moved_from__isnull=True)
    went = Allocation.objects.filter(
        acquired_seq__lte=snapshot, released_seq__gt=snapshot
    ).exclude(job__state="running")
    return {name: _jobs(rows) for name, rows in (("arrived", came), ("left", went))}


def _jobs(rows: QuerySet[Any]) -> int:
    return rows.order_by().values("job_id").distinct().count()
