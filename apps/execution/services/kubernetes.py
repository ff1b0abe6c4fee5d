"""Pods and nodes of Kubernetes as jobs and servers of Berth."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final
from uuid import UUID

from django.db import transaction

from apps.accounts.core.roles import Role
from apps.accounts.models import Membership, Project, User
from apps.accounts.services import create_user, join_project
from apps.common.core.errors import ConflictError
from apps.common.infrastructure.database import database_now
from apps.common.infrastructure.notifications import notify
from apps.execution.core.ends import End
from apps.execution.core.kubernetes.eligible import Where, labels_of, platform_of
from apps.execution.core.kubernetes.jobs import fields_of, project_of, user_of
from apps.execution.core.kubernetes.room import cores_of, left_of
from apps.execution.core.kubernetes.values import MILLIS, Node, Pod, Resources
from apps.execution.core.port import Outcome
from apps.execution.models import KubernetesPod
from apps.execution.selectors.kubernetes import kubernetes_servers
from apps.inventory import services as inventory
from apps.inventory.core.backends import KUBERNETES
from apps.inventory.models import Server, ServerReading, ServerState
from apps.inventory.selectors import cluster_time
from apps.workloads import services as workloads
from apps.workloads.core.constraints import Constraints
from apps.workloads.core.lifecycle import WAITING_STATES, JobState
from apps.workloads.core.reasons import Reason
from apps.workloads.core.spec import JobSpec, parse_job

NETWORK_BPS: Final = 10_000_000_000  # Kubernetes does not know the network of a node
STORAGE_BYTES: Final = 2**30  # of a node that does not name its ephemeral storage
RACK: Final = "kubernetes"
ZONE: Final = "topology.kubernetes.io/zone"
_STATES: Final = {
    Outcome.FINISHED: (JobState.SUCCEEDED, Reason.SUCCEEDED),
    Outcome.CANCELLED: (JobState.CANCELLED, Reason.CANCELLED),
    Outcome.FAILED: (JobState.FAILED, Reason.JOB_FAILED),
}


def import_pod(pod: Pod, where: Where, *, default_project: str) -> None:
    """Submit a pod as a job of the user of its namespace, in the caller's transaction.

    Raises
    ------
    ConflictError : neither the project of its namespace nor the default one exists or is open.
    InvalidInputError : an annotation is malformed.
    """
    spec = _spec(pod, where)
    user, project = _account(pod.namespace, default_project)
    (row,) = workloads.submit_jobs(
        [spec], project=project, user=user, correlation_id=f"pod-{pod.uid}"[:63]
    )
    notify("scheduling.agent", queue="agents")
    KubernetesPod.objects.create(
        uid=pod.uid, namespace=pod.namespace, name=pod.name, job=row, pinned=pod.node
    )


def _spec(pod: Pod, where: Where) -> JobSpec:
    return replace(
        parse_job(fields_of(pod)), constraints=constraints_of(where), backend=KUBERNETES
    )


def constraints_of(where: Where) -> Constraints:
    """Return where the job of a pod may be placed."""
    return Constraints(platforms=where.platforms, labels=where.labels, locality="server")


def _account(namespace: str, default_project: str) -> tuple[User, Project]:
    """Return the user of a namespace, who is created if needed, and the project of its jobs.

    Raises
    ------
    ConflictError : there is no such project.
    """
    own = project_of(namespace)
    named = {row.name: row for row in Project.objects.filter(name__in=(own, default_project))}
    project = named.get(own) or named.get(default_project)
    if project is None:
        raise ConflictError(f"there is no project {own}, and no project {default_project}")
    username = user_of(namespace)
    user = User.objects.filter(username=username).first()
    if user is None:
        user = create_user(
            username=username,
            password=None,
            role=Role.SUBMITTER,
            service=True,
            projects=[project.name],
        )
    elif not Membership.objects.filter(user=user, project=project).exists():
        join_project(user=user, project=project, role=Role.SUBMITTER)
    return user, project


def pin(uid: str, job: UUID, where: Where, node: str) -> None:
    """Let a waiting job be placed on the node that its pod is bound to.

    In the caller's transaction.
    """
    workloads.lock_jobs([job])
    row = KubernetesPod.objects.filter(uid=uid, job=job, job__state__in=WAITING_STATES)
    if row.update(pinned=node):
        notify("scheduling.agent", queue="agents")
        workloads.set_constraints(job, constraints_of(where))


def end_unplaced(job: UUID, end: End, *, at_s: float) -> None:
    """End a waiting job whose pod has ended, or was deleted, without Berth."""
    state, reason = _STATES[end.outcome]
    with transaction.atomic():
        ended = workloads.JobEnd(job, state, at_s, reason, end.message, None, end.exit_code)
        workloads.record_transitions(workloads.end_unplaced([ended]))


def forget(uids: Collection[str]) -> None:
    """Compare these pods no more: they have ended in Kubernetes and in Berth."""
    KubernetesPod.objects.filter(uid__in=uids, is_open=True).update(is_open=False)


def sync_nodes(
    nodes: Sequence[Node], foreign: Mapping[str, Resources], crowded: Collection[str]
) -> dict[str, str]:
    """Register nodes as servers, and follow their state; returns why some could not be, by node.

    A node that is not ready or no longer exists is a server that is down; one that is cordoned or
    crowded takes no new work. A new node is registered when it is ready, without what pods of
    others request on it by then.

    Parameters
    ----------
    foreign : requests of the pods that Berth does not count, by node
    crowded : nodes on which a pod did not fit, though Berth counted enough free units
    """
    refused: dict[str, str] = {}
    known = kubernetes_servers()
    for node in nodes:
        row = known.get(node.name)
        if row is None and not node.is_ready:
            continue
        if row is None or _differs(row, node):
            try:
                known[node.name] = _register(node, row, foreign)
            except ConflictError as error:
                refused[node.name] = str(error)
    by_name = {node.name: node for node in nodes}
    for name, server in known.items():
        _follow_state(server, by_name.get(name), is_crowded=name in crowded)
    ready = [by_name[name] for name in known if name in by_name and by_name[name].is_ready]
    _record_heartbeats(ready, known)
    return refused


def _differs(row: Server, node: Node) -> bool:
    return (row.platform.name, row.labels) != (platform_of(node), labels_of(node))


def _register(node: Node, row: Server | None, foreign: Mapping[str, Resources]) -> Server:
    """Register a node; one that is known keeps its cores.

    Raises
    ------
    ConflictError : it has no whole core left, fewer cores than before, or the name of another.
    """
    left = left_of(node, foreign)
    cores, memory_bytes = cores_of(left), left.memory_bytes
    if row is not None:
        cores = min(row.cores, node.room.cpu_millis // MILLIS)
        memory_bytes = min(row.memory_bytes, node.room.memory_bytes)
    if cores < 1 or memory_bytes < 1:
        raise ConflictError("pods of other schedulers leave less than one core, or no memory")
    shape = inventory.MachineShape(
        cores=cores,
        sockets=1,
        memory_bytes=memory_bytes,
        network_bps=NETWORK_BPS,
        storage_bytes=node.storage_bytes or STORAGE_BYTES,
        rack=(node.labels.get(ZONE) or RACK)[:63],
        kind=platform_of(node),
    )
    return inventory.register_machine(node.name, shape, backend=KUBERNETES, labels=labels_of(node))


def _follow_state(server: Server, node: Node | None, *, is_crowded: bool) -> None:
    state = ServerState(server.state)
    change = _change_of_state(node, state, is_crowded=is_crowded)
    if change is None:
        return
    if change is ServerState.DOWN:
        # without a reading, the sweep does not take the server for one that reports again
        ServerReading.objects.filter(server=server).delete()
    inventory.set_server_state(server_id=server.pk, state=change, only_from=state)


def _change_of_state(
    node: Node | None, state: ServerState, *, is_crowded: bool
) -> ServerState | None:
    """Return the state that a server takes from its node; None = it keeps its own.

    One that an administrator has cordoned stays so.
    """
    if state is ServerState.CORDONED:
        return None
    wanted = ServerState.ACTIVE
    if node is None or not node.is_ready:
        wanted = ServerState.DOWN
    elif node.is_closed or is_crowded:
        wanted = ServerState.DRAINING
    return None if wanted is state else wanted


def _record_heartbeats(nodes: Iterable[Node], known: Mapping[str, Server]) -> None:
    """Record that nodes are ready; without the metrics API, their usage is that of their units."""
    reports = []
    for node in nodes:
        row = known[node.name]
        cpu, memory = row.used_cores / row.cores, row.used_memory_bytes / row.memory_bytes
        reports.append(
            inventory.ServerReport(row.pk, min(1.0, cpu), min(1.0, memory), 0.0, 0.0, 0.0)
        )
    now = cluster_time()
    inventory.record_readings(
        reports, backend=KUBERNETES, at=database_now(), cluster_s=now.cluster_s
    )
