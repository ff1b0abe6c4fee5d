"""All the emulator may ask of the control plane and tell it: the backend's side of execution.

Every report may arrive twice (a connection can break after the commit), so reports are idempotent.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from apps.common.core.clock import ClusterClock
from apps.emulation.core.events import Machines, ServerReadings
from apps.emulation.core.probe import Measured, ProbeRun, Step, Unmeasured
from apps.execution.core.migration import MoveOutcome
from apps.inventory.core.snapshot import Ints
from apps.workloads.core.attainment import Performance


class NoServersError(ValueError):
    """The inventory is empty: there is nothing to emulate."""


@dataclass(frozen=True, slots=True)
class LaunchOrder:
    """One launch of one job.

    Attributes
    ----------
    launch : id of the launch
    parts : (server id, units) pairs, each server once
    input_bytes : 0 = none
    tasks : equal tasks that run in waves; None = the work divides freely
    duration_s : cluster seconds after which it ends whatever its work; None = never
    done_share : where it resumes, 0-1
    setting : label of the framework setting (`workloads.core.framework`); empty = the default
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


@dataclass(frozen=True, slots=True)
class ProfilingOrder:
    """Profiling runs wanted of one application, all at once.

    Attributes
    ----------
    budget_s : cluster seconds within which another source is begun; None = all planned ones
    attempt : how often it was claimed, this time included
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
    """What the runs of one application measured, and what not; when, and in how many seconds."""

    run: UUID
    at_s: float
    seconds: float
    cells: tuple[Measured, ...]
    missing: tuple[Unmeasured, ...] = ()


@dataclass(frozen=True, slots=True)
class Counters:
    """What the counters of its servers tell of a job.

    Attributes
    ----------
    memory_rate : off-chip requests/s and unit
    network_wait, disk_wait : share of time spent waiting for packets, or for the disk, were a
        whole server of such units at work, 0-1
    traffic_bps : bits/s and unit that the job's containers exchange
    """

    memory_rate: float
    network_wait: float
    disk_wait: float
    traffic_bps: float


@dataclass(frozen=True, slots=True)
class JobReport:
    """What the monitors saw of one running job; counters where its servers have some."""

    launch: int
    performance: Performance
    cpu_share: float
    counters: Counters | None = None


@dataclass(frozen=True, slots=True)
class MoveOrder:
    """Units of a launch to be moved from one server to another."""

    migration: int
    launch: int
    from_server: int
    to_server: int
    units: int


@dataclass(frozen=True, slots=True)
class MoveReport:
    """What became of a migration, at which cluster time; `message` says why it failed."""

    migration: int
    at_s: float
    outcome: MoveOutcome
    message: str = ""


@dataclass(frozen=True, slots=True)
class EndReport:
    """How a launch ended, at which cluster time; `message` says why it failed."""

    launch: int
    at_s: float
    outcome: str  # finished | cancelled | failed
    message: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Site:
    """The servers to emulate.

    Attributes
    ----------
    version : changes when servers come or go
    seed : of the cluster; every hidden draw hangs on it
    server_id : (S,) ascending database ids, the order of `machines`
    """

    version: int
    seed: int
    server_id: Ints
    machines: Machines


class ControlPlane(Protocol):
    """The control plane as its emulated backend sees it."""

    def clock(self) -> ClusterClock:
        """Read how cluster time runs now."""
        ...

    def site(self) -> Site:
        """Read the servers as they are now."""
        ...

    def site_version(self) -> int:
        """Read the version of the servers, cheaply."""
        ...

    def live_launches(self) -> Sequence[LaunchOrder]:
        """Read what this backend had running before a restart, with its progress."""
        ...

    def claim_launches(self, limit: int) -> Sequence[LaunchOrder]:
        """Claim launches to start now; they are this process's from here on."""
        ...

    def cancelled_launches(self) -> Sequence[int]:
        """Read which launches of this backend somebody wants stopped."""
        ...

    def ended_launches(self, launches: Sequence[int]) -> Sequence[int]:
        """Read which of these launches are over for the control plane, whatever runs here."""
        ...

    def claim_moves(self, limit: int, *, doing: Collection[int]) -> Sequence[MoveOrder]:
        """Claim migrations to begin now, and keep the claims of those this process is doing."""
        ...

    def report_moves(self, reports: Sequence[MoveReport]) -> None:
        """Tell which migrations have begun, arrived or failed."""
        ...

    def claim_profiling(self, limit: int, *, doing: Collection[UUID]) -> Sequence[ProfilingOrder]:
        """Claim profiling runs to do now, and keep the claims of those this process is doing."""
        ...

    def report_started(self, launches: Mapping[int, float]) -> None:
        """Tell which launches run, since when."""
        ...

    def report_ended(self, reports: Sequence[EndReport]) -> None:
        """Tell which launches run no more."""
        ...

    def report_jobs(self, at_s: float, reports: Sequence[JobReport]) -> None:
        """Tell how running launches are doing."""
        ...

    def report_servers(self, at_s: float, server_id: Ints, readings: ServerReadings) -> None:
        """Tell that every server is alive, and its use."""
        ...

    def profiling_to_stop(self, doing: Collection[UUID]) -> Sequence[UUID]:
        """Read which of these profiling runs are cancelled or over, whatever runs here."""
        ...

    def report_stopped(self, runs: Sequence[UUID]) -> None:
        """Tell that the copies of profiling runs are stopped."""
        ...

    def report_steps(self, steps: Mapping[UUID, Step]) -> None:
        """Tell how far profiling runs are that go on."""
        ...

    def report_measurements(self, report: ProfilingReport) -> None:
        """Hand in what profiling runs measured; they are done."""
        ...

    def report_failed(self, run: UUID, at_s: float, reason: str) -> None:
        """Tell that a profiling run could not be done."""
        ...


@dataclass(slots=True)
class Outbox:
    """Reports not yet delivered; kept until the control plane has taken them."""

    started: dict[int, float] = field(default_factory=dict)
    moves: list[MoveReport] = field(default_factory=list)
    ended: list[EndReport] = field(default_factory=list)
