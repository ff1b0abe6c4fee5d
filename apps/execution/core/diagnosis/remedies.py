"""What would help a job below its target, with the predicted performance."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final, NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from apps.classification.core.estimates import HALF_WIDTH_90, Estimate
from apps.execution.core.diagnosis.attribution import SEGMENT_DEVIATION, Attribution, Kind
from apps.execution.core.diagnosis.case import Case
from apps.execution.core.diagnosis.pressure import loss
from apps.execution.core.diagnosis.speed import SpeedScale
from apps.inventory.core.snapshot import Bools, Floats, Ints
from apps.scheduling.core.types import MAX_UNITS

SURE: Final = 0.9  # probability at which a remedy is enough
MIN_GAIN: Final = 0.01  # of the log speed


class RemedyKind(StrEnum):
    """Kinds of remedy."""

    MOVE = "move"
    UNITS = "units"
    RELAX = "relax"
    PROFILE = "profile"


@dataclass(frozen=True, slots=True)
class Now:
    """The state that a remedy starts from.

    Attributes
    ----------
    log_speed, deviation : of the job at the dip
    progress : share of the work done
    elapsed_s : since submission
    """

    log_speed: float
    deviation: float
    progress: float
    elapsed_s: float


@dataclass(frozen=True, slots=True)
class Remedy:
    """One remedy.

    Attributes
    ----------
    predicted : performance in the target's unit, with a 90 % interval; None = not predictable
    probability : that the target is met; NaN = not predictable
    units : units to migrate, or units that the job would have
    from_server, to_server : ids
    relaxed : new value of the target
    """

    kind: RemedyKind
    predicted: Estimate | None = None
    probability: float = math.nan
    units: int = 0
    from_server: int | None = None
    to_server: int | None = None
    relaxed: float = math.nan


class Places(NamedTuple):
    """Servers that could take units of the job; arrays of one length.

    server : ids
    room : units that fit
    pressure : (S, N) on a free unit
    log_speed : logarithm of the speed of a unit of the job there
    """

    server: Ints
    room: Ints
    pressure: Floats
    log_speed: Floats


def predicted_with(
    scale: SpeedScale, now: Now, gain: float, deviation: float
) -> tuple[Estimate, float]:
    """Return the performance after a change of the log speed, and P(target met).

    Parameters
    ----------
    deviation : standard deviation of the change
    """
    after, spread = now.log_speed + gain, math.hypot(now.deviation, deviation)
    ends = [
        scale.performance(after + sign * HALF_WIDTH_90 * spread, now.progress, now.elapsed_s)
        for sign in (0.0, -1.0, 1.0)
    ]
    needed = scale.log_needed(now.progress, now.elapsed_s)
    probability = float(ndtr((after - needed) / max(spread, 1e-6)))
    return Estimate(ends[0], min(ends), max(ends)), probability


def unchanged(scale: SpeedScale, now: Now) -> Remedy:
    """Return what happens if nothing is done, in the form of a remedy."""
    predicted, probability = predicted_with(scale, now, 0.0, 0.0)
    return Remedy(RemedyKind.RELAX, predicted, probability)


def move(
    case: Case,
    attribution: Attribution,
    at_dip: Bools,
    places: Places,
    scale: SpeedScale,
    now: Now,
) -> Remedy | None:
    """Return the migration of one server's units that gains most; None if none gains.

    The effect of the present neighbours is that of the attribution; that of the new ones and of
    the platform is predicted from the profile.
    """
    if case.tolerated is None or not places.server.size:
        return None
    at_s = case.reports.at_s[at_dip]
    expected = loss(places.pressure, case.tolerated.value)
    spread = np.abs(
        loss(places.pressure, case.tolerated.low) - loss(places.pressure, case.tolerated.high)
    ) / (2.0 * HALF_WIDTH_90)
    best: tuple[float, Remedy] | None = None
    held = [h for h in case.own if h.to_s == math.inf]
    for server in sorted({h.server for h in held}):
        units = sum(h.units for h in held if h.server == server)
        share = float(case.share_on(server, at_s).mean())
        effects = [c for c in attribution.contributions if c.column.server == server]
        here = sum(c.effect for c in effects)
        doubt = math.sqrt(sum(c.deviation**2 for c in effects))
        own = math.log(max(1e-6, case.server_speed.get(server, 1.0)))
        gains = here + share * (places.log_speed - own - expected)
        gains = np.where((places.room >= units) & (places.server != server), gains, -np.inf)
        i = int(np.argmax(gains))
        gain = float(gains[i])
        if gain < MIN_GAIN or (best is not None and gain <= best[0]):
            continue
        deviation = math.hypot(doubt, share * float(spread[i]))
        predicted, probability = predicted_with(scale, now, gain, deviation)
        to = int(places.server[i])
        best = gain, Remedy(RemedyKind.MOVE, predicted, probability, units, server, to)
    return None if best is None else best[1]


def more_units(
    rate: Callable[[int], float], units: int, limit: int, scale: SpeedScale, now: Now
) -> Remedy | None:
    """Return the smallest size that meets the target with probability `SURE`.

    If none does, the size that comes nearest; None if no size is clearly faster.

    Parameters
    ----------
    rate : work per second of a number of units, from the profile
    units, limit : held now, and the most that the job may have
    """
    nearest: tuple[float, Remedy] | None = None
    for size in range(units + 1, min(limit, MAX_UNITS) + 1):
        gain = math.log(rate(size) / rate(units))
        larger = SpeedScale(scale.target, size)
        predicted, probability = predicted_with(larger, now, gain, abs(gain) * 0.2)
        found = Remedy(RemedyKind.UNITS, predicted, probability, size)
        if probability >= SURE:
            return found
        if gain >= MIN_GAIN and (nearest is None or gain > nearest[0]):
            nearest = gain, found
    return None if nearest is None else nearest[1]


def relax(scale: SpeedScale, now: Now) -> Remedy | None:
    """Return the target that the job meets with probability `SURE` as it is."""
    slow = now.log_speed - float(ndtri(SURE)) * max(now.deviation, SEGMENT_DEVIATION)
    limit = scale.performance(slow, now.progress, now.elapsed_s)
    if not math.isfinite(limit) or limit <= 0.0:
        return None
    is_rate = scale.is_rate
    digits = 10.0 ** (math.floor(math.log10(limit)) - 1)
    rounded = (math.floor if is_rate else math.ceil)(limit / digits) * digits
    predicted, _ = predicted_with(scale, now, 0.0, 0.0)
    return Remedy(RemedyKind.RELAX, predicted, SURE, relaxed=float(f"{rounded:.2g}"))


def needs_profile(attribution: Attribution) -> bool:
    """Whether another profiling run could change the diagnosis: the profile is a likely cause."""
    doubtful = {Kind.PROFILE, Kind.PHASE, Kind.UNKNOWN}
    total = sum(c.confidence for c in attribution.contributions if c.column.kind in doubtful)
    return total >= 0.1
