"""What any size would achieve: predicted performance of 1 to 64 units on every platform.

m sizes, P platforms. The same grid that sizing looks at, in the unit of the target, so that a
person sees why a size was taken and how far a target lies from what can be had.
"""

import math
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from apps.classification.core.profile import Profile
from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.scheduling.core.sizing import (
    EASIER,
    ClusterFacts,
    Infeasible,
    Sized,
    Work,
    performance_grid,
    size,
)
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
    kind : of the target, which gives the unit: seconds, seconds of latency, or instructions/s
    wanted : the target in that unit; None = best effort
    is_rate : whether more is better
    sizes : (m,) units
    platforms : P names that hold at least one size
    value, low, high : (m, P) prediction and its 90 % interval, low <= value <= high; NaN where the
        platform cannot hold the size, infinite where it would be overloaded
    units : size taken, or the best there is where none is enough; None = none
    basis : platform that the size was judged on, the slowest where it is enough; None = none
    """

    kind: str
    wanted: float | None
    is_rate: bool
    sizes: Ints
    platforms: tuple[str, ...]
    value: Floats
    low: Floats
    high: Floats
    units: int | None
    basis: str | None


def feasibility(
    profile: Profile, target: Target, work: Work, facts: ClusterFacts, sized: Sized | Infeasible
) -> Feasibility:
    """Predict every size on every platform; O(m·P).

    Parameters
    ----------
    sized : what sizing said for the same arguments
    """
    sizes, value, low, high = performance_grid(profile, target, work, facts)
    held: Bools = np.logical_not(np.all(np.isnan(value), axis=0))
    names = tuple(name for name, is_held in zip(facts.platforms, held, strict=True) if is_held)
    value, low, high = value[:, held], low[:, held], high[:, held]
    is_rate = not isinstance(target, CompletionTime | ThroughputLatency)
    basis = _basis(sized, names, value, is_rate=is_rate)
    return Feasibility(
        kind=target.kind.value,
        wanted=_wanted(target),
        is_rate=is_rate,
        sizes=sizes,
        platforms=names,
        value=value,
        low=np.minimum(low, high),
        high=np.maximum(low, high),
        units=sized.units or None,
        basis=basis,
    )


def most_load(
    profile: Profile, target: ThroughputLatency, work: Work, facts: ClusterFacts
) -> float:
    """Find the queries per second that some size still answers within the latency; 0 = none.

    By bisection on what sizing accepts, to a billionth of what is wanted.
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
    """Find a load that can be served: at the same latency, else at the nearest round one.

    Where even an idle service is too slow, the latency is twice what an idle one needs, which
    leaves room for a queue. None where no platform can hold the job.
    """
    load = most_load(profile, target, work, facts)
    if load < 1e-6 * target.qps:
        idle = replace(target, qps=1e-6 * target.qps)
        seconds = performance_grid(profile, idle, work, facts).value
        if not np.isfinite(seconds).any():
            return None
        target = replace(target, latency_seconds=float(f"{2.0 * np.nanmin(seconds):.2g}"))
        load = most_load(profile, target, work, facts)
    qps = float(f"{load / EASIER:.2g}")
    return replace(target, qps=qps) if qps > 0.0 else None


def _wanted(target: Target) -> float | None:
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
    """Return the slowest platform where the size is enough."""
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
