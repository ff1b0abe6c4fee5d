"""What a policy believes of the jobs: from the monitors' noisy readings, never from the truth.

j jobs. Thresholds are learnt once for a kind of node, by programs of the training module run alone
and beside their like. Each minute the readings of the running jobs become classes; what was last
believed of a program is what is believed of its next job. Source: ClavisMO §2, C1.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from apps.emulation.core.engine import Engine
from apps.emulation.core.events import JobReadings, Machines, Order
from apps.inventory.core.snapshot import Floats, Ints
from apps.placement.core.classes import (
    Classes,
    Links,
    Metric,
    communication,
    intensities,
    learn_threshold,
)
from apps.placement.core.instance import Communication
from apps.placement.core.readings import container_metrics
from apps.testbed.core.programs import NODES, RESOURCES, Program, stressor

LOUD_BYTES_PER_S: Final = 2.5e6  # 20 Mbit/s of a container: where slow links begin to cost
MEMORY_CAPACITY: Final = 3e7  # off-chip requests a second that saturate a node, by its data sheet
_LEVELS: Final = tuple(range(5, 100, 5))
_LONG_S: Final = 1e6


@dataclass(frozen=True, slots=True)
class Belief:
    """What is believed of one job.

    Attributes
    ----------
    intensity : of shared resources, 0-1; NaN before the first reading
    wish : `Communication`
    demand : share of a node that one container uses of memory, network and disk
    left_s : run time that is left at its present speed; infinite while it stands still, or unread
    """

    intensity: float
    is_taz: bool
    wish: int
    demand: tuple[float, float, float]
    left_s: float = float("inf")


UNKNOWN: Final = Belief(float("nan"), False, int(Communication.CLUSTER), (0.0, 0.0, 0.0))


@dataclass(frozen=True, slots=True)
class Watched:
    """A running job as monitors know it: its program by name, and its containers."""

    key: str
    program: str
    size: int


class Watch:
    """Beliefs about running jobs, and about programs that ran before."""

    def __init__(self, thresholds: Floats, links: Links, slots: int) -> None:
        self._thresholds, self._links, self._slots = thresholds, links, slots
        self._jobs: dict[str, Belief] = {}
        self._read_s: dict[str, float] = {}
        self._programs: dict[str, tuple[Belief, float]] = {}

    def of(self, job: Watched) -> Belief:
        """Return what is believed of a job; of one never seen, what was last of its program."""
        if job.key in self._jobs:
            return self._jobs[job.key]
        if job.program not in self._programs:
            return UNKNOWN
        belief, exchanged = self._programs[job.program]
        before = np.array([Communication.CLUSTER], dtype=np.int64)
        wish = communication(before, np.array([exchanged]), np.array([job.size]), self._links)
        found = Belief(belief.intensity, belief.is_taz, int(wish[0]), belief.demand)
        self._jobs[job.key] = found
        return found

    def read(self, jobs: Sequence[Watched], readings: JobReadings, now: float) -> None:
        """Take in what monitors say of the running jobs, in the order of ``jobs``; O(j)."""
        if not jobs:
            return
        size = np.array([job.size for job in jobs])
        metrics = metrics_of(readings, self._slots)
        before = [self.of(job) for job in jobs]
        classes = Classes(
            np.array([belief.intensity for belief in before]),
            np.array([belief.is_taz for belief in before]),
        ).after(
            intensities(metrics, np.broadcast_to(self._thresholds, metrics.shape)),
            np.array([now - self._read_s.get(job.key, -np.inf) for job in jobs]),
        )
        exchanged = readings.traffic_bps / 8.0
        wish = communication(
            np.array([belief.wish for belief in before]), exchanged, size, self._links
        )
        left_s = np.full(len(jobs), np.inf)
        speed = readings.progress_per_s
        np.divide(1.0 - readings.progress, speed, out=left_s, where=speed > 0.0)
        for i, job in enumerate(jobs):
            memory, network, disk = metrics[i].tolist()
            belief = Belief(
                float(classes.intensity[i]),
                bool(classes.is_taz[i]),
                int(wish[i]),
                (memory / MEMORY_CAPACITY, network, disk),
                float(left_s[i]),
            )
            self._jobs[job.key], self._read_s[job.key] = belief, now
            self._programs[job.program] = (belief, float(exchanged[i]))

    def forget(self, key: str) -> None:
        """Drop what is known of a job that ended."""
        self._jobs.pop(key, None)
        self._read_s.pop(key, None)


def metrics_of(readings: JobReadings, slots: int) -> Floats:
    """(j, 3) metrics of one container of each job, in the order of `Metric`."""
    per_unit = np.stack([readings.memory_rate, readings.network_wait, readings.disk_wait], axis=1)
    one = np.ones(len(per_unit), dtype=np.int64)
    return container_metrics(per_unit, one, slots * one)


def one_node(slots: int) -> Machines:
    """Return a single node to try programs on."""
    return machines(np.zeros(1, dtype=np.int64), slots, watts=(100.0, 200.0))


def machines(rack: Ints, slots: int, *, watts: tuple[float, float]) -> Machines:
    """Return equal nodes of so many slots, by rack, with these watts idle and at full load."""
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
    )


def train(slots: int, rng: np.random.Generator) -> Floats:
    """(3,) thresholds of a kind of node: where a metric begins to cost a tenth of the speed."""
    learnt = np.empty(len(Metric))
    for metric, resource in zip(Metric, RESOURCES, strict=True):
        tried = [_try(stressor(resource, float(level)), slots, rng) for level in _LEVELS]
        metrics, lost = np.array([m for m, _ in tried]), np.array([x for _, x in tried])
        learnt[metric] = learn_threshold(metrics[:, metric], lost).value
    return learnt


def _try(program: Program, slots: int, rng: np.random.Generator) -> tuple[Floats, float]:
    """(3,) metrics alone, and the share of its speed it loses beside its like."""
    alone = _run([program], slots, rng)
    paired = _run([program, program], slots, rng)
    lost = 1.0 - float(paired.progress_per_s.mean() / alone.progress_per_s[0])
    return metrics_of(alone, slots)[0], lost


def profile(
    watch: Watch, programs: Iterable[tuple[Program, int]], rng: np.random.Generator, slots: int
) -> None:
    """Let a watch see each program once, alone: the offline profiling of an expert.

    Parameters
    ----------
    programs : with the containers of their jobs
    """
    for program, size in programs:
        readings = _run([program], slots, rng)
        watch.read([Watched(f"profile {program.name}", program.name, size)], readings, 0.0)


def _run(programs: Sequence[Program], slots: int, rng: np.random.Generator) -> JobReadings:
    engine = Engine(one_node(slots), rng)
    orders = [
        Order(i, program.truth(), [(0, 1)], work_s=_LONG_S, tasks=1)
        for i, program in enumerate(programs)
    ]
    engine.start(orders, 0.0)
    return engine.jobs()
