"""Monitor readings of the emulated servers and jobs: the true state with measurement noise.

Noise is multiplicative and normal: 3 % on a server's CPU, 1 % on its other resources, the
application's own on a job's metric, latency and CPU (`truth.Noise`, 2 % in the `paper` world), 5 %
on its counters of memory, network, disk and traffic. A service counts its queries exactly.
"""

from collections.abc import Hashable
from dataclasses import dataclass, fields
from typing import Any, Final, NamedTuple

import numpy as np

from apps.common.core.interference import SOURCES
from apps.emulation.core.draws import LATENCY_CRITICAL
from apps.emulation.core.events import EngineOrder, JobReadings, Machines, ServerReadings
from apps.emulation.core.kernels import JobTable, PartTable
from apps.emulation.core.queueing import TIMEOUT_S, latency_percentile
from apps.inventory.core.snapshot import Bools, Floats, Ints

CPU_NOISE: Final = 0.03
RESOURCE_NOISE: Final = 0.01
COUNTER_NOISE: Final = 0.05
MEMORY_REQUESTS: Final = 3e7  # per second, of a busy unit with a caused score of 100
IDLE_CPU: Final = 0.01  # share used by a server's own services


@dataclass(frozen=True, slots=True, eq=False)
class JobFacts:
    """Constants of the running jobs, by job slot; all (J,).

    work_s : unit-seconds
    start_s, end_s : start, and time at which it ends even with work left (infinite if none)
    resumed : share done at the start (`EngineOrder.done_share`)
    units, busy : allocated units, and the share of them that its tasks keep busy
    cpu_share, memory_bytes, network_bps, storage_bytes : usage of one unit
    metric, noise : metric per unit of work, and the noise of a report
    latency_power : `truth.Truth.latency_power`
    load, swing, peak_s, percentile : of services; the load of other jobs is 0
    is_service : the load limits the metric
    is_exchanging : it has parts or tasks that exchange data
    """

    work_s: Floats
    start_s: Floats
    end_s: Floats
    resumed: Floats
    units: Floats
    busy: Floats
    cpu_share: Floats
    memory_bytes: Floats
    network_bps: Floats
    storage_bytes: Floats
    metric: Floats
    noise: Floats
    latency_power: Floats
    load: Floats
    swing: Floats
    peak_s: Floats
    percentile: Floats
    is_service: Bools
    is_exchanging: Bools

    @classmethod
    def empty(cls, slots: int) -> "JobFacts":
        """Create the facts of free slots."""
        columns: dict[str, Any] = {
            field.name: np.zeros(slots, dtype=np.bool_ if field.name.startswith("is_") else float)
            for field in fields(cls)
        }
        return cls(**columns)

    def grown(self) -> "JobFacts":
        """Copy of the facts with twice the slots."""
        new = JobFacts.empty(2 * len(self.units))
        for field in fields(self):
            column = getattr(self, field.name)
            getattr(new, field.name)[: len(column)] = column
        return new

    def fill(
        self, slot: int, order: EngineOrder, *, units: int, busy: float, now: float, end_s: float
    ) -> None:
        """Write the facts of one order into a slot."""
        truth, demand = order.truth, order.truth.demand
        self.work_s[slot], self.start_s[slot], self.end_s[slot] = order.work_s, now, end_s
        self.resumed[slot], self.units[slot], self.busy[slot] = order.done_share, units, busy
        self.cpu_share[slot], self.memory_bytes[slot] = demand.cpu_share, demand.memory_bytes
        self.network_bps[slot], self.storage_bytes[slot] = demand.network_bps, demand.storage_bytes
        self.metric[slot], self.load[slot] = truth.metric_per_s, order.load
        self.noise[slot], self.latency_power[slot] = truth.noise.metric, truth.latency_power
        self.swing[slot], self.peak_s[slot] = truth.traffic.swing, truth.traffic.peak_s
        self.percentile[slot] = order.percentile
        self.is_service[slot] = truth.kind == LATENCY_CRITICAL and order.load > 0.0
        self.is_exchanging[slot] = len(order.parts) > 1 or order.tasks is not None

    def resize(self, slot: int, units: int, busy: float, *, is_exchanging: bool) -> None:
        """Write the units of a job that was given more."""
        self.units[slot], self.busy[slot] = units, busy
        self.is_exchanging[slot] |= is_exchanging

    def progress(self, jobs: JobTable, slots: Ints, now: float) -> Floats:
        """(L,) completed share of the work, else of the duration; NaN for jobs without an end."""
        done = (
            jobs.done[slots] + jobs.speed[slots] * (now - jobs.updated_s[slots])
        ) / self.work_s[slots]
        span = self.end_s[slots] - self.start_s[slots]
        with np.errstate(invalid="ignore", divide="ignore"):
            elapsed = np.where(span > 0.0, (now - self.start_s[slots]) / span, 1.0)
        resumed = self.resumed[slots]
        by_time = np.where(np.isfinite(span), resumed + (1.0 - resumed) * elapsed, np.nan)
        return np.clip(np.where(np.isfinite(self.work_s[slots]), done, by_time), 0.0, 1.0)

    def load_now(self, slots: Ints, now: float) -> Floats:
        """(L,) current queries/s, with the daily swing of `truth.Traffic`."""
        swing = self.swing[slots]
        wave = np.cos(2.0 * np.pi * (now - self.peak_s[slots]) / 86_400.0)
        return self.load[slots] * (1.0 + swing * wave) / (1.0 + swing)

    def utilisation(self, jobs: JobTable, slots: Ints, now: float) -> Floats:
        """(L,) busy share of a job's units: from waves, and for services the load."""
        capacity = np.maximum(jobs.speed[slots] * self.metric[slots], 1e-9)
        served = np.minimum(self.load_now(slots, now) / capacity, 1.0)
        return self.busy[slots] * np.where(self.is_service[slots], served, 1.0)


class ReadJobs(NamedTuple):
    """Jobs to read: keys, slots (L,), and scores caused in their current phases (L, N)."""

    keys: list[Hashable]
    slots: Ints
    caused: Floats


def server_readings(
    machines: Machines,
    jobs: JobTable,
    parts: PartTable,
    facts: JobFacts,
    rng: np.random.Generator,
    now: float,
) -> ServerReadings:
    """Sum the usage of the parts on each server. O(servers + part slots)."""
    active = np.flatnonzero(parts.job >= 0)
    job, server = parts.job[active], parts.server[active]
    units, size = parts.units[active].astype(float), len(machines.units)
    busy_units = units * facts.utilisation(jobs, job, now)

    def per_server(values: Floats) -> Floats:
        return np.bincount(server, weights=values, minlength=size).astype(np.float64)

    cpu = IDLE_CPU + per_server(busy_units * facts.cpu_share[job]) / machines.units
    network = per_server(busy_units * facts.network_bps[job] * parts.effect[active])
    cpu_share = np.clip(cpu * rng.normal(1.0, CPU_NOISE, size), 0.0, 1.0)
    return ServerReadings(
        cpu_share=cpu_share,
        memory_share=_share(
            per_server(units * facts.memory_bytes[job]), machines.memory_bytes, rng
        ),
        network_share=_share(network, machines.network_bps, rng),
        storage_share=_share(
            per_server(units * facts.storage_bytes[job]), machines.storage_bytes, rng
        ),
        watts=machines.idle_watts + (machines.peak_watts - machines.idle_watts) * cpu_share,
    )


def job_readings(
    read: ReadJobs,
    jobs: JobTable,
    parts: PartTable,
    facts: JobFacts,
    rng: np.random.Generator,
    now: float,
) -> JobReadings:
    """Progress and performance of some jobs. O(jobs x largest service)."""
    slots, size = read.slots, len(read.slots)
    capacity = jobs.speed[slots] * facts.metric[slots]
    service = facts.is_service[slots]
    load = facts.load_now(slots, now)
    noise = np.maximum(rng.normal(1.0, facts.noise[slots], size), 0.0)
    latency = np.full(size, np.nan)
    latency[service] = latency_percentile(
        facts.units[slots][service].astype(np.int64),
        capacity[service],
        load[service],
        facts.percentile[slots][service] / 100.0,
    )
    latency = np.minimum(latency * _late(read, parts, facts), TIMEOUT_S)
    done = jobs.done[slots] + jobs.speed[slots] * (now - jobs.updated_s[slots])
    speed, infinite = jobs.speed[slots], np.full(size, np.inf)
    by_work = np.divide(
        np.maximum(facts.work_s[slots] - done, 0.0), speed, out=infinite, where=speed > 0.0
    )
    utilisation = facts.utilisation(jobs, slots, now)
    cpu = facts.cpu_share[slots] * utilisation * rng.normal(1.0, facts.noise[slots], size)
    activity = utilisation * np.maximum(rng.normal(1.0, COUNTER_NOISE, (4, size)), 0.0)
    pressure = read.caused[:, _COUNTER_SOURCES].T / 100.0 * activity[:3]
    traffic = np.where(facts.is_exchanging[slots], facts.network_bps[slots], 0.0)
    return JobReadings(
        keys=read.keys,
        progress=facts.progress(jobs, slots, now),
        progress_per_s=_progress_per_s(facts, jobs, slots) * noise,
        metric=np.where(service, np.minimum(capacity, load), capacity * noise),  # counts are exact
        offered_qps=np.where(service, load, np.nan),
        latency_s=latency * noise,
        left_s=np.minimum(by_work, np.maximum(facts.end_s[slots] - now, 0.0)),
        cpu_share=np.clip(cpu, 0.0, 1.0),
        memory_rate=MEMORY_REQUESTS * pressure[0],
        network_wait=np.minimum(pressure[1], 1.0),
        disk_wait=np.minimum(pressure[2], 1.0),
        traffic_bps=traffic * activity[3],
    )


_COUNTER_SOURCES: Final = [
    SOURCES.index(source)
    for source in ("memory_bandwidth", "network_bandwidth", "storage_bandwidth")
]


def _progress_per_s(facts: JobFacts, jobs: JobTable, slots: Ints) -> Floats:
    """(L,) share of the work, else of the duration, per second; 0 for jobs without an end."""
    by_work = jobs.speed[slots] / facts.work_s[slots]
    span = facts.end_s[slots] - facts.start_s[slots]
    by_time = (1.0 - facts.resumed[slots]) / np.maximum(span, 1e-9)
    return np.where(np.isfinite(facts.work_s[slots]), by_work, by_time)


def _late(read: ReadJobs, parts: PartTable, facts: JobFacts) -> Floats:
    """(L,) factor on the latency of services next to other jobs, beyond that of their queue."""
    power = facts.latency_power[read.slots]
    if not power.any():
        return np.ones(power.size)
    active = np.flatnonzero(parts.job >= 0)
    job, speed, jobs = parts.job[active], parts.speed[active], len(facts.units)
    alone = np.bincount(job, weights=speed, minlength=jobs)[read.slots]
    shared = np.bincount(job, weights=speed * parts.effect[active], minlength=jobs)[read.slots]
    left = np.divide(shared, alone, out=np.ones(power.size), where=alone > 0.0)
    late: Floats = left**-power
    return late


def _share(used: Floats, capacity: Floats, rng: np.random.Generator) -> Floats:
    noise = rng.normal(1.0, RESOURCE_NOISE, len(used))
    return np.clip(used / capacity * noise, 0.0, 1.0)
