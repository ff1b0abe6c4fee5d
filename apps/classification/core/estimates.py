"""What a profile says of sizes nobody has run yet: work per second, with intervals."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from apps.classification.core.profile import SCALE_POINTS, Estimate, Profile

MOST_UNITS: Final = 1024  # far beyond the curves nothing is known
MOST_ESTIMATES: Final = 2000
SIZES: Final = tuple(p for p in SCALE_POINTS if p <= 64)  # asked for where nobody says which


@dataclass(frozen=True, slots=True)
class SizeEstimate:
    """Work per second of one size on one platform, undisturbed.

    Attributes
    ----------
    units : resource units in all
    servers : they are spread over evenly
    fits : whether a server of the platform has so many units
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
    server_units : units of a server of each platform; those the cluster lacks may be missing
    servers : empty = as few as hold the units
    in_bytes : input bytes per second instead of the kind's own metric

    Raises
    ------
    ValueError : more servers than units, an unknown platform, or too many combinations.
    """
    many = len(platforms) * len(units) * max(1, len(servers))
    if many > MOST_ESTIMATES:
        raise ValueError(f"at most {MOST_ESTIMATES:,} combinations at once, not {many:,}")
    wanted = [
        (platform, size, count)
        for platform in platforms
        for size in units
        for count in servers or (_fewest(size, server_units.get(platform)),)
    ]
    return [
        SizeEstimate(
            platform,
            size,
            count,
            profile.rate(size, servers=count, platform=platform, in_bytes=in_bytes),
            fits=-(-size // count) <= server_units.get(platform, 0),
        )
        for platform, size, count in wanted
    ]


def _fewest(units: int, of_server: int | None) -> int:
    return 1 if of_server is None else -(-units // of_server)
