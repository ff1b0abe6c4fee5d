"""Preemptions: running jobs give their units to a waiting job of higher priority.

A preview names the victims and writes nothing. Applying it reserves the units for the waiting job
and stops the victims; each is queued again when its backend reports that it has stopped.
"""

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from types import MappingProxyType
from typing import Final
from uuid import UUID

from django.db import connection, transaction

from apps.accounts.services.audit import Act, record_act
from apps.common.core.errors import ConflictError, NotFoundError
from apps.common.infrastructure.database import fetch_rows
from apps.common.infrastructure.notifications import wake
from apps.execution.core.migration import STOP_S
from apps.execution.selectors.preemption import (
    PreemptibleJob,
    first_of_request,
    preemptible_jobs,
    running_cluster,
    victims_are_stopping,
)
from apps.execution.services.locks import lock_launches
from apps.execution.services.preemption_records import close_proposal, exceeded_limits
from apps.inventory.core.backends import MACHINES
from apps.inventory.selectors import cluster_now, cluster_time
from apps.inventory.services import lock_units
from apps.operations.services import NewEvent, record_events
from apps.scheduling.core.preemption.choice import choose_victims
from apps.scheduling.core.preemption.limits import ExceededLimit, PreemptionLimits
from apps.scheduling.core.preemption.promises import Promise, promise
from apps.scheduling.core.preemption.victims import Cost, Victims
from apps.scheduling.core.sharing.quotas import after_preemption
from apps.scheduling.selectors.quotas import has_quotas, standings
from apps.scheduling.services.preemption import RoomForJob, room_for, why_no_preemption
from apps.scheduling.services.reservations import (
    keep_units,
    lock_reservations,
    reservations,
)
from apps.workloads import services as workloads
from apps.workloads.models import Job

MESSAGE: Final = "preempted by a job of higher priority"
NOT_SEEN: Final[Mapping[UUID, bool]] = MappingProxyType({})
CHANGED: Final = "The victims or the free units have changed. Check the new preview."


_CLOSED: Final = """
SELECT 1 FROM inventory_resourceunit u JOIN inventory_server s ON s.id = u.server_id
WHERE u.id = ANY(%s) AND s.state <> 'active' LIMIT 1
"""


class Outcome(StrEnum):
    """Outcome of a preview."""

    POSSIBLE = "possible"
    NOT_NEEDED = "not_needed"
    IMPOSSIBLE = "impossible"


@dataclass(frozen=True, slots=True)
class Victim:
    """A job to preempt.

    Attributes
    ----------
    lost : work, unit-seconds
    promise : whether its promise is broken, and why
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
        breaks = "its target is missed" if self.promise.breaks else "no target is missed"
        return (
            f"Without it, {units} missing for the waiting job. "
            f"{self.lost:,} unit-seconds are lost, and {breaks}."
        )


@dataclass(frozen=True, slots=True)
class Preemption:
    """A preview.

    Attributes
    ----------
    message : why it is not possible, or not needed
    units : that the job waits for; 0 = not known
    victims : those that lose least first
    cost : of the victims
    bound : lower bound on the cost of any victims
    candidates : number of running jobs that may be stopped
    lacks_room : it is impossible because too few units would be free
    kept : ids of the units to reserve
    exceeded : limits that the application would exceed
    """

    job: Job
    outcome: Outcome
    message: str = ""
    units: int = 0
    victims: tuple[Victim, ...] = ()
    cost: Cost = Cost()  # noqa: RUF009 - immutable
    bound: Cost = Cost()  # noqa: RUF009 - immutable
    candidates: int = 0
    lacks_room: bool = False
    kept: tuple[int, ...] = ()
    exceeded: tuple[ExceededLimit, ...] = ()

    @property
    def launches(self) -> set[int]:
        """Ids of the launches to stop."""
        return {victim.job.launch for victim in self.victims}

    @property
    def is_best(self) -> bool:
        """Whether no other set of victims costs less."""
        return self.cost == self.bound

    @property
    def basis(self) -> str:
        """Digest of the victims, promises and units; an application must find the same."""
        facts = [
            [str(self.job.pk), self.job.priority, self.units],
            sorted([victim.job.launch, victim.promise.breaks] for victim in self.victims),
            sorted(self.kept),
        ]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:32]


def preview_preemption(
    job_id: UUID, limits: PreemptionLimits | None = None, only: Collection[UUID] | None = None
) -> Preemption:
    """Choose the victims that let a waiting job start; writes nothing.

    Parameters
    ----------
    limits : that decide which jobs may be stopped; None = an operator decides
    only : jobs that may be stopped; None = all of lower priority

    Raises
    ------
    NotFoundError : the job does not exist.
    """
    job = _waiting_job(job_id)
    why_not = _why_not(job)
    if why_not or job.shape is None:
        return Preemption(job, Outcome.IMPOSSIBLE, why_not)
    room, now_s = room_for(job, job.shape), cluster_now()
    running = running_cluster(
        job.priority, reserved=room.reserved, reserved_on=room.reserved_on, now_s=now_s
    ).candidates(now_s, room.run_s, limits, only)
    chosen = choose_victims(room.waiting, room.rooms, running)
    units, candidates = room.waiting.units, running.job.size
    if chosen is None:
        message = (
            "Even without all running jobs of lower priority that can be started again,"
            " too few units would be free where the job may run."
        )
        return Preemption(
            job, Outcome.IMPOSSIBLE, message, units, candidates=candidates, lacks_room=True
        )
    found = _victims(job, room, chosen, now_s)
    if len(found) < len(chosen.jobs):
        return preview_preemption(job_id, limits, only)  # a victim has ended since it was read
    if found and (why_not := _beyond_quota(job, room, chosen, found)):
        return Preemption(job, Outcome.IMPOSSIBLE, why_not, units, candidates=candidates)
    return Preemption(
        job=job,
        outcome=Outcome.POSSIBLE if found else Outcome.NOT_NEEDED,
        message="" if found else "Enough units are free. The next evaluation may place the job.",
        units=units,
        victims=found,
        cost=chosen.cost,
        bound=chosen.bound,
        candidates=candidates,
        kept=_kept(chosen, room, [victim.job for victim in found]),
        exceeded=exceeded_limits(job.pk, [victim.job.past for victim in found], now_s),
    )


def _waiting_job(job_id: UUID) -> Job:
    job = Job.objects.select_related("shape").filter(pk=job_id).first()
    if job is None:
        raise NotFoundError(f"there is no job {job_id}")
    return job


def _why_not(job: Job) -> str:
    """Return why a job cannot preempt others now; empty if it can."""
    why_not = why_no_preemption(job)
    if why_not:
        return why_not
    if victims_are_stopping(job.pk):
        return "Running jobs are already being stopped for this job."
    first = first_of_request(job)
    if first is not None:
        return f"{first} has the same request and is older, so it starts first. Preempt for it."
    return ""


def _victims(job: Job, room: RoomForJob, chosen: Victims, now_s: float) -> tuple[Victim, ...]:
    """Describe the chosen victims; without those that have ended since they were read."""
    found = preemptible_jobs(chosen.jobs, job.priority, now_s=now_s)
    rows = {each.id: each for each in found}
    return tuple(
        Victim(
            job=rows[key],
            lost=rows[key].run.lost(now_s),
            promise=promise(rows[key].run, now_s, room.run_s),
            servers=_servers(rows[key], room),
            short=chosen.short[key],
        )
        for key in chosen.jobs
        if key in rows
    )


def _beyond_quota(job: Job, room: RoomForJob, chosen: Victims, victims: Sequence[Victim]) -> str:
    """Return why the quota of its project would refuse a job although its victims were stopped.

    They wait again, so their projects claim their guaranteed units. Empty if it covers the job.
    """
    if not has_quotas():
        return ""
    stopped, freed = Counter[UUID](), Counter[int]()
    for victim in victims:
        for held in victim.job.held:
            stopped[victim.job.project_id] += len(held.units)
            freed[held.server] += len(held.units)
    known = after_preemption(standings(), stopped)
    detail = room.beyond_quota(known, job.project_id, freed, chosen.units)
    return f"Its quota would still refuse the job: {detail}." if detail else ""


def _servers(job: PreemptibleJob, room: RoomForJob) -> dict[str, int]:
    servers: dict[str, int] = {}
    for held in job.held:
        name = room.name_of(held.server)
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
        kept += [*room.free_on(server), *sorted(freed)][:count]
    return tuple(kept)


def preempt(
    job_id: UUID, basis: str, seen: Mapping[UUID, bool] = NOT_SEEN, *, request_id: str = ""
) -> Preemption:
    """Stop the victims of a preview, and reserve their units for the waiting job.

    Chooses the victims again before it locks anything, and then checks under the locks that they
    can still be stopped. If the choice has changed, it stops those of ``seen`` that make room.

    Parameters
    ----------
    basis : of the preview that the caller has seen
    seen : the victims of that preview, and whether each misses its target

    Raises
    ------
    ConflictError : the choice now finds other victims, or none, and those seen do not make room
        any more, or one would now miss its target.
    """
    found = preview_preemption(job_id)
    if found.outcome is not Outcome.POSSIBLE:
        raise ConflictError(found.message)
    if found.basis != basis:
        found = preview_preemption(job_id, only=seen)
        missed = [v for v in found.victims if v.promise.breaks and not seen[v.job.id]]
        if found.outcome is not Outcome.POSSIBLE or missed:
            raise ConflictError(CHANGED)
    with transaction.atomic():
        apply_preemption(found, request_id=request_id)
    return found


def apply_preemption(
    found: Preemption, *, request_id: str = "", approved: int | None = None
) -> None:
    """Stop the victims of a preview, unless something has changed since it was made.

    Runs in the caller's transaction, which has locked no row.

    Parameters
    ----------
    approved : the proposal that is applied, if it is one

    Raises
    ------
    ConflictError : the job no longer waits, a victim or a free unit has changed, or the proposal
        is not open.
    """
    lock_reservations()
    ids = [victim.job.id for victim in found.victims]
    lock_launches([victim.job.launch for victim in found.victims])
    workloads.lock_jobs([found.job.pk, *ids])
    _require_same(found)
    _require_free(found)
    close_proposal(found.job.pk, found.launches, found.exceeded, approved=approved)
    _stop(found, request_id)


def _require_same(found: Preemption) -> None:
    """Check that the locked job still waits, and that its locked victims still run.

    Raises
    ------
    ConflictError : it does not, or a victim has changed.
    """
    job = _waiting_job(found.job.pk)
    why_not = _why_not(job)
    if why_not:
        raise ConflictError(why_not)
    if (job.priority, job.shape_id) != (found.job.priority, found.job.shape_id):
        raise ConflictError(CHANGED)
    now = preemptible_jobs([victim.job.id for victim in found.victims], job.priority)
    seen = {victim.job.launch: victim.job.held for victim in found.victims}
    if {each.launch: each.held for each in now} != seen:
        raise ConflictError(CHANGED)
    others = (each for each in reservations() if each.job != job.pk)
    is_taken = any(not each.units.isdisjoint(found.kept) for each in others)
    if is_taken or fetch_rows(_CLOSED, [list(found.kept)]):
        raise ConflictError(CHANGED)


def _require_free(found: Preemption) -> None:
    """Check that the units to reserve are free, or held by victims.

    Raises
    ------
    ConflictError : another job has taken one.
    """
    freed = {unit for victim in found.victims for held in victim.job.held for unit in held.units}
    free = [unit for unit in found.kept if unit not in freed]
    if any(owner is not None for owner in lock_units(free).values()):
        msg = "Another job has taken a free unit. Check the new preview."
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
    workloads.end_growth([victim.job.id for victim in found.victims])
    now = cluster_time()
    start_s = now.cluster_s + STOP_S * now.speed
    keep_units(found.job.pk, found.kept, start_s=start_s, for_preemption=True)
    wake(MACHINES)
    victim_ids = [str(victim.job.id) for victim in found.victims]
    after = {"victims": victim_ids, "units": len(found.kept), **found.cost._asdict()}
    if found.exceeded:
        after["overridden"] = [each.as_json() for each in found.exceeded]
    record_act(Act("job.preempting", str(found.job.pk), found.job.name, after=after))
    record_events(
        [
            NewEvent(
                topic="jobs",
                kind="job.preempted",
                subject=str(victim.job.id),
                project_id=victim.job.project_id,
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
