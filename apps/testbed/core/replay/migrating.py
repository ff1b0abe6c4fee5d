"""Migrations during a replay: a planner proposes them, production's rules start them.

A planner reads the running jobs at an interval. Its migrations start after the time that the plan
takes, in order, as soon as the target has room (`placement.core.rebalancing.executor`). The job
holds units on both servers until the container has arrived; meanwhile its units do no work there.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import numpy as np

from apps.emulation.core.engine import Engine
from apps.inventory.core.snapshot import Shorts
from apps.placement.core.rebalancing.executor import PendingMigration, Resources, due_migrations
from apps.scheduling.core.cluster.capacity import unit_vectors
from apps.scheduling.core.cluster.in_memory_store import Committed, MemoryCluster
from apps.scheduling.core.types import Placed, Request

if TYPE_CHECKING:
    from apps.testbed.core.replay.loop import ReplayLoop

NEVER_S: Final = float("inf")
MINUTE_S: Final = 60.0
NOTHING: Final = np.empty(0)
Parts = list[tuple[int, int]]


class HeldPart(NamedTuple):
    """Units of a running job on one server, and the row of `ReplayLoop.holds` about them."""

    row: int
    units: int


@dataclass(slots=True)
class RunningJob:
    """A job that holds units.

    Attributes
    ----------
    request : by which its units were placed
    allocations : in the cluster; one more for each migration, and for further units
    parts : by server; on both servers during a migration
    since_s : time of the start
    lacking : units that it was to have, and does not have yet
    evaluated : change-log number of the copy on which it got further units last, or none; -1 = it
        is evaluated at once
    """

    request: Request
    allocations: list[int]
    parts: dict[int, HeldPart]
    since_s: float
    lacking: int = 0
    evaluated: int = -1

    def units_on(self, cluster: MemoryCluster, server: int) -> Shorts:
        """(k,) its units on a server."""
        held = np.concatenate([cluster.held(each) for each in self.allocations])
        on: Shorts = held[cluster.topology.unit_server[held] == server]
        return on


class Migration(NamedTuple):
    """Migration of units of a job between servers, which stops them for ``stall_s``."""

    job: int
    source: int
    target: int
    units: int
    stall_s: float


class ClusterView(NamedTuple):
    """What a planner may read: running jobs in order of their start, commits, and monitors."""

    running: Mapping[int, RunningJob]
    cluster: MemoryCluster
    engine: Engine
    has_pending: bool


class Planner(Protocol):
    """Proposes migrations.

    Attributes
    ----------
    interval_s : between two readings, on multiples of it, while jobs run
    decision_s : from a reading to the first start
    per_minute : starts within a minute, at most
    """

    interval_s: float
    decision_s: float
    per_minute: int

    def plan(self, view: ClusterView, now: float) -> Sequence[Migration] | None:
        """Return migrations in order, which replace those that wait; None = keep these."""
        ...

    def started(self, migration: Migration) -> None:
        """Note that a migration has started."""
        ...


class _Moving(NamedTuple):
    migration: Migration
    units: Shorts  # on the source


@dataclass(slots=True)
class Migrating:
    """The migrations of one run; without a planner there are none.

    Attributes
    ----------
    layouts : parts of each job after each migration of a container, and after each further unit
        that it got, in order
    moved : migrations started, by job
    """

    loop: "ReplayLoop"
    cluster: MemoryCluster
    planner: Planner | None
    layouts: dict[int, list[Parts]] = field(default_factory=dict)
    moved: dict[int, int] = field(default_factory=dict)
    _queue: list[Migration] = field(default_factory=list)
    _moving: dict[int, _Moving] = field(default_factory=dict)
    _starts: list[float] = field(default_factory=list)
    _begin_s: float = 0.0
    _due_s: float = NEVER_S

    def next_s(self) -> float:
        """Time of the next reading or start; infinite if no job runs."""
        if self.planner is None or self.loop.engine.next_event_s == NEVER_S:  # no job will end
            self._due_s = NEVER_S
            return NEVER_S
        now, interval = self.loop.engine.now, self.planner.interval_s
        self._due_s = (now // interval + 1.0) * interval
        if not self._queue:
            return self._due_s
        if now < self._begin_s:
            return min(self._due_s, self._begin_s)
        minute = self._starts[-self.planner.per_minute] + MINUTE_S if self._is_full(now) else now
        return min(self._due_s, minute) if minute > now else self._due_s

    def read(self, now: float) -> None:
        """Let the planner read, if it is time."""
        if self.planner is None or now < self._due_s or not self.loop.running:
            return
        self._due_s = NEVER_S
        view = ClusterView(
            self.loop.running, self.cluster, self.loop.engine, bool(self._queue or self._moving)
        )
        planned = self.planner.plan(view, now)
        if planned is not None:
            self._queue, self._begin_s = list(planned), now + self.planner.decision_s
            self.begin(now)

    def begin(self, now: float) -> None:
        """Start the migrations that can start."""
        self._queue = [each for each in self._queue if each.job in self.loop.running]
        if self.planner is None or not self._queue or now < self._begin_s:
            return
        pending = [
            self._pending(i, each) for i, each in enumerate([*self._under_way(), *self._queue])
        ]
        moving = len(pending) - len(self._queue)
        free = {each.target: self._free(each.target) for each in self._queue}
        is_open = self.cluster.view().server_open
        free = {server: room for server, room in free.items() if is_open[server]}
        self._starts = [at for at in self._starts if at + MINUTE_S > now]
        due = due_migrations(
            pending, free, busy=(), limit=self.planner.per_minute - len(self._starts)
        )
        removed = {*due.begin, *due.hopeless}
        begin = [self._queue[i - moving] for i in due.begin]
        self._queue = [each for i, each in enumerate(self._queue, moving) if i not in removed]
        for migration in begin:
            self._start(migration, now)

    def arrive(self, job: int, now: float) -> None:
        """Free the units that a container has left."""
        migration, units = self._moving.pop(job)
        running = self.loop.running[job]
        for allocation in list(running.allocations):
            held = self.cluster.held(allocation)
            gone = held[np.isin(held, units)]
            if gone.size == held.size:
                running.allocations.remove(allocation)
            if gone.size:
                self.loop.release(allocation, gone)
        self.loop.shrink(job, migration.source, migration.units, now)
        self.note_layout(job)

    def note_layout(self, job: int) -> None:
        """Note the parts of a running job, which have changed."""
        parts = self.loop.running[job].parts
        now = sorted((server, part.units) for server, part in parts.items())
        self.layouts.setdefault(job, []).append(now)

    def has_changed(self, job: int) -> bool:
        """Whether a job has migrated, or got further units."""
        return job in self.moved or job in self.layouts

    def is_moving(self, job: int) -> bool:
        """Whether a container of a job is migrating."""
        return job in self._moving

    def forget(self, job: int) -> None:
        """Drop the migration of a job that ended."""
        self._moving.pop(job, None)

    def _is_full(self, now: float) -> bool:
        if self.planner is None:
            return False
        recent = self._starts[-self.planner.per_minute :]
        return len(recent) == self.planner.per_minute and recent[0] + MINUTE_S > now

    def _under_way(self) -> list[Migration]:
        return [each.migration for each in self._moving.values()]

    def _pending(self, ordinal: int, migration: Migration) -> PendingMigration:
        request = self.loop.running[migration.job].request
        return PendingMigration(
            ordinal, 0, migration.job, migration.source, migration.target,
            self._needs(request, migration.target, migration.units),
            self._needs(request, migration.source, migration.units),
            is_moving=ordinal < len(self._moving),
        )  # fmt: skip

    def _needs(self, request: Request, server: int, units: int) -> Resources:
        one = unit_vectors(self.cluster.topology, np.array([server], dtype=np.int32), request)[0]
        return Resources(float(units), *(units * one).tolist())

    def _free(self, server: int) -> Resources:
        state = self.cluster.view()
        first, size = self._range(server)
        units = float(state.unit_free[first : first + size].sum())
        # a rounding error of many shares must not keep out the last one
        return Resources(units, *(state.server_free[server] * (1.0 + 1e-6) + 1e-6).tolist())

    def _range(self, server: int) -> tuple[int, int]:
        topology = self.cluster.topology
        return int(topology.server_first_unit[server]), int(topology.server_units[server])

    def _start(self, migration: Migration, now: float) -> None:
        running = self.loop.running[migration.job]
        units = running.units_on(self.cluster, migration.source)[: migration.units]
        if units.size < migration.units:  # the container has moved since it was planned
            return
        first, size = self._range(migration.target)
        free = first + np.flatnonzero(self.cluster.view().unit_free[first : first + size])
        chosen = free[: migration.units].astype(np.int32)
        placed = Placed(
            running.request.job, chosen, (), 0, 0, {}, 0.0, 0.0, 0, self.cluster.sequence, NOTHING
        )
        won = self.cluster.commit(placed, running.request)
        if not isinstance(won, Committed) or won.lost.size:
            raise ValueError(f"server {migration.target} has no room for {migration}")
        running.allocations.append(won.allocation)
        self.loop.engine.migrate(*migration[:4], now, migration.stall_s)
        self.loop.hold(migration.job, migration.target, migration.units, now)
        self._moving[migration.job] = _Moving(migration, units)
        self.moved[migration.job] = self.moved.get(migration.job, 0) + 1
        self._starts.append(now)
        if self.planner is not None:
            self.planner.started(migration)
