"""Rates and targets: the performance at a rate, and the rate that a target needs."""

import math

import numpy as np

from apps.classification.core.estimates import HALF_WIDTH_90
from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.scheduling.core.sizing.response_time import late_share, latency_percentile
from apps.scheduling.core.sizing.sizes import Work
from apps.workloads.core.targets import (
    BestEffort,
    CompletionTime,
    InstructionRate,
    Target,
    ThroughputLatency,
)


def is_met(target: Target, work: Work, sizes: Ints, rate: Floats) -> Bools:
    """(m, P) whether the target is met at these rates of (m, 1) sizes."""
    match target:
        case CompletionTime():
            return work.elapsed_s + work.input_bytes / rate <= target.seconds
        case ThroughputLatency():
            late = late_share(sizes, rate, target.qps, target.latency_seconds)
            return late <= 1.0 - target.percentile / 100.0
        case InstructionRate():
            return rate >= target.ips
        case BestEffort():
            return np.isfinite(rate)


def performance(target: Target, work: Work, units: int | Ints, rate: Floats) -> Floats:
    """Convert rates of any shape to the target's unit; ``units`` is broadcast.

    That of best effort is the share of the work per second; NaN without input.
    """
    match target:
        case CompletionTime():
            return work.elapsed_s + work.input_bytes / rate
        case ThroughputLatency():
            share = target.percentile / 100.0
            return latency_percentile(units, rate, target.qps, share)
        case InstructionRate():
            return rate
        case BestEffort():
            return rate / (work.input_bytes or math.nan)


def probability_of(target: Target, work: Work, units: int, rates: Floats) -> float:
    """Return the probability that the rate is sufficient, with a log-normal distribution."""
    rate, low, high = rates.tolist()
    deviation = math.log(high / low) / (2.0 * HALF_WIDTH_90)
    margin = math.log(rate / _needed(target, work, units, rate))
    if deviation == 0.0:
        return float(margin >= 0.0)
    return 0.5 * math.erfc(-margin / deviation / math.sqrt(2.0))


def _needed(target: Target, work: Work, units: int, rate: float) -> float:
    """Return the minimum rate that meets the target."""
    match target:
        case CompletionTime():
            left = target.seconds - work.elapsed_s
            return work.input_bytes / left if left > 0 and work.input_bytes > 0 else 1e-300
        case ThroughputLatency():
            return _needed_capacity(target, units, rate)
        case InstructionRate():
            return target.ips
        case BestEffort():
            return rate


def _needed_capacity(target: ThroughputLatency, units: int, rate: float) -> float:
    """Return the minimum capacity that meets the latency, by bisection in the logarithm."""
    low, high = target.qps, max(rate, target.qps) * 1e3
    for _ in range(40):
        middle = math.sqrt(low * high)
        late = late_share(
            np.array([[units]]), np.array([[middle]]), target.qps, target.latency_seconds
        ).item()
        if late > 1.0 - target.percentile / 100.0:
            low = middle
        else:
            high = middle
    return high
