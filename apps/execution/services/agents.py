"""What agents report, and what they are to run: registration, heartbeats, launches, output.

An agent reports what has changed and receives all live launches of its server. It compares them
with its own tasks, so no message is needed twice, and none does harm twice.
"""

import json
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from threading import BoundedSemaphore
from typing import Any, Final

from django.conf import settings
from django.db import transaction

from apps.common.core.errors import ConflictError, CredentialError
from apps.common.infrastructure.database import database_now, fetch_rows
from apps.common.infrastructure.notifications import listening
from apps.execution.core.agent.wire import (
    FILES_FROM,
    LOST,
    PROGRESS_FROM,
    RESUMED,
    STARTED,
    SUSPENDED,
    KnownOrders,
    MachineUsage,
    TaskReport,
    known_orders,
    protocol_of,
)
from apps.execution.core.port import CommandOrder, EndReport, Outcome, SuspensionReport
from apps.execution.models import ServerAgent
from apps.execution.services.heartbeats import beat, store_heartbeats
from apps.execution.services.launch_reports import record_ended, record_started
from apps.execution.services.launches import release_jobs, request_launches
from apps.execution.services.recovery import requeue_launch
from apps.execution.services.restarts import record_restarts
from apps.execution.services.suspension import record_suspensions
from apps.inventory import services as inventory
from apps.inventory.core.backends import AGENT, MACHINES
from apps.inventory.selectors import cluster_time
from apps.workloads.core.arrays import array_variables

GRANTED: Final = "lease_s"  # fact of an agent: the lease that its registration gave it
MAX_LAUNCHES: Final = 1000  # requested at a time
MAX_WAITING: Final = 2  # agents that hold a thread of this process; others are answered at once
_WAITING: Final = BoundedSemaphore(MAX_WAITING)
_NEWS: Final = {FILES_FROM: "files and users", PROGRESS_FROM: "progress commands"}
POLL_S: Final = 1.0  # wall seconds between two looks while an agent waits and nothing wakes it
_ORDERS: Final = """
SELECT l.id, j.id, j.name, l.state = 'running', l.cancel_requested OR j.cancel_requested,
       ARRAY(SELECT u.core FROM inventory_resourceunit u WHERE u.id = ANY(a.unit_ids)
             ORDER BY u.core),
       a.memory_bytes, j.program, j.duration_s, j.suspension IN ('requested', 'suspended'),
       j.suspension IN ('suspended', 'resuming'), coalesce(j.files_id, ''),
       j.batch_id, j.array_index
FROM scheduling_allocation a
JOIN workloads_job j ON j.id = a.job_id
JOIN execution_launch l ON l.job_id = j.id AND l.state IN ('requested', 'running')
WHERE a.server_id = %s AND a.released_seq IS NULL AND l.backend = %s AND j.program IS NOT NULL
  AND (a.moved_from IS NULL OR a.moved_s IS NOT NULL)  -- reserved until the job was stopped
ORDER BY l.id
"""
_OWN: Final = """
SELECT DISTINCT l.id, l.cancel_requested OR j.cancel_requested, j.submitted_s
FROM execution_launch l
JOIN workloads_job j ON j.id = l.job_id
JOIN scheduling_allocation a ON a.job_id = l.job_id AND a.server_id = %s
WHERE l.id = ANY(%s) AND l.backend = %s AND l.state <> 'ended' AND a.released_seq IS NULL
  AND (a.moved_from IS NULL OR a.moved_s IS NOT NULL)
"""


class SupersededError(ConflictError):
    """The agent has registered again since, or was enrolled again: this process is fenced."""


def register_agent(
    agent: ServerAgent, shape: inventory.MachineShape, facts: Mapping[str, Any]
) -> ServerAgent:
    """Register the machine of an agent as a server; returns the agent with its new epoch.

    Agents with an older epoch are fenced.

    Raises
    ------
    ConflictError : the name or the shape contradicts what is registered.
    """
    with transaction.atomic():
        # locked before the numbers of the change log
        row = ServerAgent.objects.select_for_update(of=("self",)).get(pk=agent.pk)
        server = inventory.register_machine(agent.name, shape)
        granted_s = settings.AGENT_LEASE_S
        row.server, row.epoch = server, row.epoch + 1
        row.facts = {**facts, GRANTED: granted_s}
        # until the answer has come, the machine holds the lease of the agent before
        row.lease_s = max(granted_s, row.lease_s or 0.0)
        row.registered_at = database_now()
        row.save(update_fields=["server", "epoch", "facts", "lease_s", "registered_at"])
    beat(server.pk, MachineUsage(0.0, 0.0))
    store_heartbeats()
    return row


def confirm_lease(agent: ServerAgent) -> None:
    """Take the lease of an agent's registration as that of its machine: it has the answer."""
    granted_s = agent.facts.get(GRANTED)
    if granted_s is not None and agent.lease_s != granted_s:
        same = ServerAgent.objects.filter(pk=agent.pk, epoch=agent.epoch)
        same.update(lease_s=granted_s)


def record_reports(agent: ServerAgent, epoch: int, reports: Sequence[TaskReport]) -> None:
    """Record starts and ends of launches on the server of an agent; ignore all other launches.

    A job whose task was stopped although nobody cancelled it is queued again.

    Raises
    ------
    SupersededError : the agent has been fenced.
    """
    require_epoch(agent, epoch)
    if not reports:
        return
    now = cluster_time()
    launches = [report.launch for report in reports]
    rows = fetch_rows(_OWN, [agent.server_id, launches, AGENT])
    own = {launch: is_cancelled for launch, is_cancelled, _ in rows}
    submitted_s = {launch: at_s for launch, _, at_s in rows}
    reports = [_as_lost(r) if _is_unasked(r, own) else r for r in reports]
    at = {r.launch: now.cluster_s - r.age_s * now.speed for r in reports if r.launch in own}
    lost = {r.launch: r.message for r in reports if r.launch in own and r.state == LOST}
    ended = [
        EndReport(r.launch, at[r.launch], r.state, r.message, r.exit_code)
        for r in reports
        if r.launch in own and r.state not in {STARTED, LOST, SUSPENDED, RESUMED}
    ]
    suspensions = [
        SuspensionReport(r.launch, at[r.launch], r.state == SUSPENDED)
        for r in reports
        if r.launch in own and r.state in {SUSPENDED, RESUMED}
    ]
    # what has ended had started; each step ends with events, after which no row may be locked
    started = {launch: at_s for launch, at_s in at.items() if launch not in lost}
    for r in reports:
        if r.launch in started and r.ran_s is not None:
            begun_s = started[r.launch] - r.ran_s * now.speed
            # the clock of the cluster may have stood still while the control plane was away
            started[r.launch] = min(started[r.launch], max(begun_s, submitted_s[r.launch]))
    if started:
        with fenced(agent, epoch):
            record_started(started, worker=agent.name, lease_s=settings.AGENT_LEASE_S)
    if suspensions:
        with fenced(agent, epoch):
            record_suspensions(suspensions)
    if ended:
        with fenced(agent, epoch):
            record_restarts(ended)
        with fenced(agent, epoch):
            record_ended(ended, release_jobs=release_jobs)
    for launch, message in sorted(lost.items()):
        with fenced(agent, epoch):
            requeue_launch(launch, message)


def _is_unasked(report: TaskReport, own: Mapping[int, bool]) -> bool:
    """Whether a task was stopped although nobody cancelled it, as by a shutdown of its machine."""
    return report.state == Outcome.CANCELLED and own.get(report.launch) is False


def _as_lost(report: TaskReport) -> TaskReport:
    message = f"its machine stopped it: {report.message}".removesuffix(": ")
    return replace(report, state=LOST, message=message)


@contextmanager
def fenced(agent: ServerAgent, epoch: int) -> Iterator[None]:
    """Open a transaction in which no newer agent can register.

    Raises
    ------
    SupersededError : one has.
    """
    with transaction.atomic():
        require_epoch(ServerAgent.objects.select_for_update().get(pk=agent.pk), epoch)
        yield


def require_epoch(agent: ServerAgent, epoch: int) -> None:
    """Check that an agent is the latest one of its server, and that its credential is valid.

    Raises
    ------
    CredentialError : the credential was revoked, maybe since the request was authenticated.
    SupersededError : another agent is the latest one.
    """
    if agent.revoked_at is not None:
        raise CredentialError("The credential is unknown or revoked.")
    if agent.epoch != epoch or agent.server_id is None:
        raise SupersededError(
            f"Another agent has registered as {agent.name} since; this one must stop its jobs."
        )


def orders_of(server_id: int) -> list[CommandOrder]:
    """Return all live launches on a server, with those requested now."""
    request_launches(AGENT, limit=MAX_LAUNCHES, server=server_id)
    orders = [_order(row) for row in fetch_rows(_ORDERS, [server_id, AGENT])]
    if any(protocol_of(order) > 1 for order in orders):
        orders = _in_protocol(server_id, orders)
    if any(order.probe for order in orders) and not _can_probe(server_id):
        return [
            replace(order, stop=True, probe=None) if order.probe else order for order in orders
        ]
    return orders


def _in_protocol(server_id: int, orders: Collection[CommandOrder]) -> list[CommandOrder]:
    """Return the orders that the agent of a server can read; end launches that it cannot run."""
    agent = ServerAgent.objects.filter(server=server_id).first()
    if agent is None:
        return list(orders)
    protocol = agent.facts.get("protocol", 0)
    new = [order for order in orders if protocol_of(order) > protocol]
    refused = {order.launch for order in new if not order.is_running}
    _refuse(agent, [order for order in new if order.launch in refused])
    # what runs needs only its id
    running = {
        order.launch: replace(order, files="", user="", progress_command=(), progress_every_s=0.0)
        for order in new
        if order.is_running
    }
    return [running.get(x.launch, x) for x in orders if x.launch not in refused]


def _refuse(agent: ServerAgent, orders: Collection[CommandOrder]) -> None:
    """End launches that an agent is too old for."""
    at_s = cluster_time().cluster_s
    ended = [
        EndReport(
            order.launch,
            at_s,
            Outcome.FAILED,
            f"the agent of {agent.name} is too old for {_NEWS[protocol_of(order)]}:"
            " replace its program",
        )
        for order in orders
    ]
    with transaction.atomic():
        record_ended(ended, release_jobs=release_jobs)


def _can_probe(server_id: int) -> bool:
    return ServerAgent.objects.filter(server=server_id, facts__probe=True).exists()


def wait_for_orders(
    agent: ServerAgent, epoch: int, known: KnownOrders, *, wait_s: float
) -> list[CommandOrder]:
    """Return the orders of a server as soon as they differ from those that its agent knows.

    Parameters
    ----------
    known : orders of the last answer
    wait_s : wall seconds after which the orders are returned in any case

    Raises
    ------
    SupersededError : the agent was fenced meanwhile.
    """
    if wait_s <= 0.0 or not _WAITING.acquire(blocking=False):
        return orders_of(agent.server_id or 0)
    until = time.monotonic() + wait_s
    try:
        with listening(MACHINES, agent.server_id or 0) as wait:
            while True:
                orders = checked_orders(agent.pk, epoch)
                left_s = until - time.monotonic()
                if have_changed(orders, known) or left_s <= 0.0:
                    return orders
                wait(min(left_s, POLL_S))
    finally:
        _WAITING.release()


def have_changed(orders: Collection[CommandOrder], known: KnownOrders) -> bool:
    """Return True if orders differ from those that an agent knows."""
    return known != known_orders(orders)


def checked_orders(agent_id: int, epoch: int) -> list[CommandOrder]:
    """Return the orders of a server to its latest agent.

    Raises
    ------
    SupersededError : there is a newer one.
    """
    agent = ServerAgent.objects.get(pk=agent_id)
    require_epoch(agent, epoch)
    return orders_of(agent.server_id or 0)


def _order(row: tuple[Any, ...]) -> CommandOrder:
    launch, job, name, is_running, stop, cores, memory_bytes, program, duration_s, *rest = row
    suspend, is_suspended, files, array, index = rest
    command = json.loads(program)
    return CommandOrder(
        launch=launch,
        job=str(job),
        name=name,
        is_running=is_running,
        stop=stop,
        cores=tuple(cores),
        memory_bytes=memory_bytes,
        command=tuple(command["command"]),
        environment={**command["environment"], **array_variables(array, index)},
        working_directory=command["working_directory"],
        duration_s=duration_s,
        suspend=suspend,
        is_suspended=is_suspended,
        files=files,
        user=command.get("user") or "",
        probe=command.get("probe"),
        progress_command=tuple(command.get("progress_command") or ()),
        progress_every_s=command.get("progress_every_seconds") or 0.0,
    )
