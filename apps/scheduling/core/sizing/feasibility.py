"""Predicted performance of 1 to 64 units on every platform, in the unit of the target.

m sizes, P platforms. It is the grid that sizing uses, and shows users why a size was chosen and
how far the target is from what is possible.
"""

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from apps.classification.core.profile import Profile
from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.scheduling.core.sizing.minimum import EASIER, size
from apps.scheduling.core.sizing.rate_grid import performance_grid
from apps.scheduling.core.sizing.sizes import ClusterFacts, Infeasible, Sized, Work
from apps.workloads.core.targets import (
    CompletionTime,
    InstructionRate,
    Target,
    ThroughputLatency,
)

_HALVINGS: Final = 30


@dataclass(frozen=True, slots=True, eq=False)
class Feasibility:
    """Predicted performance by size and platform.

    Attributes
    ----------
    kind : of the target, which gives the unit: seconds, seconds of latency, instructions/s, or the
        share of the work per second of best effort
    target : in that unit; None = best effort
    is_rate : whether higher is better
    sizes : (m,) units
    platforms : P names that hold at least one size
    value, low, high : (m, P) prediction and its 90 % interval, low <= value <= high; NaN if the
        platform cannot hold the size, infinite if it would be overloaded
    units : chosen size, or the best one if none is sufficient; None = none
    basis : platform that determined the size, the slowest on which it is sufficient; None = none
    elapsed_s : cluster seconds from submission to the start, part of a completion time
    """

    kind: str
    target: float | None
    is_rate: bool
    sizes: Ints
    platforms: tuple[str, ...]
    value: Floats
    low: Floats
    high: Floats
    units: int | None
    basis: str | None
    elapsed_s: float = 0.0


def feasibility(
    profile: Profile, target: Target, work: Work, facts: ClusterFacts, sized: Sized | Infeasible
) -> Feasibility:
    """Predict every size on every platform; O(m·P).

    Parameters
    ----------
    sized : result of `size` for the same arguments
    """
    sizes, value, low, high = performance_grid(profile, target, work, facts)
    is_possible: Bools = np.logical_not(np.all(np.isnan(value), axis=0))
    names = tuple(
        name for name, possible in zip(facts.platforms, is_possible, strict=True) if possible
    )
    value, low, high = value[:, is_possible], low[:, is_possible], high[:, is_possible]
    is_rate = not isinstance(target, CompletionTime | ThroughputLatency)
    basis = _basis(sized, names, value, is_rate=is_rate)
    return Feasibility(
        kind=target.kind.value,
        target=_target_value(target),
        is_rate=is_rate,
        sizes=sizes,
        platforms=names,
        value=value,
        low=np.minimum(low, high),
        high=np.maximum(low, high),
        units=sized.units or None,
        basis=basis,
        elapsed_s=work.elapsed_s,
    )


def max_load(
    profile: Profile, target: ThroughputLatency, work: Work, facts: ClusterFacts
) -> float:
    """Return the maximum queries per second that any size serves within the latency; 0 = none.

    By bisection with `size`, to a billionth of the requested rate.
    """
    low, high = 0.0, target.qps
    for _ in range(_HALVINGS):
        load = (low + high) / 2.0
        sized = size(profile, replace(target, qps=load), work, facts)
        is_met = isinstance(sized, Sized)
        low, high = (load, high) if is_met else (low, load)
    return low


def lighter_load(
    profile: Profile, target: ThroughputLatency, work: Work, facts: ClusterFacts
) -> ThroughputLatency | None:
    """Return a load that can be served, with the same latency if possible.

    If even an idle service is too slow, the latency becomes twice that of an idle service, which
    leaves room for a queue. Returns None if no platform can hold the job.
    """
    load = max_load(profile, target, work, facts)
    if load < 1e-6 * target.qps:
        idle = replace(target, qps=1e-6 * target.qps)
        seconds = performance_grid(profile, idle, work, facts).value
        if not np.isfinite(seconds).any():
            return None
        target = replace(target, latency_seconds=float(f"{2.0 * np.nanmin(seconds):.2g}"))
        load = max_load(profile, target, work, facts)
    qps = float(f"{load / EASIER:.2g}")
    return replace(target, qps=qps) if qps > 0.0 else None


def _target_value(target: Target) -> float | None:
    match target:
        case CompletionTime():
            return target.seconds
        case ThroughputLatency():
            return target.latency_seconds
        case InstructionRate():
            return target.ips
        case _:
            return None


def _basis(
    sized: Sized | Infeasible, names: tuple[str, ...], value: Floats, *, is_rate: bool
) -> str | None:
    """Return the slowest platform on which the size is sufficient."""
    if isinstance(sized, Infeasible):
        return sized.platform if sized.platform in names else None
    row = min(sized.units, value.shape[0]) - 1
    allowed = [
        i
        for i, name in enumerate(names)
        if (sized.platforms is None or name in sized.platforms) and math.isfinite(value[row, i])
    ]
    if not allowed:
        return None
    slowest = min if is_rate else max
    return names[slowest(allowed, key=lambda i: value[row, i])]
