"""A job with neighbours, by hand: 100 reports ten seconds apart."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from apps.classification.core.estimates import Estimates
from apps.common.core.interference import N_SOURCES, SOURCES
from apps.execution.core.diagnosis.case import Case, Holding, Reports
from apps.inventory.core.snapshot import Floats

AT = 10.0 * np.arange(100.0)
DIP_S = 600.0
HERE, THERE = 1, 2


def vector(**points: float) -> Floats:
    """Scores by source; 0 for the others."""
    return np.array([points.get(source, 0.0) for source in SOURCES])


def limits(value: float, low: float, high: float) -> Estimates:
    """The same tolerance for every source."""
    ends = (np.full(N_SOURCES, x) for x in (value, low, high))
    mid, least, most = ends
    return Estimates(mid, least, most, np.ones(N_SOURCES, dtype=np.bool_))


def holding(
    job: str,
    caused: Floats | None = None,
    *,
    server: int = HERE,
    units: int = 1,
    from_s: float = -math.inf,
    to_s: float = math.inf,
) -> Holding:
    """Units that a job holds, from ever and for ever by default."""
    return Holding(job, server, units, from_s, to_s, np.zeros(N_SOURCES) if caused is None
                   else caused)  # fmt: skip


def reports(log_speed: Floats, *, needed: float = 0.0, counters: Floats | None = None) -> Reports:
    """Reports at `AT`; ``needed`` is the logarithm of the speed that meets the target."""
    return Reports(
        at_s=AT,
        log_speed=log_speed,
        attainment=np.exp(log_speed - needed),
        readings=np.ones(AT.size),
        counters=np.full((AT.size, 3), np.nan) if counters is None else counters,
    )


def case(
    log_speed: Floats,
    *,
    own: Sequence[Holding] = (holding("me"),),
    others: Sequence[Holding] = (),
    predicted: tuple[float, float] | None = (0.1, 0.05),
    **values: Any,
) -> Case:
    """A job of one unit on a server of eleven, with a tolerance of 50 points."""
    sizes: Mapping[int, int] = {HERE: 11, THERE: 11}
    defaults: dict[str, Any] = {
        "server_units": sizes,
        "server_speed": {HERE: 1.0, THERE: 1.0},
        "tolerated": limits(50.0, 45.0, 55.0),
        "stalls": (),
        "wanted_units": sum(h.units for h in own),
        "noise": 0.02,
        "counters": None,
    }
    known = defaults | values
    counters = known.pop("counters")
    return Case(
        reports=reports(log_speed, counters=counters),
        own=own,
        others=others,
        predicted=predicted,
        **known,
    )


def noisy(level: Floats, seed: int = 5) -> Floats:
    """Add 2 % of reading noise."""
    return level + 0.02 * np.random.default_rng(seed).standard_normal(level.size)


def dropped(loss: float, *, after_s: float = DIP_S, level: float = 0.06) -> Floats:
    """A log speed that loses something from a time on."""
    return noisy(np.where(after_s <= AT, level - loss, level))
