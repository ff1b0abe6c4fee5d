"""Predicted work per second of any size, from a profile, with intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from apps.classification.core.estimates import Estimate
from apps.classification.core.profile import SCALE_POINTS, Profile

MAX_UNITS: Final = 1024  # far beyond the last point of the curves
MAX_ESTIMATES: Final = 2000
SIZES: Final = tuple(p for p in SCALE_POINTS if p <= 64)  # the default


@dataclass(frozen=True, slots=True)
class SizeEstimate:
    """Work per second of one size on one platform without interference.

    Attributes
    ----------
    units : total number of resource units
    servers : number of servers, with an equal share of the units each
    fits : whether a server of the platform has enough units for its share
    """

    platform: str
    units: int
    servers: int
    estimate: Estimate
    fits: bool


def size_estimates(
    profile: Profile,
    server_units: Mapping[str, int],
    *,
    units: Sequence[int],
    servers: Sequence[int],
    platforms: Sequence[str],
    in_bytes: bool,
) -> list[SizeEstimate]:
    """Estimate every combination, platform by platform.

    Parameters
    ----------
    server_units : units of a server of each platform; platforms without servers may be missing
    servers : empty = as few as can hold the units
    in_bytes : input bytes per second instead of the kind's own metric

    Raises
    ------
    ValueError : more servers than units, an unknown platform, or too many combinations.
    """
    count = len(platforms) * len(units) * max(1, len(servers))
    if count > MAX_ESTIMATES:
        raise ValueError(
            f"The request has {count:,} combinations, the limit is {MAX_ESTIMATES:,}."
        )
    combinations = [
        (platform, size, spread)
        for platform in platforms
        for size in units
        for spread in servers or (_min_servers(size, server_units.get(platform)),)
    ]
    return [
        SizeEstimate(
            platform,
            size,
            spread,
            profile.rate(size, servers=spread, platform=platform, in_bytes=in_bytes),
            fits=-(-size // spread) <= server_units.get(platform, 0),
        )
        for platform, size, spread in combinations
    ]


def _min_servers(units: int, of_server: int | None) -> int:
    return 1 if of_server is None else -(-units // of_server)
