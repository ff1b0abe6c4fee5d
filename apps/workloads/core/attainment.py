"""How near a running job is to its target: performance over target, 1 or more = met.

Source: Tarcil §6 and Quasar §6 report performance normalised to the target; Berth uses one ratio
for all kinds.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

# a rate this near to the target is the target, read by monitors with noise
RATE_KEPT: Final = 0.95


@dataclass(frozen=True, slots=True)
class Performance:
    """What a backend measured of one job since its last report.

    Attributes
    ----------
    progress : share of the work done, 0-1
    progress_per_s : share of the work done per cluster second, >= 0
    qps : queries answered per second; NaN where the job answers none
    latency_s : latency in seconds at the target's percentile; NaN where it has none
    ips : instructions per second; NaN where not measured
    """

    progress: float
    progress_per_s: float
    qps: float = math.nan
    latency_s: float = math.nan
    ips: float = math.nan


def measured(target: Mapping[str, Any], seen: Performance, *, elapsed_s: float) -> float:
    """Return performance in the target's own unit.

    completion_time: expected seconds from submission to end; throughput_latency: latency in
    seconds; ips: instructions per second; best_effort: share of the work per second. ``inf`` where
    the job stands still.

    Parameters
    ----------
    elapsed_s : cluster seconds since submission
    """
    match target["kind"]:
        case "completion_time":
            if seen.progress >= 1.0:
                return elapsed_s
            if seen.progress_per_s <= 0.0:
                return math.inf
            return elapsed_s + (1.0 - seen.progress) / seen.progress_per_s
        case "throughput_latency":
            return seen.latency_s
        case "ips":
            return seen.ips
        case _:
            return seen.progress_per_s


def attainment(target: Mapping[str, Any], seen: Performance, *, elapsed_s: float) -> float | None:
    """Return performance over target; None for best effort, which has none.

    A service meets its target only where both the rate and the latency do, so the worse of the two
    counts. It cannot answer more than it is asked, so its rate is 1 at most, and 1 from
    ``RATE_KEPT`` on.
    """
    match target["kind"]:
        case "completion_time":
            return float(target["seconds"]) / max(
                1e-9, measured(target, seen, elapsed_s=elapsed_s)
            )
        case "throughput_latency":
            by_rate = seen.qps / float(target["qps"])
            if by_rate >= RATE_KEPT:
                by_rate = 1.0
            by_latency = float(target["latency_seconds"]) / max(1e-12, seen.latency_s)
            return min(by_rate, by_latency)
        case "ips":
            return seen.ips / float(target["ips"])
        case _:
            return None
