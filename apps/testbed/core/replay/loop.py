"""The loop of a replay: arrivals, decisions, commits, migrations, ends, failures.

At one instant, jobs end first and migrations arrive, then servers are repaired and fail, then
migrations start and agents commit, then jobs arrive, then idle agents decide. A job on a failed
server loses its work and is submitted again.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

import numpy as np

from apps.emulation.core.engine import Engine
from apps.emulation.core.events import EngineOrder, EventKind
from apps.inventory.core.snapshot import Ints, Shorts
from apps.scheduling.core.cluster.in_memory_store import Committed, MemoryCluster
from apps.scheduling.core.sizing.sizes import Infeasible
from apps.scheduling.core.types import Placed, Policy
from apps.testbed.core.demo_cluster import DemoCluster
from apps.testbed.core.replay.deciding import Deciding
from apps.testbed.core.replay.demand import LazyFacts, Shape, SizedRequest
from apps.testbed.core.replay.failures import FailureClock
from apps.testbed.core.replay.migrating import HeldPart, Migrating, Planner, RunningJob
from apps.testbed.core.replay.model import ReplayOptions
from apps.testbed.core.replay.queueing.types import QueueingPolicy, Scheduler
from apps.testbed.core.replay.summary import HoldLists
from apps.testbed.core.replay.waiting import Refusal

NEVER_S: Final = float("inf")
MAX_RESTARTS: Final = 20  # of a job
INFEASIBLE: Final = "InfeasibleTarget"
WORN_OUT: Final = "ServersFailed"


@dataclass(slots=True)
class JobRecord:
    """History of one job; NaN for a time not reached.

    Attributes
    ----------
    started_s : first start
    whole_s : time at which it first held all units that it asked for
    units, asked : units that it holds, and that it asked for
    restarts : times that a failed server ended it
    setting : speed of its framework setting relative to the default one
    holds : first and number of its rows in `ReplayLoop.holds` at its last start
    failure : code and sentence why it was refused for good; None = it was not
    """

    job: str
    arrived_s: float
    started_s: float = float("nan")
    whole_s: float = float("nan")
    ended_s: float = float("nan")
    units: int = 0
    conflicts: int = 0
    refusals: int = 0
    restarts: int = 0
    asked: int = 0
    setting: float = 1.0
    holds: tuple[int, int] = (0, 0)
    failure: str | None = None


class JobSource(Protocol):
    """Jobs by number, in order of arrival.

    Attributes
    ----------
    queues : (n,) number of the queue of each job; empty = all jobs are in one
    """

    @property
    def queues(self) -> Ints: ...  # noqa: D102 - described above

    def next_arrival(self) -> tuple[float, str] | None:
        """Time and name of the next job, the first one first; None = no more."""
        ...

    def shape(self, job: int) -> Shape:
        """Return what a decision on a waiting job depends on, besides the cluster."""
        ...

    def request(self, job: int, now: float, facts: LazyFacts) -> SizedRequest | Infeasible:
        """Size a job and build its request."""
        ...

    def order(self, job: int, sized: SizedRequest, parts: list[tuple[int, int]]) -> EngineOrder:
        """Return the order that starts a job; its key is the number of the job."""
        ...

    def ended(self, job: int, ran_s: float, *, is_whole: bool) -> None:
        """Note the end of a job that ran for a time.

        Parameters
        ----------
        is_whole : on all units that it asked for, without a migration or a restart
        """
        ...


OnDecision = Callable[[float, Placed, bool], None]


class ReplayLoop:
    """One run.

    Attributes
    ----------
    records : of the jobs that arrived
    holds : every part of a job on a server
    ended, events : jobs that ended; starts, ends and phases
    used, units : units in use, and in all
    running : jobs that hold units, in order of their start
    incomplete : those that lack units
    failures : of servers
    migrating : migrations of a planner
    """

    def __init__(
        self,
        cluster: DemoCluster,
        source: JobSource,
        policy: Policy | QueueingPolicy,
        options: ReplayOptions,
        on_decision: OnDecision | None = None,
        planner: Planner | None = None,
    ) -> None:
        engine_seed, policy_seed, agent_seed = np.random.SeedSequence([options.seed]).spawn(3)
        self.records: list[JobRecord] = []
        self.holds = HoldLists([], [], [], [], [])
        self.ended = self.events = self.used = 0
        self.units = int(cluster.topology.server_units.sum())
        self.engine = Engine(cluster.machines, np.random.default_rng(engine_seed))
        self.source, self.options = source, options
        servers = cluster.topology.server_units.size
        self.failures = FailureClock(options.failures, servers, options.seed)
        self._on_decision = on_decision
        self._cluster = MemoryCluster(
            cluster.topology, is_compiled=True, keeps_log=not options.has_sole_agent
        )
        self.running: dict[int, RunningJob] = {}
        self.incomplete: dict[int, RunningJob] = {}
        self.migrating = Migrating(self, self._cluster, planner)
        self._deciding: Scheduler
        if isinstance(policy, QueueingPolicy):
            rng = np.random.default_rng(policy_seed)
            self._deciding = policy.scheduler(self, self._cluster, rng)
        else:
            self._deciding = Deciding(self, self._cluster, policy, policy_seed, agent_seed)
        self._arrival: tuple[float, str] | None = None
        self._has_more = True

    def turns(self, *, drain: bool = True) -> Iterator[float]:
        """Process one instant after the other; yields their times.

        Parameters
        ----------
        drain : until every job that can end has ended, else until the last arrival
        """
        self._peek()
        while drain or self._arrival is not None:
            at = self._next_s()
            if at > self.options.until_s or at == NEVER_S:
                break
            self._process(at)
            self._peek()
            yield at
        if drain and self.options.until_s < NEVER_S:
            self.engine.advance(self.options.until_s)

    def refusals(self) -> dict[int, Refusal]:
        """Last refusal of each waiting job that was evaluated."""
        return self._deciding.refusals()

    def fail(self, job: int, text: str, *, code: str = INFEASIBLE) -> None:
        """Refuse a job for good, for a reason with a code."""
        self.records[job].failure = f"{code}: {text}"

    def record_decision(self, placed: Placed, *, is_committed: bool, now: float) -> None:
        """Pass a decision that chose units, and whether it was committed, to the observer."""
        if self._on_decision is not None:
            self._on_decision(now, placed, is_committed)

    def start(
        self,
        job: int,
        sized: SizedRequest,
        won: Committed,
        now: float,
        *,
        wanted: int | None = None,
    ) -> None:
        """Start a job on the units that it won.

        Parameters
        ----------
        wanted : units that its policy decided on; None = as requested
        """
        parts = parts_of(won.units, self._cluster.topology.unit_server)
        self.engine.start([self.source.order(job, sized, parts)], now)
        record = self.records[job]
        record.units = int(won.units.size)
        if math.isnan(record.started_s):
            record.started_s = now
        record.asked, record.setting = sized.request.units, sized.speed
        record.holds = (len(self.holds.server), len(parts))
        lacking = (wanted or sized.request.units) - record.units
        running = RunningJob(sized.request, [won.allocation], {}, now, lacking)
        self.running[job] = running
        if lacking > 0:
            self.incomplete[job] = running
        for server, units in parts:
            self.hold(job, server, units, now)
        self.events += 1
        self._note_whole(record, now)

    def grow(self, job: int, won: Committed, now: float) -> None:
        """Give a running job further units, which work from now on."""
        parts = parts_of(won.units, self._cluster.topology.unit_server)
        self.engine.grow(job, parts, now)
        running, record = self.running[job], self.records[job]
        running.allocations.append(won.allocation)
        for server, units in parts:
            self.hold(job, server, units, now)
        record.units += int(won.units.size)
        running.lacking -= int(won.units.size)
        if not running.lacking:
            del self.incomplete[job]
        self.migrating.note_layout(job)
        self.events += 1
        self._note_whole(record, now)

    def hold(self, job: int, server: int, units: int, now: float) -> None:
        """Note units that a running job holds on a server from now on."""
        parts = self.running[job].parts
        if server in parts:
            units += self._close(parts.pop(server), now)
        parts[server] = HeldPart(len(self.holds.server), units)
        self.holds.server.append(server)
        self.holds.units.append(units)
        self.holds.from_s.append(now)
        self.holds.to_s.append(NEVER_S)
        self.holds.job.append(job)
        self.used += units

    def shrink(self, job: int, server: int, units: int, now: float) -> None:
        """Note units that a running job no longer holds on a server."""
        left = self._close(self.running[job].parts.pop(server), now) - units
        if left:
            self.hold(job, server, left, now)

    def release(self, allocation: int, units: Shorts) -> None:
        """Free units that a container has left."""
        self._deciding.release(allocation, self.engine.now, units)

    def is_running(self, job: int) -> bool:
        """Whether a job holds units."""
        return job in self.running

    def _next_s(self) -> float:
        at = min(self.engine.next_event_s, self._deciding.next_s(), self.migrating.next_s())
        if self._arrival is not None:
            at = min(at, self._arrival[0])
        if at == NEVER_S and self._deciding.has_waiting:  # only a repaired server may help
            at = self.failures.repair_s
            if at < NEVER_S:
                self.failures.skip_to(at)
        if at < NEVER_S:
            at = min(at, self.failures.failure_s, self.failures.repair_s)
        return max(at, self.engine.now)

    def _process(self, at: float) -> None:
        for event in self.engine.advance(at):
            self.events += 1
            if event.kind is EventKind.FINISHED:
                self._end(int(str(event.key)), event.at_s)
            elif event.kind is EventKind.MIGRATED:
                self.migrating.arrive(int(str(event.key)), event.at_s)
        if self.options.failures is not None:
            self._break(at)
        self.migrating.begin(at)
        self._deciding.commit(at)
        for _ in range(self.options.batch):
            if self._arrival is None or self._arrival[0] > at:
                break
            self.records.append(JobRecord(self._arrival[1], self._arrival[0]))
            self._deciding.arrive(len(self.records) - 1)
            self._arrival = None
            if self.options.batch > 1:
                self._peek()
        self._deciding.decide(at)
        self.migrating.read(at)

    def _break(self, now: float) -> None:
        """Open the servers that are repaired, and close those that fail."""
        if repaired := self.failures.repaired(now):
            self._deciding.open(repaired)
        if failed := self.failures.failed(now):
            self._cluster.set_open(failed, is_open=False)
            down = set(failed)
            for job in sorted(self.running):
                if not down.isdisjoint(self.running[job].parts):
                    self._lose(job, now)

    def _lose(self, job: int, now: float) -> None:
        """Submit a job of a failed server again, without the work it has done."""
        self.engine.cancel(job, now)
        self._free(job, now)
        record = self.records[job]
        record.restarts += 1
        if record.restarts > MAX_RESTARTS:  # else a job longer than the time between failures
            text = f"failed servers ended the job {record.restarts} times"  # would never end
            self.fail(job, text, code=WORN_OUT)
        else:
            self._deciding.arrive(job)

    def _peek(self) -> None:
        if self._arrival is not None or not self._has_more:
            return
        before = self.records[-1].arrived_s if self.records else 0.0
        self._arrival = self.source.next_arrival()
        self._has_more = self._arrival is not None
        if self._arrival is not None and not before <= self._arrival[0] < NEVER_S:
            raise ValueError(f"job {self._arrival[1]} arrives before the job before it")

    def _end(self, job: int, now: float) -> None:
        record = self.records[job]
        record.ended_s = now
        has_changed = bool(record.restarts) or self.migrating.has_changed(job)
        is_whole = record.units == record.asked and not has_changed
        self.source.ended(job, now - record.started_s, is_whole=is_whole)
        self.ended += 1
        self._free(job, now)

    def _note_whole(self, record: JobRecord, now: float) -> None:
        if record.units == record.asked and math.isnan(record.whole_s):
            record.whole_s = now

    def _free(self, job: int, now: float) -> None:
        running = self.running.pop(job)
        self.incomplete.pop(job, None)
        self.migrating.forget(job)
        for part in running.parts.values():
            self._close(part, now)
        for allocation in running.allocations:
            self._deciding.release(allocation, now)

    def _close(self, part: HeldPart, now: float) -> int:
        """End a hold; returns its units."""
        self.holds.to_s[part.row] = now
        self.used -= part.units
        return part.units


def parts_of(units: Shorts, unit_server: Shorts) -> list[tuple[int, int]]:
    """(server, number of units) pairs, by server."""
    return sorted(Counter(unit_server[units].tolist()).items())
