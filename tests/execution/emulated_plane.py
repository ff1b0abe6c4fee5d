"""A control plane in memory, for tests of the emulator."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import numpy as np

from apps.common.core.clock import ClusterClock
from apps.emulation.core.draws import application_truth
from apps.emulation.core.events import ServerReadings
from apps.emulation.core.truth import Truth
from apps.execution.backends.emulated.emulator import Emulator, Pace
from apps.execution.backends.emulated.port import (
    GrownLaunch,
    JobReport,
    LaunchOrder,
    ProfilingOrder,
    ProfilingReport,
    Site,
)
from apps.execution.core.migration import MigrationOrder, MigrationReport
from apps.execution.core.port import EndReport
from apps.execution.services.backend_holders import BackendHeldError
from apps.inventory.core.snapshot import Ints
from apps.profiling.core.measurements import MeasuredCell, ProfilingStep
from tests.emulation.worlds import all_platforms, machines

BATCH = {"kind": "completion_time", "seconds": 1000.0}
ALWAYS = Pace(poll_s=0.0, jobs_s=0.5, slice_s=0.5, servers_s=0.0)


class AwayError(Exception):
    """The database does not answer."""


def site(*units: int, version: int = 1) -> Site:
    """Servers 101, 102 ... of the highest-end platform."""
    return Site(
        version=version,
        seed=7,
        server_id=np.arange(101, 101 + len(units), dtype=np.int64),
        machines=machines(*units, platforms=all_platforms()),
    )


@dataclass
class MemoryPlane:
    """Returns the given orders and stores all reports."""

    place: Site
    speed: float = 60.0
    waiting: list[LaunchOrder] = field(default_factory=list)
    live: list[LaunchOrder] = field(default_factory=list)
    cancelled: list[int] = field(default_factory=list)
    given_up: list[int] = field(default_factory=list)
    profiling: list[ProfilingOrder] = field(default_factory=list)
    wanted_moves: list[MigrationOrder] = field(default_factory=list)
    moves: list[MigrationReport] = field(default_factory=list)
    moving: set[int] = field(default_factory=set)
    started: dict[int, float] = field(default_factory=dict)
    ended: list[EndReport] = field(default_factory=list)
    jobs: dict[int, JobReport] = field(default_factory=dict)
    servers: list[tuple[float, ServerReadings]] = field(default_factory=list)
    measured: dict[UUID, tuple[float, tuple[MeasuredCell, ...]]] = field(default_factory=dict)
    reports: list[ProfilingReport] = field(default_factory=list)
    steps: list[dict[UUID, ProfilingStep]] = field(default_factory=list)
    failed: list[tuple[UUID, str]] = field(default_factory=list)
    unwanted: list[UUID] = field(default_factory=list)
    stopped: list[UUID] = field(default_factory=list)
    claimed_runs: set[UUID] = field(default_factory=set)
    grown: list[GrownLaunch] = field(default_factory=list)
    grown_reports: list[tuple[float, GrownLaunch]] = field(default_factory=list)
    is_away: bool = False
    is_taken_over: bool = False
    renewed: list[int] = field(default_factory=list)

    def clock(self) -> ClusterClock:
        self._answer()
        return ClusterClock(0.0, 0.0, self.speed)

    def site(self) -> Site:
        self._answer()
        return self.place

    def site_version(self) -> int:
        self._answer()
        return self.place.version

    def renew(self, launches: Collection[int]) -> None:
        self._answer()
        if self.is_taken_over:
            raise BackendHeldError("another process runs the backend")
        self.renewed = sorted(launches)

    def live_launches(self) -> Sequence[LaunchOrder]:
        self._answer()
        return self.live

    def claim_launches(self, limit: int) -> Sequence[LaunchOrder]:
        self._answer()
        claimed, self.waiting = self.waiting[:limit], self.waiting[limit:]
        return claimed

    def cancelled_launches(self) -> Sequence[int]:
        self._answer()
        orders, self.cancelled = self.cancelled, []
        return orders

    def ended_launches(self, launches: Sequence[int]) -> list[int]:
        self._answer()
        return [launch for launch in launches if launch in self.given_up]

    def grown_launches(self) -> Sequence[GrownLaunch]:
        self._answer()
        return self.grown

    def report_grown(self, at_s: float, grown: Sequence[GrownLaunch]) -> None:
        self._answer()
        self.grown_reports += [(at_s, each) for each in grown]
        self.grown = [each for each in self.grown if each not in grown]

    def claim_migrations(self, limit: int, *, doing: Collection[int]) -> Sequence[MigrationOrder]:
        self._answer()
        self.moving = set(doing)
        return [order for order in self.wanted_moves if order.migration not in doing][:limit]

    def report_migrations(self, reports: Sequence[MigrationReport]) -> None:
        self._answer()
        self.moves += reports
        over = {report.migration for report in reports if report.outcome != "started"}
        self.wanted_moves = [x for x in self.wanted_moves if x.migration not in over]

    def claim_profiling(self, limit: int, *, doing: Collection[UUID]) -> Sequence[ProfilingOrder]:
        self._answer()
        self.claimed_runs = set(doing)
        claimed, self.profiling = self.profiling[:limit], self.profiling[limit:]
        return claimed

    def report_launches(self, started: Mapping[int, float], ended: Sequence[EndReport]) -> None:
        self._answer()
        self.started |= started
        self.ended += ended

    def report_jobs(self, at_s: float, reports: Sequence[JobReport]) -> None:
        self._answer()
        self.jobs |= {report.launch: report for report in reports}

    def report_servers(self, at_s: float, server_id: Ints, readings: ServerReadings) -> None:
        self._answer()
        self.servers.append((at_s, readings))

    def profiling_to_stop(self, doing: Collection[UUID]) -> list[UUID]:
        self._answer()
        return [run for run in doing if run in self.unwanted]

    def report_stopped(self, runs: Sequence[UUID]) -> None:
        self._answer()
        self.stopped += runs

    def report_progress(self, steps: Mapping[UUID, ProfilingStep]) -> None:
        self._answer()
        self.steps.append(dict(steps))

    def report_measurements(self, report: ProfilingReport) -> None:
        self._answer()
        self.measured[report.run] = (report.at_s, report.cells)
        self.reports.append(report)

    def report_failed(self, run: UUID, at_s: float, reason: str) -> None:
        self._answer()
        self.failed.append((run, reason))

    def _answer(self) -> None:
        if self.is_away:
            raise AwayError


def sort(kind: str = "batch") -> Truth:
    return application_truth(7, "sort", kind, all_platforms())


def launch(number: int, *, seconds: float = 100.0, units: int = 1, **more: Any) -> LaunchOrder:
    """Launch whose work takes one unit this number of seconds in isolation."""
    work = {"input_bytes": round(seconds * sort().bytes_per_s)}
    plain = {"application": "sort", "kind": "batch", "target": BATCH, "parts": ((101, units),)}
    return LaunchOrder(launch=number, **(plain | work | more))


def emulator(plane: MemoryPlane, wall_s: float = 0.0) -> Emulator:
    return Emulator(plane, wall_s=wall_s, pace=ALWAYS)
