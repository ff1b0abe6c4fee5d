"""Preemptions: running jobs give their units to a waiting job of higher priority.

A preview names the victims and writes nothing. Applying it reserves the units for the waiting job
and stops the victims; each is queued again when its backend reports that it has stopped.
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final
from uuid import UUID

from django.db import connection, transaction

from apps.accounts.services.audit import Act, record_act
from apps.common.core.errors import ConflictError, NotFoundError
from apps.common.infrastructure.database import fetch_rows
from apps.common.infrastructure.notifications import wake
from apps.execution.selectors.preemption import (
    PreemptibleJob,
    preemptible_jobs,
    victims_are_stopping,
)
from apps.execution.services.locks import lock_launches
from apps.inventory.core.backends import MACHINES
from apps.inventory.selectors import cluster_now, cluster_time
from apps.inventory.services import lock_units
from apps.operations.services import NewEvent, record_events
from apps.scheduling.core.preemption import Candidate, Cost, Part, Vector, Victims, victims
from apps.scheduling.core.promises import Promise, promise
from apps.scheduling.services.preemption import RoomForJob, room_for, why_no_preemption
from apps.scheduling.services.reservations import keep_units, lock_reservations
from apps.workloads import services as workloads
from apps.workloads.models import Job

STOP_S: Final = 6.0  # wall seconds in which a backend stops a job: SIGKILL follows after 5
MESSAGE: Final = "preempted by a job of higher priority"


class Outcome(StrEnum):
    """What a preview found."""

    POSSIBLE = "possible"
    NOT_NEEDED = "not_needed"
    IMPOSSIBLE = "impossible"


@dataclass(frozen=True, slots=True)
class Victim:
    """A job to preempt.

    Attributes
    ----------
    lost : unit-seconds of work
    promise : whether it breaks its promise, and why
    servers : units by name of the server
    short : units that the waiting job lacks if this job is kept
    """

    job: PreemptibleJob
    lost: int
    promise: Promise
    servers: Mapping[str, int]
    short: int

    @property
    def reason(self) -> str:
        """Why it was chosen."""
        units = "1 unit is" if self.short == 1 else f"{self.short} units are"
        breaks = "its promise is broken" if self.promise.breaks else "no promise is broken"
        return f"Without it, {units} missing. {self.lost:,} unit-seconds are lost, and {breaks}."


@dataclass(frozen=True, slots=True)
class Preemption:
    """A preview.

    Attributes
    ----------
    message : why it is not possible, or not needed
    units : that the job waits for; 0 = not known
    victims : those that lose least first
    cost, bound : of the victims, and the least that any victims could cost
    candidates : running jobs among which they were chosen
    kept : ids of the units to reserve
    """

    job: Job
    outcome: Outcome
    message: str = ""
    units: int = 0
    victims: tuple[Victim, ...] = ()
    cost: Cost = Cost()  # noqa: RUF009 - immutable
    bound: Cost = Cost()  # noqa: RUF009 - immutable
    candidates: int = 0
    kept: tuple[int, ...] = ()

    @property
    def basis(self) -> str:
        """Digest of what an applied preview must still find: victims, promises and units."""
        facts = [
            [str(self.job.pk), self.job.priority, self.units],
            sorted([victim.job.launch, victim.promise.breaks] for victim in self.victims),
            sorted(self.kept),
        ]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]


def preview_preemption(job_id: UUID) -> Preemption:
    """Choose the victims that let a waiting job start; writes nothing.

    Raises
    ------
    NotFoundError : the job does not exist.
    """
    job = Job.objects.select_related("shape").filter(pk=job_id).first()
    if job is None:
        raise NotFoundError(f"there is no job {job_id}")
    why_not = why_no_preemption(job)
    if not why_not and victims_are_stopping(job_id):
        why_not = "Running jobs are being stopped for this job already."
    if why_not or job.shape is None:
        return Preemption(job, Outcome.IMPOSSIBLE, why_not)
    room, now_s = room_for(job, job.shape), cluster_now()
    running = preemptible_jobs(job.priority)
    promises = {each.id: promise(each.run, now_s, room.run_s) for each in running}
    candidates = [
        _candidate(each, room, each.run.lost(now_s), promises[each.id]) for each in running
    ]
    chosen = victims(room.waiting, room.rooms, candidates)
    if chosen is None:
        message = (
            "Even without all running jobs of lower priority that can be started again,"
            " too few units would be free where the job may run."
        )
        return Preemption(
            job, Outcome.IMPOSSIBLE, message, room.waiting.units, candidates=len(running)
        )
    return _preview(job, room, chosen, running, promises, now_s)


def _candidate(job: PreemptibleJob, room: RoomForJob, lost: int, of: Promise) -> Candidate:
    """Describe a running job; units that other jobs have reserved make no room."""
    parts = tuple(
        Part(
            held.server,
            sum(unit not in room.reserved for unit in held.units),
            Vector(held.memory_bytes, held.network_bps, held.storage_bytes),
        )
        for held in job.held
    )
    return Candidate(job.id, job.priority, lost, of.breaks, parts)


def _preview(
    job: Job,
    room: RoomForJob,
    chosen: Victims,
    running: Sequence[PreemptibleJob],
    promises: Mapping[UUID, Promise],
    now_s: float,
) -> Preemption:
    by_id = {each.id: each for each in running}
    found = tuple(
        Victim(
            job=by_id[key],
            lost=by_id[key].run.lost(now_s),
            promise=promises[key],
            servers=_servers(by_id[key], room),
            short=chosen.short[key],
        )
        for key in chosen.jobs
    )
    return Preemption(
        job=job,
        outcome=Outcome.POSSIBLE if found else Outcome.NOT_NEEDED,
        message="" if found else "Enough units are free. The next evaluation may place the job.",
        units=room.waiting.units,
        victims=found,
        cost=chosen.cost,
        bound=chosen.bound,
        candidates=len(running),
        kept=_kept(chosen, room, [victim.job for victim in found]),
    )


def _servers(job: PreemptibleJob, room: RoomForJob) -> dict[str, int]:
    servers: dict[str, int] = {}
    for held in job.held:
        name = room.names[held.server]
        servers[name] = servers.get(name, 0) + len(held.units)
    return servers


def _kept(chosen: Victims, room: RoomForJob, stopped: Sequence[PreemptibleJob]) -> tuple[int, ...]:
    """Return the units to reserve: on each server the free ones first."""
    kept: list[int] = []
    for server, count in sorted(chosen.units.items()):
        freed = [
            unit
            for job in stopped
            for held in job.held
            if held.server == server
            for unit in held.units
            if unit not in room.reserved
        ]
        kept += [*room.free.get(server, ()), *sorted(freed)][:count]
    return tuple(kept)


def preempt(job_id: UUID, basis: str, *, request_id: str = "") -> Preemption:
    """Stop the victims of a preview, and reserve their units for the waiting job.

    Parameters
    ----------
    basis : of the preview that the caller has seen

    Raises
    ------
    ConflictError : a preview now finds other victims, or none.
    """
    with transaction.atomic():
        lock_reservations()
        seen = preview_preemption(job_id)
        ids = [victim.job.id for victim in seen.victims]
        lock_launches([victim.job.launch for victim in seen.victims])
        workloads.lock_jobs([job_id, *ids])
        now = preview_preemption(job_id)
        if now.outcome is not Outcome.POSSIBLE:
            raise ConflictError(now.message)
        if {seen.basis, now.basis} != {basis}:
            msg = "The victims or the free units have changed. Read the preview again."
            raise ConflictError(msg)
        _require_free(now)
        _stop(now, request_id)
    return now


def _require_free(found: Preemption) -> None:
    """Check that the units to reserve are free, or held by victims.

    Raises
    ------
    ConflictError : another job has taken one.
    """
    freed = {unit for victim in found.victims for held in victim.job.held for unit in held.units}
    free = [unit for unit in found.kept if unit not in freed]
    if any(owner is not None for owner in lock_units(free).values()):
        msg = "Another job has taken a free unit. Read the preview again."
        raise ConflictError(msg)


def _stop(found: Preemption, request_id: str) -> None:
    """Stop the launches of locked victims, and reserve the units."""
    launches = [victim.job.launch for victim in found.victims]
    with connection.cursor() as cursor:
        cursor.execute(
            """UPDATE execution_launch SET cancel_requested = true, message = %s
               WHERE id = ANY(%s)""",
            [MESSAGE, launches],
        )
    now = cluster_time()
    keep_units(found.job.pk, found.kept, start_s=now.cluster_s + STOP_S * now.speed)
    wake(MACHINES)
    victim_ids = [str(victim.job.id) for victim in found.victims]
    after = {"victims": victim_ids, "units": len(found.kept), **found.cost._asdict()}
    record_act(Act("job.preempting", str(found.job.pk), found.job.name, after=after))
    projects = dict(
        fetch_rows(
            "SELECT id, project_id FROM workloads_job WHERE id = ANY(%s::uuid[])", [victim_ids]
        )
    )
    record_events(
        [
            NewEvent(
                topic="jobs",
                kind="job.preempted",
                subject=str(victim.job.id),
                project_id=projects[victim.job.id],
                request_id=request_id,
                data={
                    "name": victim.job.name,
                    "state": "running",
                    "lost_unit_seconds": victim.lost,
                    "breaks_promise": victim.promise.breaks,
                },
            )
            for victim in found.victims
        ]
    )
