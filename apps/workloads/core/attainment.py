"""Attainment of a running job: performance over target; at least 1 if the target is met.

Source: Tarcil §6 and Quasar §6 report performance normalised to the target; Berth uses one
ratio for all kinds of target.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

# measured rates are noisy: from this share of the target on, it counts as reached
RATE_REACHED: Final = 0.95


@dataclass(frozen=True, slots=True)
class Performance:
    """Performance of one job since its last report, as measured by the backend.

    Attributes
    ----------
    progress : share of the work done, 0-1
    progress_per_s : share of the work done per cluster second, >= 0
    qps : queries answered per second; NaN if the job answers none
    latency_s : latency in seconds at the target's percentile; NaN if it has none
    ips : instructions per second; NaN if not measured
    offered_qps : queries received per second, answered or not; NaN if not measured
    """

    progress: float
    progress_per_s: float
    qps: float = math.nan
    latency_s: float = math.nan
    ips: float = math.nan
    offered_qps: float = math.nan


def performance_in_unit(
    target: Mapping[str, Any], performance: Performance, *, elapsed_s: float
) -> float:
    """Return performance in the target's own unit.

    completion_time: expected seconds from submission to end; throughput_latency: latency in
    seconds; ips: instructions per second; best_effort: share of the work per second. ``inf`` if
    the job makes no progress.

    Parameters
    ----------
    elapsed_s : cluster seconds since submission
    """
    match target["kind"]:
        case "completion_time":
            if performance.progress >= 1.0:
                return elapsed_s
            if performance.progress_per_s <= 0.0:
                return math.inf
            return elapsed_s + (1.0 - performance.progress) / performance.progress_per_s
        case "throughput_latency":
            return performance.latency_s
        case "ips":
            return performance.ips
        case _:
            return performance.progress_per_s


def attainment(
    target: Mapping[str, Any], performance: Performance, *, elapsed_s: float
) -> float | None:
    """Return performance over target; None for best effort, which has no target.

    A service must meet both its rate and its latency, so the worse ratio counts. It cannot answer
    more queries than it receives: if it receives fewer than its target, its rate is compared with
    these, and the ratio is at most 1; it is rounded up to 1 from ``RATE_REACHED`` on.
    """
    match target["kind"]:
        case "completion_time":
            return float(target["seconds"]) / max(
                1e-9, performance_in_unit(target, performance, elapsed_s=elapsed_s)
            )
        case "throughput_latency":
            wanted = float(target["qps"])
            if not math.isnan(performance.offered_qps):
                wanted = min(wanted, performance.offered_qps)
            by_rate = performance.qps / wanted if wanted > 0.0 else 1.0
            if by_rate >= RATE_REACHED:
                by_rate = 1.0
            by_latency = float(target["latency_seconds"]) / max(1e-12, performance.latency_s)
            return min(by_rate, by_latency)
        case "ips":
            return performance.ips / float(target["ips"])
        case _:
            return None
