"""A policy's estimates of the jobs, from noisy monitor readings and never from the truth.

j jobs. Thresholds are fitted once per kind of node, with training programs that run alone and next
to a copy of themselves. Every minute, the readings of the running jobs update their classes. A new
job of a known program starts with the program's last estimate. Source: ClavisMO §2, C1.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from apps.emulation.core.engine import Engine
from apps.emulation.core.events import EngineOrder, JobReadings, Machines
from apps.inventory.core.snapshot import Floats, Ints
from apps.placement.core.monitoring.classes import (
    ContainerClasses,
    LocalityLimits,
    Metric,
    communication,
    fit_threshold,
    intensities,
)
from apps.placement.core.monitoring.metrics import container_metrics
from apps.placement.core.problem.instance import Communication
from apps.testbed.core.programs import NODES, RESOURCES, Program, stressor

LOUD_BYTES_PER_S: Final = 2.5e6  # 20 Mbit/s per container, above which slow links matter
MEMORY_CAPACITY: Final = 3e7  # off-chip requests per second that saturate a node (data sheet)
_LEVELS: Final = tuple(range(5, 100, 5))
_LONG_S: Final = 1e6


@dataclass(frozen=True, slots=True)
class JobEstimate:
    """Estimate of one job.

    Attributes
    ----------
    intensity : of shared resources, 0-1; NaN before the first reading
    communication : `Communication`
    demand : share of a node's memory, network and disk that one container uses
    left_s : remaining run time at the present speed; infinite if stalled or not read yet
    """

    intensity: float
    is_taz: bool
    communication: int
    demand: tuple[float, float, float]
    left_s: float = float("inf")


UNKNOWN: Final = JobEstimate(float("nan"), False, int(Communication.CLUSTER), (0.0, 0.0, 0.0))


@dataclass(frozen=True, slots=True)
class MonitoredJob:
    """A running job as the monitor identifies it."""

    key: str
    program: str
    size: int


class Monitor:
    """Estimates of running jobs, and of programs that ran before."""

    def __init__(self, thresholds: Floats, links: LocalityLimits, slots: int) -> None:
        self._thresholds, self._links, self._slots = thresholds, links, slots
        self._jobs: dict[str, JobEstimate] = {}
        self._read_s: dict[str, float] = {}
        self._programs: dict[str, tuple[JobEstimate, float]] = {}

    def of(self, job: MonitoredJob) -> JobEstimate:
        """Return the estimate of a job, or the last one of its program for a new job."""
        if job.key in self._jobs:
            return self._jobs[job.key]
        if job.program not in self._programs:
            return UNKNOWN
        estimate, exchanged = self._programs[job.program]
        before = np.array([Communication.CLUSTER], dtype=np.int64)
        classes = communication(before, np.array([exchanged]), np.array([job.size]), self._links)
        estimate = replace(estimate, communication=int(classes[0]), left_s=float("inf"))
        self._jobs[job.key] = estimate
        return estimate

    def read(self, jobs: Sequence[MonitoredJob], readings: JobReadings, now: float) -> None:
        """Update the estimates from readings in the order of ``jobs``; O(j)."""
        if not jobs:
            return
        size = np.array([job.size for job in jobs])
        metrics = metrics_of(readings, self._slots)
        before = [self.of(job) for job in jobs]
        classes = ContainerClasses(
            np.array([estimate.intensity for estimate in before]),
            np.array([estimate.is_taz for estimate in before]),
        ).after(
            intensities(metrics, np.broadcast_to(self._thresholds, metrics.shape)),
            np.array([now - self._read_s.get(job.key, -np.inf) for job in jobs]),
        )
        exchanged = readings.traffic_bps / 8.0
        communications = communication(
            np.array([estimate.communication for estimate in before]), exchanged, size, self._links
        )
        left_s = np.full(len(jobs), np.inf)
        speed = readings.progress_per_s
        np.divide(1.0 - readings.progress, speed, out=left_s, where=speed > 0.0)
        for i, job in enumerate(jobs):
            memory, network, disk = metrics[i].tolist()
            estimate = JobEstimate(
                float(classes.intensity[i]),
                bool(classes.is_taz[i]),
                int(communications[i]),
                (memory / MEMORY_CAPACITY, network, disk),
                float(left_s[i]),
            )
            self._jobs[job.key], self._read_s[job.key] = estimate, now
            self._programs[job.program] = (estimate, float(exchanged[i]))

    def forget(self, key: str) -> None:
        """Drop the estimate of a job that ended."""
        self._jobs.pop(key, None)
        self._read_s.pop(key, None)


def metrics_of(readings: JobReadings, slots: int) -> Floats:
    """(j, 3) metrics of one container of each job, in the order of `Metric`."""
    per_unit = np.stack([readings.memory_rate, readings.network_wait, readings.disk_wait], axis=1)
    one = np.ones(len(per_unit), dtype=np.int64)
    return container_metrics(per_unit, one, slots * one)


def one_node(slots: int) -> Machines:
    """Return a single node for training runs."""
    return equal_machines(np.zeros(1, dtype=np.int64), slots, watts=(100.0, 200.0))


def equal_machines(rack: Ints, slots: int, *, watts: tuple[float, float]) -> Machines:
    """Return identical nodes.

    Parameters
    ----------
    rack : (n,) rack of each node
    slots : of a node
    watts : idle and at full load
    """
    n = rack.size

    def each(value: float) -> Floats:
        return np.full(n, value)

    return Machines(
        platforms=NODES,
        platform=np.zeros(n, dtype=np.int64),
        units=np.full(n, slots, dtype=np.int64),
        rack=rack,
        memory_bytes=each(48e9),
        network_bps=each(1e9),
        storage_bytes=each(232e9),
        idle_watts=each(watts[0]),
        peak_watts=each(watts[1]),
        speed=each(1.0),
    )


def train_thresholds(slots: int, rng: np.random.Generator) -> Floats:
    """(3,) fitted thresholds of a kind of node, in the order of `Metric`."""
    learnt = np.empty(len(Metric))
    for metric, resource in zip(Metric, RESOURCES, strict=True):
        tried = [_try(stressor(resource, float(level)), slots, rng) for level in _LEVELS]
        metrics, lost = np.array([m for m, _ in tried]), np.array([x for _, x in tried])
        learnt[metric] = fit_threshold(metrics[:, metric], lost).value
    return learnt


def _try(program: Program, slots: int, rng: np.random.Generator) -> tuple[Floats, float]:
    """(3,) metrics of a program running alone, and its speed loss next to a copy of itself."""
    alone = _run([program], slots, rng)
    paired = _run([program, program], slots, rng)
    lost = 1.0 - float(paired.progress_per_s.mean() / alone.progress_per_s[0])
    return metrics_of(alone, slots)[0], lost


def profile_programs(
    monitor: Monitor, programs: Iterable[tuple[Program, int]], rng: np.random.Generator, slots: int
) -> None:
    """Run each program alone and record its readings: the Expert's offline profiling.

    Parameters
    ----------
    programs : programs with the number of containers of their jobs
    """
    for program, size in programs:
        readings = _run([program], slots, rng)
        monitor.read([MonitoredJob(f"profile {program.name}", program.name, size)], readings, 0.0)


def _run(programs: Sequence[Program], slots: int, rng: np.random.Generator) -> JobReadings:
    engine = Engine(one_node(slots), rng)
    orders = [
        EngineOrder(i, program.truth(), [(0, 1)], work_s=_LONG_S, tasks=1)
        for i, program in enumerate(programs)
    ]
    engine.start(orders, 0.0)
    return engine.jobs()
