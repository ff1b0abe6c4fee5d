"""What the engine is asked and what it tells."""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from enum import StrEnum

from apps.emulation.core.platforms import Catalogue
from apps.emulation.core.truth import Truth
from apps.inventory.core.snapshot import Floats, Ints


@dataclass(frozen=True, slots=True, eq=False)
class Machines:
    """The emulated servers.

    Attributes
    ----------
    platforms : what they are really worth
    platform : (S,) index into `platforms`
    units : (S,) resource units (cores) of each
    rack : (S,) index of the rack each stands in; -1 of all that stand in none
    memory_bytes, network_bps, storage_bytes : (S,) capacities, > 0
    idle_watts, peak_watts : (S,)
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


@dataclass(frozen=True, slots=True)
class Order:
    """One job to run.

    Attributes
    ----------
    key : names the run in every answer
    parts : (server, units) pairs, each server once
    work_s : unit-seconds of the highest-end platform; infinite for a service
    tasks : equal tasks the work consists of, or None where it divides freely
    duration_s : ends after this long whatever the work, cluster seconds; None = never
    load : queries/s at the peak, for services
    percentile : of the latency a service reports, 0-100
    done_share : where it resumes, share of the work (of `duration_s` if the work is infinite), 0-1
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


class EventKind(StrEnum):
    """What happened to a run."""

    FINISHED = "finished"
    PHASE = "phase"
    MOVED = "moved"  # the units of a move run where they were to go


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened at `at_s` of cluster time; a PHASE event begins `phase`."""

    at_s: float
    kind: EventKind
    key: Hashable
    phase: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class ServerReadings:
    """Use of every server as its monitor would report it; shares in [0, 1], all (S,)."""

    cpu_share: Floats
    memory_share: Floats
    network_share: Floats
    storage_share: Floats
    watts: Floats


@dataclass(frozen=True, slots=True, eq=False)
class JobReadings:
    """What the monitors report of L runs.

    Attributes
    ----------
    keys : L keys
    progress : (L,) share done, in the sense of `Order.done_share`; NaN for what never ends
    progress_per_s : (L,) share of the work done per second at present; 0 for what never ends
    metric : (L,) bytes/s or instructions/s; for services the queries/s of `Order.load` times the
        share of the queries of the moment that are answered
    latency_s : (L,) of services at `Order.percentile`, NaN for others
    left_s : (L,) cluster seconds to the end at the present speed, infinite for what never ends
    cpu_share : (L,) of the cores held
    memory_rate : (L,) off-chip requests/s and unit
    network_wait, disk_wait : (L,) share of time spent waiting for packets, or for the disk, were a
        whole server of such units at work, 0-1
    traffic_bps : (L,) bits/s and unit that the job's parts, or tasks, exchange
    """

    keys: list[Hashable]
    progress: Floats
    progress_per_s: Floats
    metric: Floats
    latency_s: Floats
    left_s: Floats
    cpu_share: Floats
    memory_rate: Floats
    network_wait: Floats
    disk_wait: Floats
    traffic_bps: Floats
