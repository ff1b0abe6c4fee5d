"""Inputs and results of sizing (Quasar §3.3, Q4)."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from apps.scheduling.core.sizing.allowances import DEFAULT, Allowances
from apps.scheduling.core.types import Within


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """Capacity of the cluster, as needed for sizing.

    Attributes
    ----------
    platforms : P names, those of the profile
    units : open units of each platform, free or busy
    server_units : units of the largest server of each platform
    free : number of ``units`` that are free; None = all
    allowances : share of pessimistic speeds that sizing counts on
    """

    platforms: tuple[str, ...]
    units: tuple[int, ...]
    server_units: tuple[int, ...]
    free: tuple[int, ...] | None = None
    allowances: Allowances = DEFAULT


@dataclass(frozen=True, slots=True)
class Work:
    """Work and constraints of a job, as needed for sizing.

    Attributes
    ----------
    input_bytes : 0 = none
    tasks : equal tasks that run in waves; None = arbitrarily divisible
    elapsed_s : cluster seconds from submission to the expected start
    platforms : allowed, None = all
    locality : requested by the job; None = not
    unit_memory_bytes : requested by the job; 0 = not
    duration_s : cluster seconds after which the job ends in any case; None = never
    max_cost : highest unit-seconds (`core.costs`); None = any
    """

    input_bytes: float = 0.0
    tasks: int | None = None
    elapsed_s: float = 0.0
    platforms: frozenset[str] | None = None
    locality: Within | None = None
    unit_memory_bytes: float = 0.0
    duration_s: float | None = None
    max_cost: float | None = None


@dataclass(frozen=True, slots=True)
class Sized:
    """A size that meets the target.

    Attributes
    ----------
    units : m
    platforms : where m is sufficient; None = any
    locality : whether the units must share a server
    predicted, low, high : performance in the target's unit with its 90 % interval: seconds to
        completion since submission, seconds of latency at the percentile, instructions/s, or the
        share of the work per second of best effort; on the slowest platform of ``platforms``
    probability : that the target is met there
    setting : label of the framework setting of the prediction; empty = default
    allowance : share of the pessimistic speed that it counts on; NaN without one
    slow_rates : work per second at the pessimistic end on each of ``platforms``, without the
        allowance; empty without a target
    cost : unit-seconds on the most expensive of ``platforms``; NaN without a ceiling
    """

    units: int
    platforms: frozenset[str] | None
    locality: Within | None
    predicted: float
    low: float
    high: float
    probability: float
    setting: str = ""
    allowance: float = math.nan
    slow_rates: Mapping[str, float] = field(default_factory=dict)
    cost: float = math.nan

    def slow_rate(self, platforms: Iterable[str]) -> float:
        """Return the pessimistic rate on the slowest of these platforms; NaN if one is unknown."""
        return min((self.slow_rates.get(name, math.nan) for name in platforms), default=math.nan)


@dataclass(frozen=True, slots=True)
class Infeasible:
    """No size meets the target.

    Attributes
    ----------
    units, platform : of the best option
    best : its performance in the target's unit; infinite if the job could not run at all
    suggestion : a remedy, in one sentence
    cost : unit-seconds of the cheapest option, if all cost more than the ceiling; else None
    """

    units: int
    platform: str | None
    best: float
    suggestion: str
    cost: float | None = None

    @property
    def option(self) -> str:
        """The best option as text, such as "2 units of A"; empty if there is none."""
        count = "1 unit" if self.units == 1 else f"{self.units} units"
        return f"{count} of {self.platform}" if self.platform else ""
