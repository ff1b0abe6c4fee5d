"""The interface between the emulator and the control plane.

A report may arrive twice (a connection can break after the commit), so reports are idempotent.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from apps.common.core.clock import ClusterClock
from apps.emulation.core.events import Machines, ServerReadings
from apps.emulation.core.probe_runs import ProbeRun
from apps.emulation.core.worlds import PAPER, World
from apps.execution.core.migration import MigrationOrder, MigrationReport
from apps.execution.core.port import EndReport
from apps.inventory.core.snapshot import Ints
from apps.profiling.core.measurements import MeasuredCell, MissingCell, ProfilingStep
from apps.workloads.core.attainment import Performance


class NoServersError(ValueError):
    """The inventory has no servers to emulate."""


@dataclass(frozen=True, slots=True)
class LaunchOrder:
    """One launch of one job.

    Attributes
    ----------
    launch : id of the launch
    parts : (server id, units) pairs, each server once
    input_bytes : 0 = none
    tasks : equal tasks that run in waves; None = the work divides freely
    duration_s : cluster seconds after which it ends even with work left; None = no limit
    done_share : share of the work already done, 0-1
    setting : label of the framework setting (`workloads.core.framework`); empty = the default
    placed_s : cluster seconds; when the job was given its units; None = unknown
    started_s : cluster seconds; when it started, if it runs; None = not yet
    """

    launch: int
    application: str
    kind: str
    parts: tuple[tuple[int, int], ...]
    target: Mapping[str, Any]
    input_bytes: int = 0
    tasks: int | None = None
    duration_s: float | None = None
    done_share: float = 0.0
    setting: str = ""
    placed_s: float | None = None
    started_s: float | None = None


@dataclass(frozen=True, slots=True)
class GrownLaunch:
    """All (server id, units) parts of a running launch whose job was given more units."""

    launch: int
    parts: tuple[tuple[int, int], ...]

    def added_to(self, parts: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
        """Return the units that are not among ``parts``, by server."""
        known = dict(parts)
        more = ((server, units - known.get(server, 0)) for server, units in self.parts)
        return [(server, units) for server, units in more if units > 0]


@dataclass(frozen=True, slots=True)
class ProfilingOrder:
    """One profiling run of an application: all its short runs.

    Attributes
    ----------
    budget_s : cluster seconds within which another source is started; None = all planned ones
    attempt : number of claims, this one included
    """

    run: UUID
    application: str
    kind: str
    runs: tuple[ProbeRun, ...]
    seed: int
    budget_s: float | None = None
    attempt: int = 1


@dataclass(frozen=True, slots=True)
class ProfilingReport:
    """Measured and missing cells of a profiling run, its end and duration in cluster seconds."""

    run: UUID
    at_s: float
    seconds: float
    cells: tuple[MeasuredCell, ...]
    missing: tuple[MissingCell, ...] = ()


@dataclass(frozen=True, slots=True)
class Counters:
    """Readings of a job from the counters of its servers.

    Attributes
    ----------
    memory_rate : off-chip requests/s and unit
    network_wait, disk_wait : share of time a server full of such units would wait for packets, or
        for the disk, 0-1
    traffic_bps : bits/s and unit exchanged between the job's containers
    """

    memory_rate: float
    network_wait: float
    disk_wait: float
    traffic_bps: float


@dataclass(frozen=True, slots=True)
class JobReport:
    """Monitor readings of one running job; ``counters`` is None if its servers have none."""

    launch: int
    performance: Performance
    cpu_share: float
    counters: Counters | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """The servers to emulate.

    Attributes
    ----------
    version : changes when servers are added or removed
    seed : the cluster's seed, from which all hidden truths are drawn
    server_id : (S,) ascending database ids, in the order of `machines`
    world : from which platforms, servers and applications are drawn
    """

    version: int
    seed: int
    server_id: Ints
    machines: Machines
    world: World = PAPER


class ControlPlane(Protocol):
    """The control plane as its emulated backend sees it."""

    def clock(self) -> ClusterClock:
        """Read the cluster clock as a function of the emulator's wall seconds."""
        ...

    def site(self) -> Site:
        """Read the current servers."""
        ...

    def site_version(self) -> int:
        """Read the version of the servers; cheap."""
        ...

    def renew(self, launches: Collection[int]) -> None:
        """Renew the leases of the backend and of the launches that run here."""
        ...

    def live_launches(self) -> Sequence[LaunchOrder]:
        """Read the running launches of this backend, with the progress of their jobs."""
        ...

    def claim_launches(self, limit: int) -> Sequence[LaunchOrder]:
        """Claim launches to start."""
        ...

    def cancelled_launches(self) -> Sequence[int]:
        """Read the live launches of this backend that have been cancelled."""
        ...

    def ended_launches(self, launches: Sequence[int]) -> Sequence[int]:
        """Read which of these launches have ended in the control plane."""
        ...

    def grown_launches(self) -> Sequence[GrownLaunch]:
        """Read the running launches whose jobs were given more units."""
        ...

    def report_grown(self, at_s: float, grown: Sequence[GrownLaunch]) -> None:
        """Report that launches run on these parts."""
        ...

    def claim_migrations(self, limit: int, *, doing: Collection[int]) -> Sequence[MigrationOrder]:
        """Claim migrations to start, and renew the leases of those in progress here."""
        ...

    def report_migrations(self, reports: Sequence[MigrationReport]) -> None:
        """Report started, completed and failed migrations."""
        ...

    def claim_profiling(self, limit: int, *, doing: Collection[UUID]) -> Sequence[ProfilingOrder]:
        """Claim profiling runs, and renew the leases of those in progress here."""
        ...

    def report_launches(self, started: Mapping[int, float], ended: Sequence[EndReport]) -> None:
        """Report the start times of launches, then ends."""
        ...

    def report_jobs(self, at_s: float, reports: Sequence[JobReport]) -> None:
        """Report the performance of running launches."""
        ...

    def report_servers(self, at_s: float, server_id: Ints, readings: ServerReadings) -> None:
        """Report the usage of every server, which is also its heartbeat."""
        ...

    def profiling_to_stop(self, doing: Collection[UUID]) -> Sequence[UUID]:
        """Read which of these profiling runs have been cancelled or have ended."""
        ...

    def report_stopped(self, runs: Sequence[UUID]) -> None:
        """Report that the copies of profiling runs are stopped."""
        ...

    def report_progress(self, steps: Mapping[UUID, ProfilingStep]) -> None:
        """Report the progress of profiling runs."""
        ...

    def report_measurements(self, report: ProfilingReport) -> None:
        """Report the cells of a completed profiling run."""
        ...

    def report_failed(self, run: UUID, at_s: float, reason: str) -> None:
        """Report a failed attempt of a profiling run."""
        ...


@dataclass(slots=True)
class Outbox:
    """Reports that the control plane has not confirmed yet."""

    started: dict[int, float] = field(default_factory=dict)
    migrations: list[MigrationReport] = field(default_factory=list)
    ended: list[EndReport] = field(default_factory=list)
