"""Jobs and nodes of Slurm as jobs and servers of Berth."""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final, NamedTuple
from uuid import UUID

from django.db import transaction

from apps.accounts.core.roles import Role, highest, includes
from apps.accounts.models import Membership, Project, User
from apps.accounts.services import create_user, join_project
from apps.common.core.errors import ConflictError
from apps.common.infrastructure.database import database_now
from apps.common.infrastructure.notifications import notify
from apps.execution.core.ends import End
from apps.execution.core.port import Outcome
from apps.execution.core.slurm.shapes import (
    application_of,
    command_of,
    eligible,
    labels_of,
    labels_wanted,
    name_of,
    platform_of,
    project_of,
)
from apps.execution.core.slurm.values import SlurmJob, SlurmNode
from apps.execution.models import SlurmJob as SlurmRow
from apps.inventory import services as inventory
from apps.inventory.core.backends import SLURM
from apps.inventory.models import Server, ServerReading, ServerState
from apps.inventory.selectors import cluster_time
from apps.workloads import services as workloads
from apps.workloads.core.constraints import Constraints
from apps.workloads.core.lifecycle import WAITING_STATES, JobState
from apps.workloads.core.reasons import Reason
from apps.workloads.core.spec import JobSpec
from apps.workloads.core.targets import BestEffort

NETWORK_BPS: Final = 10_000_000_000  # Slurm does not know the network of a node
STORAGE_BYTES: Final = 2**30  # of a node without TmpDisk
RACK: Final = "slurm"
_STATES: Final = {
    Outcome.FINISHED: (JobState.SUCCEEDED, Reason.SUCCEEDED),
    Outcome.CANCELLED: (JobState.CANCELLED, Reason.CANCELLED),
    Outcome.FAILED: (JobState.FAILED, Reason.JOB_FAILED),
}


class Submitter(NamedTuple):
    """A user of Slurm, and the project of Berth that the account would be."""

    username: str
    project: str


def by_submitter(jobs: Iterable[SlurmJob]) -> dict[Submitter, list[SlurmJob]]:
    """Return jobs by the user and the account that they belong to."""
    groups: dict[Submitter, list[SlurmJob]] = defaultdict(list)
    for job in jobs:
        groups[Submitter(job.user, project_of(job.account))].append(job)
    return dict(sorted(groups.items()))


def import_jobs(
    submitter: Submitter,
    jobs: Sequence[SlurmJob],
    nodes: Collection[SlurmNode],
    *,
    default_project: str,
) -> None:
    """Submit jobs of Slurm as jobs of their user, in the caller's transaction.

    Parameters
    ----------
    default_project : of the jobs whose account in Slurm is no project that their user submits to

    Raises
    ------
    ConflictError : there is no such project, or it is archived.
    """
    user, project = _account(*submitter, default_project)
    submitted = workloads.submit_jobs(
        [_spec(job, nodes) for job in jobs],
        project=project,
        user=user,
        correlation_id=f"slurm-{jobs[0].id}",
    )
    notify("scheduling.agent", queue="agents")
    SlurmRow.objects.bulk_create(
        SlurmRow(slurm_id=job.id, job=row, pinned=_runs_on(job))
        for job, row in zip(jobs, submitted, strict=True)
    )


def _account(username: str, account: str, default_project: str) -> tuple[User, Project]:
    """Return the user of Berth with this name, who is created if needed, and a project of hers.

    Slurm lets a user name any account, so the account is a project only for its submitters.

    Raises
    ------
    ConflictError : there is no such project.
    """
    user = User.objects.filter(username=username).first()
    if user is not None and (project := _project_of(user, account)):
        return user, project
    default = Project.objects.filter(name=default_project).first()
    if default is None:
        raise ConflictError(f"there is no project {default_project}")
    if user is None:
        user = create_user(
            username=username, password=None, role=Role.SUBMITTER, projects=[default.name]
        )
    elif not Membership.objects.filter(user=user, project=default).exists():
        join_project(user=user, project=default, role=Role.SUBMITTER)
    return user, default


def _project_of(user: User, name: str) -> Project | None:
    """Return a project if the user may submit jobs to it."""
    found = Membership.objects.filter(user=user, project__name=name).select_related("project")
    membership = found.first()
    if membership is None:
        return None
    held = highest([membership.role, user.role])
    return membership.project if includes(held, Role.SUBMITTER) else None


def _runs_on(job: SlurmJob) -> str:
    return job.nodes[0] if job.nodes and job.started_s and job.state != "PENDING" else ""


def _spec(job: SlurmJob, nodes: Collection[SlurmNode]) -> JobSpec:
    return JobSpec(
        application=application_of(job),
        target=BestEffort(),
        name=name_of(job),
        units=job.cpus,
        constraints=constraints_of(job, nodes, node=_runs_on(job) or None),
        labels={"slurm-job": str(job.id), "slurm-partition": job.partition[:63]},
        unit_memory_bytes=job.memory_bytes // job.cpus,
        command=command_of(job),
        working_directory=job.directory or None,
        backend=SLURM,
    )


def constraints_of(
    job: SlurmJob, nodes: Collection[SlurmNode], *, node: str | None
) -> Constraints:
    """Return where Slurm lets a job run; ``node`` is where it runs already."""
    platforms = sorted({platform_of(each) for each in eligible(job, nodes)})
    return Constraints(
        platforms=() if node else tuple(platforms),
        labels=labels_wanted(job, node=node),
        locality="server",
    )


def pin(slurm_id: int, job: UUID, constraints: Constraints, node: str) -> None:
    """Let a waiting job be placed on the node where it runs; without one, on any again.

    In the caller's transaction.
    """
    workloads.lock_jobs([job])
    row = SlurmRow.objects.filter(slurm_id=slurm_id, job=job, job__state__in=WAITING_STATES)
    if row.update(pinned=node):
        notify("scheduling.agent", queue="agents")
        workloads.set_constraints(job, constraints)


def end_unplaced(job: UUID, end: End, *, at_s: float) -> None:
    """End a waiting job that Slurm has run, or cancelled, without Berth."""
    state, reason = _STATES[end.outcome]
    with transaction.atomic():
        ended = workloads.JobEnd(job, state, at_s, reason, end.message, None, end.exit_code)
        workloads.record_transitions(workloads.end_unplaced([ended]))


def forget(slurm_ids: Collection[int]) -> None:
    """Compare these jobs no more: they have ended in Slurm and in Berth."""
    SlurmRow.objects.filter(slurm_id__in=slurm_ids, is_open=True).update(is_open=False)


def sync_nodes(nodes: Sequence[SlurmNode]) -> dict[str, str]:
    """Register nodes as servers, and follow their state; returns why some could not be, by node.

    A node that is down is a server that is down; one that drains takes no new work.
    """
    refused: dict[str, str] = {}
    known = {
        row.name: row
        for row in Server.objects.filter(backend=SLURM).select_related("platform").order_by("id")
    }
    for node in nodes:
        row = known.get(node.name)
        if row is None or _differs(row, node):
            try:
                known[node.name] = inventory.register_machine(
                    node.name, _shape(node), backend=SLURM, labels=labels_of(node)
                )
            except ConflictError as error:
                refused[node.name] = str(error)
    sound = [node for node in nodes if node.name in known and node.name not in refused]
    _follow_states(sound, known)
    _record_readings([node for node in sound if not node.is_down], known)
    return refused


def _differs(row: Server, node: SlurmNode) -> bool:
    known = (row.cores, row.memory_bytes, row.platform.name, row.labels)
    return known != (node.cpus, node.memory_bytes, platform_of(node), labels_of(node))


def _shape(node: SlurmNode) -> inventory.MachineShape:
    return inventory.MachineShape(
        cores=node.cpus,
        sockets=node.sockets,
        memory_bytes=node.memory_bytes,
        network_bps=NETWORK_BPS,
        storage_bytes=node.storage_bytes or STORAGE_BYTES,
        rack=RACK,
        kind=platform_of(node),
    )


def _follow_states(nodes: Sequence[SlurmNode], known: Mapping[str, Server]) -> None:
    for node in nodes:
        server = known[node.name]
        change = _change_of_state(node, ServerState(server.state))
        if change is None:
            continue
        if change is ServerState.DOWN:
            # without a reading, the sweep does not take the server for one that reports again
            ServerReading.objects.filter(server=server).delete()
        inventory.set_server_state(
            server_id=server.pk, state=change, only_from=ServerState(server.state)
        )


def _change_of_state(node: SlurmNode, state: ServerState) -> ServerState | None:
    """Return the state that a server takes from its node; None = it keeps its own.

    One that an administrator has cordoned stays so, and so does one whose node the controller has
    not heard from since it started: after a few seconds, it knows whether the node is down.
    """
    if state is ServerState.CORDONED or (node.is_unknown and not node.is_down):
        return None
    wanted = ServerState.ACTIVE
    if node.is_closed:
        wanted = ServerState.DRAINING
    if node.is_down:
        wanted = ServerState.DOWN
    return None if wanted is state else wanted


def _record_readings(nodes: Sequence[SlurmNode], known: Mapping[str, Server]) -> None:
    reports = []
    for node in nodes:
        server = known[node.name]
        cpu = min(1.0, (node.cpu_load or 0.0) / node.cpus)
        free = node.memory_bytes if node.free_bytes is None else node.free_bytes
        used = min(1.0, max(0.0, 1.0 - free / node.memory_bytes))
        reports.append(inventory.ServerReport(server.pk, cpu, used, 0.0, 0.0, 0.0))
    now = cluster_time()
    inventory.record_readings(reports, backend=SLURM, at=database_now(), cluster_s=now.cluster_s)
