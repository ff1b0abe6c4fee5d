"""The three schedulers of YARN: FIFO, Capacity and Fair (K7).

A job is an application; each of its units is a container, for which the resource manager has a
queue. Nodes send heartbeats every h seconds, each at a time of its own. At a heartbeat the
resource manager gives free units of the node to applications in the order of the scheduler:

FIFO       by submission, whatever their queue; as many containers as the node has room for
Capacity   the queue with the least used_q / c_q, then by submission; one container
Fair       the queue with the least used_q / w_q, then the application with the fewest units, then
           by submission; one container

w_q is the weight of a queue, c_q = w_q / sum of w its capacity. A queue may have more than its
capacity while others need less, under Capacity up to a maximum share of all units.

An application waits until it is active. At most max(1, ceil(a U s_q)) applications of a queue are
active, the first ones: U units of the cluster, a the share for application masters; s_q = c_q
under Capacity, and under Fair w_q over the sum of the queues that have applications. FIFO has no
such limit. The application master runs in the first container, so it takes no unit of its own.

Source: Khaneja 2015, §5.1.1 and §5.3; the rules of one container or several at a heartbeat, of
active applications and of shares are those of YARN 2.6, which the thesis evaluates.
"""

import math
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from heapq import merge
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np

from apps.inventory.core.snapshot import Bools, Floats, Ints, Shorts
from apps.scheduling.core.cluster.in_memory_store import MemoryCluster
from apps.testbed.core.replay.queueing.launching import Launcher, WaitingJob
from apps.testbed.core.replay.waiting import Refusal

if TYPE_CHECKING:
    from apps.testbed.core.replay.loop import ReplayLoop

QUEUED: Final = "its application waits for a container of its queue"


@dataclass(slots=True, eq=False)
class AppQueue:
    """A queue of the resource manager.

    Attributes
    ----------
    number : as in the workload
    weight : w
    used : units of its applications
    pending : applications that are not active, in the order of submission
    active : jobs of active applications, until they end
    lacking : active applications that lack units, in the order of submission
    """

    number: int
    weight: float
    used: int = 0
    pending: deque[WaitingJob] = field(default_factory=deque)
    active: set[int] = field(default_factory=set)
    lacking: dict[int, WaitingJob] = field(default_factory=dict)

    @property
    def is_needed(self) -> bool:
        """Whether it has applications."""
        return bool(self.pending or self.active)


Order = Callable[[Sequence[AppQueue]], Iterable[tuple[AppQueue, WaitingJob]]]


class Rules(NamedTuple):
    """What distinguishes the three schedulers.

    Attributes
    ----------
    order : applications that lack units, the first to serve first
    fills : whether a heartbeat gives containers until the node has no room
    has_limit : whether the number of active applications is limited
    is_static : whether the share of a queue counts queues without applications
    """

    order: Order
    fills: bool
    has_limit: bool
    is_static: bool


def fifo_order(queues: Sequence[AppQueue]) -> Iterator[tuple[AppQueue, WaitingJob]]:
    """Yield applications in the order of submission."""
    rows = [[(queue, each) for each in queue.lacking.values()] for queue in queues]
    yield from merge(*rows, key=lambda row: row[1].serial)


def capacity_order(queues: Sequence[AppQueue]) -> Iterator[tuple[AppQueue, WaitingJob]]:
    """Yield applications of the queue with the least use of its capacity first."""
    for queue in sorted(queues, key=_use):
        for each in queue.lacking.values():
            yield queue, each


def fair_order(queues: Sequence[AppQueue]) -> Iterator[tuple[AppQueue, WaitingJob]]:
    """Yield applications with the fewest units of the queue with the least use first."""
    for queue in sorted(queues, key=_use):
        for each in sorted(queue.lacking.values(), key=lambda app: app.held):
            yield queue, each


def _use(queue: AppQueue) -> float:
    return queue.used / queue.weight


FIFO: Final = Rules(fifo_order, fills=True, has_limit=False, is_static=True)
CAPACITY: Final = Rules(capacity_order, fills=False, has_limit=True, is_static=True)
FAIR: Final = Rules(fair_order, fills=False, has_limit=True, is_static=False)


class Heartbeats:
    """Times of the heartbeats of nodes: phase + k h.

    Attributes
    ----------
    due_s : (S,) next heartbeat of each node that was not processed, or an earlier one
    """

    def __init__(self, interval_s: float, servers: int, rng: np.random.Generator) -> None:
        self._interval_s = interval_s
        self._phase_s = rng.uniform(0.0, interval_s, servers)
        self.due_s: Floats = self._phase_s.copy()

    def next_s(self, nodes: Bools, now: float) -> float:
        """Time of the next heartbeat of some nodes; infinite without a node."""
        if not nodes.any():
            return math.inf
        self._skip(now)
        return float(self.due_s[nodes].min())

    def due(self, nodes: Bools, now: float) -> list[int]:
        """Return the nodes with a heartbeat now, and advance theirs to the next one."""
        self._skip(now)
        due = np.flatnonzero(nodes & (self.due_s <= now))
        self.due_s[due] += self._interval_s
        servers: list[int] = due.tolist()
        return servers

    def _skip(self, now: float) -> None:
        """Leave out the heartbeats before a time."""
        late = np.flatnonzero(self.due_s < now)
        beats = np.ceil((now - self._phase_s[late]) / self._interval_s)
        self.due_s[late] = np.maximum(self._phase_s[late] + beats * self._interval_s, now)


class Yarn:
    """The resource manager of one run.

    Parameters
    ----------
    rules : of the scheduler
    heartbeat_s : h
    shares : ``am_share``, a; ``max_share`` of all units that a queue may use; ``weight_Q`` of the
        queue with the number Q. Each is 1 unless given

    Attributes
    ----------
    queues : those of the workload
    """

    def __init__(
        self,
        loop: "ReplayLoop",
        cluster: MemoryCluster,
        rng: np.random.Generator,
        *,
        rules: Rules,
        heartbeat_s: float,
        **shares: float,
    ) -> None:
        numbers = np.unique(loop.source.queues).tolist() or [0]
        self.queues = [AppQueue(each, shares.get(f"weight_{each}", 1.0)) for each in numbers]
        self._of_number = {queue.number: queue for queue in self.queues}
        self._rules, self._am_share = rules, shares.get("am_share", 1.0)
        self._launcher, self._cluster = Launcher(loop, cluster), cluster
        self._queue_of: Ints = loop.source.queues
        topology = cluster.topology
        self._free: Ints = topology.server_units.astype(np.int64)
        self._units = int(self._free.sum())
        self._most_used = max(1, math.floor(shares.get("max_share", 1.0) * self._units))
        self._heartbeats = Heartbeats(heartbeat_s, topology.server_id.size, rng)
        self._has_nothing: Bools = np.zeros(topology.server_id.size, dtype=np.bool_)

    @property
    def has_waiting(self) -> bool:
        """Whether an application lacks units."""
        return bool(self._launcher.waiting)

    def arrive(self, job: int) -> None:
        """Take a new application, or one whose server failed."""
        self._launcher.arrive(job)

    def release(self, allocation: int, now: float, units: Shorts | None = None) -> None:
        """Free containers of an application that ended."""
        job, freed = self._launcher.release(allocation)
        np.add.at(self._free, self._cluster.topology.unit_server[freed], 1)
        queue = self._queue(job)
        queue.used -= freed.size
        queue.active.discard(job)
        queue.lacking.pop(job, None)
        self._has_nothing[:] = False

    def open(self, servers: Sequence[int]) -> None:
        """Take the heartbeats of repaired nodes again."""
        self._launcher.open(servers)
        self._has_nothing[:] = False

    def next_s(self) -> float:
        """Time of the next heartbeat of a node that may get a container."""
        return self._heartbeats.next_s(self._nodes(), self._launcher.now)

    def commit(self, now: float) -> None:
        """Commit nothing: a container is taken when it is granted."""

    def decide(self, now: float) -> None:
        """Admit new applications, activate those within the limit, and process heartbeats."""
        for job in self._launcher.admitted(now):
            self._queue(job.job).pending.append(job)
            self._has_nothing[:] = False
        for queue in self.queues:
            self._activate(queue)
        for server in self._heartbeats.due(self._nodes(), now):
            granted = self._grant(server, now)
            while granted and self._rules.fills:
                granted = self._grant(server, now)
            self._has_nothing[server] = not granted

    def refusals(self) -> dict[int, Refusal]:
        """Why applications hold no units."""
        return self._launcher.refusals(QUEUED)

    def limit(self, queue: AppQueue) -> int:
        """Active applications that a queue may have."""
        if not self._rules.has_limit:
            return len(queue.active) + len(queue.pending)
        counted = [each for each in self.queues if self._rules.is_static or each.is_needed]
        share = queue.weight / sum(each.weight for each in counted or [queue])
        return max(1, math.ceil(self._am_share * self._units * share))

    def _queue(self, job: int) -> AppQueue:
        number = int(self._queue_of[job]) if self._queue_of.size else 0
        return self._of_number[number]

    def _nodes(self) -> Bools:
        """(S,) True for nodes that may have a container for an active application."""
        if not any(queue.lacking for queue in self.queues):
            return np.zeros_like(self._has_nothing)
        is_open = self._cluster.view().server_open
        nodes: Bools = (self._free > 0) & is_open & ~self._has_nothing
        return nodes

    def _activate(self, queue: AppQueue) -> None:
        room = self.limit(queue) - len(queue.active)
        while queue.pending and room > 0:
            job = queue.pending.popleft()
            queue.active.add(job.job)
            queue.lacking[job.job] = job
            room -= 1

    def _grant(self, server: int, now: float) -> bool:
        """Give one container of a node; False if no application takes one."""
        if not self._free[server]:
            return False
        for queue, job in self._rules.order(self.queues):
            if queue.used >= self._most_used or not job.able[server]:
                continue
            if self._launcher.launch(job, server, now):
                self._free[server] -= 1
                queue.used += 1
                if not job.left:
                    del queue.lacking[job.job]
                return True
        return False
