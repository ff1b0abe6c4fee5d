"""Inputs and outputs of the engine: servers, orders, events and readings."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, fields
from enum import StrEnum

from apps.emulation.core.platforms import Catalogue
from apps.emulation.core.truth import Truth
from apps.inventory.core.snapshot import Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Machines:
    """The emulated servers.

    Attributes
    ----------
    platforms : the platforms and their hidden capacities
    platform : (S,) index into `platforms`
    units : (S,) resource units (cores) of each
    rack : (S,) index of the rack of each server; -1 = no rack
    memory_bytes, network_bps, storage_bytes : (S,) capacities, > 0
    idle_watts, peak_watts : (S,)
    speed : (S,) of each server relative to its platform; below 1 = a slow server
    """

    platforms: Catalogue
    platform: Ints
    units: Ints
    rack: Ints
    memory_bytes: Floats
    network_bps: Floats
    storage_bytes: Floats
    idle_watts: Floats
    peak_watts: Floats
    speed: Floats


@dataclass(frozen=True, slots=True)
class EngineOrder:
    """A job to start.

    Attributes
    ----------
    key : identifies the job in events and readings
    parts : (server, units) pairs, each server once
    work_s : unit-seconds of the highest-end platform; infinite for a service
    tasks : number of tasks; None if the work divides freely
    task_seed : from which their durations are drawn (`stragglers.task_seed`)
    duration_s : cluster seconds after which it ends even with work left; None if unlimited
    load : peak queries/s, for services
    percentile : of the latency that a service reports, 0-100
    done_share : share already done, of the work (of `duration_s` if the work is infinite), 0-1
    """

    key: Hashable
    truth: Truth
    parts: Sequence[tuple[int, int]]
    work_s: float
    tasks: int | None = None
    duration_s: float | None = None
    load: float = 0.0
    percentile: float = 99.0
    done_share: float = 0.0
    task_seed: int = 0


class EventKind(StrEnum):
    """Kind of an engine event."""

    FINISHED = "finished"
    PHASE = "phase"
    MIGRATED = "migrated"  # the migrated units run on their new server


@dataclass(frozen=True, slots=True)
class EngineEvent:
    """An event of one job at cluster time `at_s`; a PHASE event starts `phase`."""

    at_s: float
    kind: EventKind
    key: Hashable
    phase: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class ServerReadings:
    """Measured usage of every server; shares in [0, 1], all (S,)."""

    cpu_share: Floats
    memory_share: Floats
    network_share: Floats
    storage_share: Floats
    watts: Floats

    def of(self, servers: slice) -> "ServerReadings":
        """Return the readings of some servers."""
        return ServerReadings(*(getattr(self, each.name)[servers] for each in fields(self)))


@dataclass(frozen=True, slots=True, eq=False)
class JobReadings:
    """Monitor readings of L jobs.

    Attributes
    ----------
    keys : L keys
    progress : (L,) completed share, as `EngineOrder.done_share`; NaN for jobs without an end
    progress_per_s : (L,) current share of the work per second; 0 for jobs without an end
    metric : (L,) bytes/s or instructions/s; for services the queries answered per second
    offered_qps : (L,) queries/s that a service receives; NaN for other jobs
    latency_s : (L,) of services, at `EngineOrder.percentile`; NaN for other jobs
    left_s : (L,) cluster seconds to the end at the current speed; infinite for jobs without one
    cpu_share : (L,) of the allocated cores
    memory_rate : (L,) off-chip requests/s and unit
    network_wait, disk_wait : (L,) share of time a server full of such units would wait for
        packets, or for the disk, 0-1
    traffic_bps : (L,) bits/s and unit exchanged between the job's parts or tasks
    """

    keys: list[Hashable]
    progress: Floats
    progress_per_s: Floats
    metric: Floats
    offered_qps: Floats
    latency_s: Floats
    left_s: Floats
    cpu_share: Floats
    memory_rate: Floats
    network_wait: Floats
    disk_wait: Floats
    traffic_bps: Floats
