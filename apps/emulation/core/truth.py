"""How an emulated application really behaves.

Hidden: only the emulator and the testbed's scorer read it.

Work is counted in unit-seconds: what one resource unit of the highest-end platform does alone in
one second.
N = 10 sources of interference, P platforms, K phases.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import numpy as np

from apps.emulation.core.platforms import Catalogue
from apps.inventory.core.snapshot import Floats
from apps.workloads.core.framework import DEFAULT_SETTING, Setting

QOS: Final = 0.95  # performance at exactly the tolerated pressure
KNEE_POWER: Final = 4.0  # how late below the tolerated pressure the first 5 % are lost
DECAY_SCORE: Final = 60.0  # beyond it performance falls by a factor e per this many points
FLOOR: Final = 0.15  # no job ever runs slower than this share of isolation
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
    """Stretches of a run that differ in speed and interference.

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
    """What the settings of its framework do to an analytics application.

    Attributes
    ----------
    busy : share of a lone task's time that its core works, 0-1; the rest it waits for data
    crowding : what each further task of a core costs the others
    working_set_bytes, spilling : a heap smaller than this costs this share for each halving
    moved, packing : share of the waiting that compression saves, and what it costs the core
    """

    busy: float
    crowding: float
    working_set_bytes: float
    spilling: float
    moved: float
    packing: float

    def speed(self, setting: Setting) -> float:
        """Speed under a setting relative to the default one.

        Tasks that share a core overlap the waiting of one with the work of another, until the core
        is always busy.
        """
        return self._rate(setting) / self._rate(DEFAULT_SETTING)

    def _rate(self, setting: Setting) -> float:
        work = self.busy * (1.0 + self.packing * setting.is_compressed)
        wait = (1.0 - self.busy) * (1.0 - self.moved * setting.is_compressed)
        tasks = setting.tasks_per_core
        overlapped = min(tasks / (work + wait), 1.0 / work)
        halvings = max(0.0, float(np.log2(self.working_set_bytes / setting.heap_bytes)))
        return overlapped / (
            (1.0 + self.crowding * (tasks - 1)) * (1.0 + self.spilling * halvings)
        )


@dataclass(frozen=True, slots=True)
class Demand:
    """What one busy unit uses of its server.

    Attributes
    ----------
    cpu_share : of its core while it runs at full speed, 0-1
    memory_bytes : resident
    network_bps : bits/s at full speed
    storage_bytes : scratch space
    """

    cpu_share: float
    memory_bytes: float
    network_bps: float
    storage_bytes: float


@dataclass(frozen=True, slots=True)
class Traffic:
    """How the load of a service moves, and what one query costs.

    Attributes
    ----------
    service_s : mean service time of one query on one unit of the highest-end platform, seconds
    swing : half the peak-to-valley distance of the daily load as a share of its mean, 0-1
    peak_s : cluster time of day of the peak, seconds
    """

    service_s: float
    swing: float
    peak_s: float

    def load_share(self, now: Floats | float) -> Floats:
        """Load at cluster time `now` relative to the load the target names (the peak), 0-1."""
        wave = np.cos(2.0 * np.pi * (np.asarray(now) - self.peak_s) / 86_400.0)
        return np.asarray((1.0 + self.swing * wave) / (1.0 + self.swing))


@dataclass(frozen=True, slots=True, eq=False)
class Truth:
    """One application.

    Attributes
    ----------
    platform_speed : (P,) speed of one unit relative to the highest-end platform
    bytes_per_s : input bytes one unit of the highest-end platform works off in a second
    metric_per_s : the target's metric of that unit: queries/s, instructions/s, else `bytes_per_s`
    scale_up, scale_out : units on one server; number of servers
    tolerated, caused : (N,) scores 0-100 of the first phase (Paragon §2.2, P3)
    framework : of analytics; None = nothing can be set
    rack_loss : share of its time a job loses when every two of its units are in different racks,
        in [0, 1)
    is_in_step : the parts wait for each other, so that all units go as fast as the slowest one
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
    rack_loss: float = 0.0
    is_in_step: bool = False


def interference_factor(pressure: Floats, tolerated: Floats) -> Floats:
    """Share of its performance in isolation that a job keeps under pressure.

    Parameters
    ----------
    pressure : (..., N) score 0-100 each source feels from the other units of the server (Tarcil
        Eq. 3)
    tolerated : (..., N) score at which that source alone brings performance to exactly 0.95

    Returns
    -------
    (...) product over the sources, at least 0.15. Below the tolerated score t a source costs 5 %
    times (p/t)^4, above it performance falls by e every 60 points. Ours: the papers give the 95 %
    point only.
    """
    t = np.maximum(tolerated, 1e-9)
    below = 1.0 - (1.0 - QOS) * np.minimum(pressure / t, 1.0) ** KNEE_POWER
    beyond = np.exp(-np.maximum(pressure - tolerated, 0.0) / DECAY_SCORE)
    return np.maximum(np.prod(below * beyond, axis=-1), FLOOR)


def unit_pressure(server_caused: Floats, own: Floats, units: int) -> Floats:
    """Mean caused score of the units of a server that are not the job's own (Tarcil Eq. 3).

    Parameters
    ----------
    server_caused : (N,) sum over the server's busy units
    own : (N,) the job's own share of that sum
    units : M, units of the server; with one there are no neighbours and the pressure is 0

    A job's own units do not press on it: what they cost each other is in its scale-up curve.
    """
    if units < 2:
        return np.zeros_like(server_caused)
    return np.clip((server_caused - own) / (units - 1), 0.0, 100.0)


def wave_efficiency(tasks: int, units: int) -> float:
    """Share of the units kept busy when `tasks` equal tasks run in waves on `units` equal units.

    `ceil(T/u)` waves of u slots hold T tasks: 1 when u divides T, T/u when all fit in one wave.
    """
    if tasks < 1 or units < 1:
        raise ValueError(f"tasks and units must be at least 1, got {tasks} and {units}")
    return tasks / (units * -(-tasks // units))


def split_share(units: Iterable[tuple[int, int]]) -> float:
    """Share of the pairs of a job's units that lie in different racks, 0-1.

    Parameters
    ----------
    units : (rack, units) of each part; a rack may come more than once
    """
    by_rack: dict[int, int] = {}
    for rack, count in units:
        by_rack[rack] = by_rack.get(rack, 0) + count
    total = sum(by_rack.values())
    if total < 2:
        return 0.0
    inside = sum(count * (count - 1) for count in by_rack.values())
    return 1.0 - inside / (total * (total - 1))
