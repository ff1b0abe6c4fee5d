"""Speed of a job from its performance in the unit of the target, and back.

    completion time          share of the work per second: (1 - progress) / (expected - elapsed)
    instructions per second  as measured
    queries within a latency capacity of its units in queries/s, at the reported load, else the
                             declared one: the inverse of the queueing formula that sizing uses

Where the load of a service is not reported, a lower load looks like a higher capacity.
"""

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Floats
from apps.scheduling.core.sizing.response_time import capacity_at, latency_percentile
from apps.workloads.core.targets import (
    CompletionTime,
    InstructionRate,
    Target,
    ThroughputLatency,
)

MAX_LATENCY_S: Final = 10.0  # clients give up; the capacity is at most this low


@dataclass(frozen=True, slots=True)
class SpeedScale:
    """Converts between performance and speed for one job.

    Attributes
    ----------
    target : of a kind with a performance measure
    units : that the job holds; of services
    """

    target: CompletionTime | InstructionRate | ThroughputLatency
    units: int

    @property
    def is_rate(self) -> bool:
        """Whether a higher performance is better."""
        return isinstance(self.target, InstructionRate)

    def log_speeds(
        self,
        performance: Floats,
        progress: Floats,
        elapsed_s: Floats,
        offered_qps: Floats | None = None,
    ) -> Floats:
        """(T,) logarithms of speed; NaN where the performance gives none.

        Parameters
        ----------
        performance : (T,) in the target's unit
        progress : (T,) share of the work done
        elapsed_s : (T,) since submission
        offered_qps : (T,) of services; None or NaN = the declared load
        """
        with np.errstate(divide="ignore", invalid="ignore"):
            match self.target:
                case CompletionTime():
                    left_s = performance - elapsed_s
                    speed = np.where(left_s > 0.0, (1.0 - progress) / left_s, np.nan)
                case InstructionRate():
                    speed = performance
                case ThroughputLatency():
                    speed = self._capacity(performance, offered_qps)
            logs: Floats = np.log(np.where(speed > 0.0, speed, np.nan))
        return logs

    def log_needed(self, progress: float, elapsed_s: float) -> float:
        """Return the logarithm of the speed that meets the target; infinite if none does."""
        match self.target:
            case CompletionTime(seconds=seconds):
                left_s = seconds - elapsed_s
                return math.log(max(1e-12, 1.0 - progress) / left_s) if left_s > 0 else math.inf
            case InstructionRate(ips=ips):
                return math.log(ips)
            case ThroughputLatency(latency_seconds=latency_s):
                return float(np.log(self._capacity(np.array([latency_s])))[0])

    def performance(self, log_speed: float, progress: float, elapsed_s: float) -> float:
        """Return the performance in the target's unit at a speed from now on."""
        speed = math.exp(log_speed)
        match self.target:
            case CompletionTime():
                return elapsed_s + (1.0 - progress) / speed
            case InstructionRate():
                return speed
            case ThroughputLatency(qps=qps, percentile=percentile):
                capacity = np.array([speed])
                latency = latency_percentile(self.units, capacity, qps, percentile / 100.0)
                return min(MAX_LATENCY_S, float(latency[0]))

    def _capacity(self, latency_s: Floats, offered_qps: Floats | None = None) -> Floats:
        target = self.target
        assert isinstance(target, ThroughputLatency)  # noqa: S101 - narrows the type
        within = np.clip(latency_s, 1e-6, MAX_LATENCY_S)
        load = np.full(within.shape, target.qps)
        if offered_qps is not None:
            load = np.where(offered_qps > 0.0, offered_qps, load)
        capacity = capacity_at(self.units, within, load, target.percentile / 100.0)
        result: Floats = np.where(np.isnan(latency_s), np.nan, capacity)
        return result


def scale_of(target: Target, units: int) -> SpeedScale | None:
    """Return the scale of a target; None for best effort."""
    if isinstance(target, CompletionTime | InstructionRate | ThroughputLatency):
        return SpeedScale(target, max(1, units))
    return None
