"""Suspension of running jobs by their backends.

A suspended job keeps its units: its processes are stopped and may continue at any moment. Requests
and reports change the launch's job only, so a report may arrive twice, or late.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final
from uuid import UUID

from django.db import transaction

from apps.common.core.errors import ConflictError
from apps.common.infrastructure.database import fetch_rows
from apps.common.infrastructure.notifications import wake
from apps.execution.core.agent.wire import SUSPENDS_FROM
from apps.execution.core.port import SuspensionReport
from apps.execution.models import Launch, LaunchState, ServerAgent
from apps.execution.services.locks import lock_launches, lock_launches_of
from apps.inventory.core.backends import AGENT, MACHINES, Capability, backends_with
from apps.workloads import services as workloads
from apps.workloads.core.lifecycle import JobState, Suspension
from apps.workloads.models import Job

# A backend may report what was requested. One that has other users, such as Slurm, also reports
# what they have done.
REQUESTED: Final[Mapping[bool, Collection[Suspension]]] = {
    True: (Suspension.REQUESTED,),
    False: (Suspension.RESUMING,),
}
OBSERVED: Final[Mapping[bool, Collection[Suspension]]] = {
    True: (Suspension.REQUESTED, Suspension.NONE),
    False: (Suspension.RESUMING, Suspension.SUSPENDED),
}
# a backend that was refused the suspension of a job: it runs on
GIVEN_UP: Final[Mapping[bool, Collection[Suspension]]] = {
    True: (),
    False: (Suspension.REQUESTED,),
}
_STOPPED: Final = (Suspension.REQUESTED, Suspension.SUSPENDED)
_SERVERS: Final = """
SELECT server_id FROM scheduling_allocation WHERE job_id = %s AND released_seq IS NULL
"""
_JOBS: Final = "SELECT id, job_id FROM execution_launch WHERE id = ANY(%s) AND state = 'running'"


def suspend_job(job_id: UUID, *, request_id: str = "") -> None:
    """Request the suspension of a running job; one that is suspended does not change.

    Raises
    ------
    ConflictError : it does not run, or its backend cannot suspend it.
    """
    _request(job_id, Suspension.REQUESTED, request_id)


def resume_job(job_id: UUID, *, request_id: str = "") -> None:
    """Request that a suspended job continues; one that is not suspended does not change.

    Raises
    ------
    ConflictError : it does not run.
    """
    _request(job_id, Suspension.RESUMING, request_id)


def _request(job_id: UUID, to: Suspension, request_id: str) -> None:
    with transaction.atomic():
        lock_launches_of([job_id])
        workloads.lock_jobs([job_id])
        job = Job.objects.get(pk=job_id)
        verb = "suspended" if to is Suspension.REQUESTED else "resumed"
        if job.state != JobState.RUNNING:
            raise ConflictError(f"a {job.state} job cannot be {verb}; only running jobs can")
        launch = Launch.objects.filter(job=job_id, state=LaunchState.RUNNING).first()
        if job.cancel_requested or (launch is not None and launch.cancel_requested):
            raise ConflictError(f"the job is being stopped and cannot be {verb}")
        if (job.suspension in _STOPPED) is (to is Suspension.REQUESTED):
            return
        servers = [server for (server,) in fetch_rows(_SERVERS, [job_id])]
        if to is Suspension.REQUESTED:
            _require_ability(launch.backend if launch is not None else "", servers)
        wake(MACHINES, servers)
        workloads.request_suspension(job, to, request_id=request_id)


def _require_ability(backend: str, servers: Collection[int]) -> None:
    """Check that the backend and the agents that run a job can suspend it.

    Raises
    ------
    ConflictError : it cannot; says why.
    """
    if backend not in backends_with(Capability.SUSPEND):
        raise ConflictError(f"the backend {backend} cannot suspend jobs")
    if backend != AGENT:
        return
    for agent in ServerAgent.objects.filter(server__in=servers).order_by("name"):
        if agent.facts.get("protocol", 0) < SUSPENDS_FROM:
            raise ConflictError(
                f"the agent of {agent.name} is too old to suspend jobs: replace its program"
            )


def record_suspensions(
    reports: Iterable[SuspensionReport],
    *,
    accepted: Mapping[bool, Collection[Suspension]] = REQUESTED,
) -> None:
    """Record which launches were stopped and continued, in the caller's transaction.

    Parameters
    ----------
    accepted : suspensions of a job that its report can change, by `SuspensionReport.is_suspended`
    """
    by_launch = {report.launch: report for report in reports}
    lock_launches(by_launch)
    jobs = dict(fetch_rows(_JOBS, [sorted(by_launch)]))
    suspended, resumed = (
        {
            jobs[launch]: report.at_s
            for launch, report in by_launch.items()
            if launch in jobs and report.is_suspended is is_suspended
        }
        for is_suspended in (True, False)
    )
    if suspended or resumed:
        workloads.record_suspended(suspended, resumed, only_from=accepted)
