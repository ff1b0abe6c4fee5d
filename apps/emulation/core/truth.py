"""True behaviour of an emulated application.

It is hidden: only the emulator and the testbed's scorer read it.

The unit of work is the unit-second: the work of one resource unit of the highest-end platform in
isolation in one second.
N = 10 sources of interference, P platforms, K phases.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from apps.common.core.arrays import as_readonly
from apps.common.core.interference import N_SOURCES
from apps.emulation.core.platforms import Catalogue
from apps.inventory.core.snapshot import Floats
from apps.workloads.core.framework import DEFAULT_SETTING, Setting

QOS: Final = 0.95  # performance at exactly the tolerated pressure
KNEE_POWER: Final = 4.0  # exponent of the loss below the tolerated pressure
DECAY_SCORE: Final = 60.0  # points above the tolerated pressure that reduce performance by e
FLOOR: Final = 0.15  # minimum speed of a job relative to isolation
BLOCK_BYTES: Final = 128 * 2**20


@dataclass(frozen=True, slots=True)
class UniversalScaling:
    """Gunther's universal scalability law: n / (1 + contention (n-1) + coherency n (n-1)).

    Source: Gunther, Guerrilla Capacity Planning (2007), Eq. 4.31. With no coherency it is
    Amdahl's law.
    """

    contention: float
    coherency: float

    def speed_up(self, n: float) -> float:
        """Speed of n workers relative to one; n >= 1."""
        return n * self.efficiency(n)

    def efficiency(self, n: float) -> float:
        """Speed-up over n, 1 at n = 1."""
        return 1.0 / (1.0 + self.contention * (n - 1.0) + self.coherency * n * (n - 1.0))


@dataclass(frozen=True, slots=True, eq=False)
class Phases:
    """Phases of a run, which differ in speed and interference.

    Attributes
    ----------
    starts : (K,) share of the work (or of `period_s`, for services) at which each begins; first 0
    rate : (K,) factor on the rate; the first is 1
    tolerated, caused : (K, N) scores 0-100 in each phase
    period_s : services repeat their phases with this period of cluster time
    """

    starts: Floats
    rate: Floats
    tolerated: Floats
    caused: Floats
    period_s: float


@dataclass(frozen=True, slots=True)
class Framework:
    """Effect of framework settings on the speed of an analytics application.

    Attributes
    ----------
    busy : share of time in which a single task uses its core, 0-1; otherwise it waits for data
    crowding_cost : relative slowdown of a core for each additional task
    working_set_bytes, spill_cost : a smaller heap costs this share for each halving
    compression_saving : share of the waiting time that compression saves
    compression_cost : relative increase of the core's work by compression
    """

    busy: float
    crowding_cost: float
    working_set_bytes: float
    spill_cost: float
    compression_saving: float
    compression_cost: float

    def speed(self, setting: Setting) -> float:
        """Speed with a setting relative to the default setting.

        While one task waits for data, another task of the core can work, until the core is always
        busy.
        """
        return self._rate(setting) / self._rate(DEFAULT_SETTING)

    def _rate(self, setting: Setting) -> float:
        work = self.busy * (1.0 + self.compression_cost * setting.is_compressed)
        wait = (1.0 - self.busy) * (1.0 - self.compression_saving * setting.is_compressed)
        tasks = setting.tasks_per_core
        overlapped = min(tasks / (work + wait), 1.0 / work)
        halvings = max(0.0, float(np.log2(self.working_set_bytes / setting.heap_bytes)))
        return overlapped / (
            (1.0 + self.crowding_cost * (tasks - 1)) * (1.0 + self.spill_cost * halvings)
        )


@dataclass(frozen=True, slots=True)
class Demand:
    """Resource usage of one busy unit.

    Attributes
    ----------
    cpu_share : share of its core at full speed, 0-1
    memory_bytes : resident memory
    network_bps : bits/s at full speed
    storage_bytes : scratch space
    """

    cpu_share: float
    memory_bytes: float
    network_bps: float
    storage_bytes: float


@dataclass(frozen=True, slots=True)
class Traffic:
    """Daily load of a service, and the cost of a query.

    Attributes
    ----------
    service_s : mean service time of one query on one unit of the highest-end platform, seconds
    swing : half the peak-to-valley distance of the daily load as a share of its mean, 0-1
    peak_s : cluster time of day of the peak, seconds
    """

    service_s: float
    swing: float
    peak_s: float


@dataclass(frozen=True, slots=True, eq=False)
class Curves:
    """Loss of speed under pressure, by source; `tolerated` places it, this gives its shape.

    Attributes
    ----------
    knee : (N,) exponent of the loss below the tolerated pressure
    decay : (N,) points above it that reduce the distance to the plateau by e; few = a cliff
    plateau : (N,) performance that a source alone leaves at any pressure, in [0, 0.95)
    floor : minimum speed under all sources, relative to isolation
    """

    knee: Floats
    decay: Floats
    plateau: Floats
    floor: float


PAPER_CURVES: Final = Curves(
    knee=as_readonly(np.full(N_SOURCES, KNEE_POWER)),
    decay=as_readonly(np.full(N_SOURCES, DECAY_SCORE)),
    plateau=as_readonly(np.zeros(N_SOURCES)),
    floor=FLOOR,
)


@dataclass(frozen=True, slots=True)
class Noise:
    """Standard deviations of what is measured of an application, relative to the true value.

    Attributes
    ----------
    rate : of one sample of a rate in a profiling run
    ramp : of one sample next to a microbenchmark
    metric : of one report of a running job
    """

    rate: float = 0.04
    ramp: float = 0.005
    metric: float = 0.02


PAPER_NOISE: Final = Noise()


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """The hidden properties of one application.

    Attributes
    ----------
    platform_speed : (P,) speed of one unit relative to the highest-end platform
    bytes_per_s : input bytes that one unit of the highest-end platform processes per second
    metric_per_s : the target's metric of that unit: queries/s, instructions/s, else `bytes_per_s`
    scale_up, scale_out : units on one server; number of servers
    tolerated, caused : (N,) scores 0-100 of the first phase (Paragon §2.3, P3)
    framework : effect of its settings; None if it has none
    curves : loss of speed above and below the tolerated pressure
    noise : of its measurements
    task_spread : standard deviation of the log duration of a task within a job; 0 = equal tasks
    latency_power : of a service; its latency is that of its queue over the performance that
        interference leaves, to this power: a core that others use answers late
    rack_loss : share of its speed that a job loses if all its units are in different racks,
        in [0, 1)
    is_in_step : the parts wait for each other, so all units run at the speed of the slowest one
    """

    name: str
    kind: str
    catalogue: Catalogue
    platform_speed: Floats
    bytes_per_s: float
    metric_per_s: float
    scale_up: UniversalScaling
    scale_out: UniversalScaling
    tolerated: Floats
    caused: Floats
    phases: Phases
    demand: Demand
    traffic: Traffic
    framework: Framework | None = None
    curves: Curves = PAPER_CURVES
    noise: Noise = PAPER_NOISE
    task_spread: float = 0.0
    latency_power: float = 0.0
    rack_loss: float = 0.0
    is_in_step: bool = False


def interference_factor(
    pressure: Floats, tolerated: Floats, curves: Curves = PAPER_CURVES
) -> Floats:
    """Return the performance of a job under interference, relative to isolation.

    Parameters
    ----------
    pressure : (..., N) score 0-100 that the other units of the server cause (Tarcil Eq. 3)
    tolerated : (..., N) score at which that source alone brings performance to exactly 0.95

    Returns
    -------
    (...) product over the sources, at least the floor. A pressure p up to the tolerated score t
    costs 5 % times (p/t)^knee; above it, the distance to the plateau falls by a factor e every
    `decay` points. The form is ours: the papers give the 95 % point only.
    """
    t = np.maximum(tolerated, 1e-9)
    below = 1.0 - (1.0 - QOS) * np.minimum(pressure / t, 1.0) ** curves.knee
    fall = np.exp(-np.maximum(pressure - tolerated, 0.0) / curves.decay)
    beyond = curves.plateau + (QOS - curves.plateau) * fall
    alone = np.where(pressure > tolerated, beyond, below)
    return np.maximum(np.prod(alone, axis=-1), curves.floor)


def unit_pressure(server_caused: Floats, own: Floats, units: int) -> Floats:
    """Mean caused score of the other jobs' units on a server (Tarcil Eq. 3).

    Parameters
    ----------
    server_caused : (N,) sum over the server's busy units
    own : (N,) the job's own share of that sum
    units : M, units of the server; a single unit has no neighbours, so its pressure is 0

    The job's own units are excluded: its scale-up curve includes their effect on each other.
    """
    if units < 2:
        return np.zeros_like(server_caused)
    return np.clip((server_caused - own) / (units - 1), 0.0, 100.0)


def split_share(units: Iterable[tuple[int, int]]) -> float:
    """Share of the pairs of a job's units that are in different racks, 0-1.

    Parameters
    ----------
    units : (rack, units) of each part; a rack may occur more than once
    """
    by_rack: dict[int, int] = {}
    for rack, count in units:
        by_rack[rack] = by_rack.get(rack, 0) + count
    total = sum(by_rack.values())
    if total < 2:
        return 0.0
    inside = sum(count * (count - 1) for count in by_rack.values())
    return 1.0 - inside / (total * (total - 1))
