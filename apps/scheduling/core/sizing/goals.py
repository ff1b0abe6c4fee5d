"""The target of a job, for policies that choose the number of units together with the units.

Quasar sizes an allocation while it selects servers (§3.3, Q4): the rate of units on particular
servers decides, not the rate of a number of units on any. P platforms of the topology.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from apps.classification.core.profile import Profile, scale_factors
from apps.inventory.core.snapshot import Floats
from apps.scheduling.core.sizing.framework_setting import best_setting, times
from apps.scheduling.core.sizing.response_time import late_share
from apps.scheduling.core.types import MAX_UNITS
from apps.workloads.core.targets import (
    BestEffort,
    CompletionTime,
    InstructionRate,
    Target,
    ThroughputLatency,
)

ROUNDING: Final = 1e-9  # of sums of rates, relative


class Curves(NamedTuple):
    """Predicted rates.

    Attributes
    ----------
    base : (P,) pessimistic work per second of one unit without interference; 0 = unknown
    up : (64,) speed-up of 1 .. 64 units on one server
    out : (64,) efficiency of 1 .. 64 servers
    """

    base: Floats
    up: Floats
    out: Floats


@dataclass(frozen=True, slots=True, eq=False)
class Goal:
    """The target of a job, and what is predicted of it.

    Attributes
    ----------
    input_bytes : 0 = none
    tasks : equal tasks that run in waves; None = divisible
    elapsed_s : cluster seconds from submission to the expected start
    platforms : allowed names; None = all that the profile knows
    unit_memory_bytes : requested by the job; 0 = not
    """

    profile: Profile
    target: Target
    input_bytes: float = 0.0
    tasks: int | None = None
    elapsed_s: float = 0.0
    platforms: frozenset[str] | None = None
    unit_memory_bytes: float = 0.0

    @property
    def allowed(self) -> frozenset[str]:
        """Names of the platforms that it may use."""
        known = frozenset(self.profile.platforms)
        return known if self.platforms is None else known & self.platforms

    @property
    def max_units(self) -> int:
        """Max units that it can use: its number of tasks, at most 64."""
        is_rate = isinstance(self.target, InstructionRate | ThroughputLatency)
        return MAX_UNITS if is_rate or self.tasks is None else max(1, min(MAX_UNITS, self.tasks))

    def curves(self, names: tuple[str, ...]) -> Curves:
        """Return the rates for the platforms of a topology.

        The base rate and the speed of the platform are at the pessimistic end of their common
        interval, as in sizing; the curves are as predicted.
        """
        sizes = np.arange(1, MAX_UNITS + 1)
        in_bytes = isinstance(self.target, CompletionTime | BestEffort)
        up = scale_factors(self.profile, sizes, together=True, in_bytes=in_bytes)
        out, _, _ = scale_factors(self.profile, sizes, together=False, in_bytes=in_bytes)
        rates = tuple(end[:1] for end in up)
        if in_bytes:
            _, speed = best_setting(self.profile, self.unit_memory_bytes)
            rates = times((rates[0], rates[1], rates[2]), speed)
        known = dict(zip(self.profile.platforms, rates[1][0].tolist(), strict=True))
        return Curves(
            base=np.array([known.get(name, 0.0) for name in names]),
            up=up[0][:, 0] / up[0][0, 0],
            out=out[:, 0] / (out[0, 0] * sizes),
        )

    def is_met(self, rate: float, units: int) -> bool:
        """Whether units with this rate in all meet the target.

        Parameters
        ----------
        rate : work per second if all units are busy
        """
        rate *= self._busy(units) * (1.0 + ROUNDING)
        match self.target:
            case CompletionTime():
                left = self.target.seconds - self.elapsed_s
                return left > 0.0 and self.input_bytes <= rate * left
            case ThroughputLatency():
                late = late_share(
                    np.array([[units]]),
                    np.array([[max(rate, 1e-300)]]),
                    self.target.qps,
                    self.target.latency_seconds,
                )
                return float(late.item()) <= 1.0 - self.target.percentile / 100.0
            case InstructionRate():
                return rate >= self.target.ips
            case _:
                return True

    def _busy(self, units: int) -> float:
        """Share of the units that equal tasks keep busy."""
        if self.tasks is None:
            return 1.0
        return min(1.0, self.tasks / (units * -(-self.tasks // units)))
