"""The demo cluster: the fourteen server configurations of Paragon's EC2 experiment.

Source: Paragon (TOCS 2013) Table VI for virtual cores, memory and counts of 1,000 servers (the
rows add up to 7,355 cores; the caption states 7,339). Network and storage follow Amazon's instance
pages of those years; if Amazon states only "low" or "moderate", the figure is ours. Watts are ours
too: the cores' share of a two-socket host, with older generations less efficient.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

GB: Final = 10**9
MBPS: Final = 10**6


@dataclass(frozen=True, slots=True)
class PlatformFacts:
    """Data sheet of one server configuration.

    Attributes
    ----------
    cores : virtual cores, and resource units, of one server
    memory_bytes, network_bps, storage_bytes : capacity of one server; network in bits/s
    idle_watts, peak_watts : power of one server at no load and at full load
    count : servers of this kind in a cluster of 1,000
    """

    name: str
    cores: int
    memory_bytes: int
    network_bps: int
    storage_bytes: int
    idle_watts: float
    peak_watts: float
    count: int


def _row(  # noqa: PLR0913, PLR0917 - one line of a table
    name: str,
    cores: int,
    memory_gb: float,
    network_mbps: int,
    storage_gb: int,
    watts: tuple[float, float],
    count: int,
) -> PlatformFacts:
    return PlatformFacts(
        name=name,
        cores=cores,
        memory_bytes=round(memory_gb * GB),
        network_bps=network_mbps * MBPS,
        storage_bytes=storage_gb * GB,
        idle_watts=watts[0],
        peak_watts=watts[1],
        count=count,
    )


# Highest-end first: profiling starts there. Its 32 cores cover all columns of the scale-up matrix.
PLATFORMS: Final[tuple[PlatformFacts, ...]] = (
    _row("cr1.8xlarge", 32, 244, 10_000, 240, (118, 345), 62),
    _row("hi1.4xlarge", 16, 60.5, 10_000, 2_048, (98, 245), 72),
    _row("hs1.8xlarge", 16, 117, 10_000, 48_000, (172, 330), 73),
    _row("m3.2xlarge", 8, 30, 1_000, 160, (44, 118), 68),
    _row("m2.4xlarge", 8, 68.4, 1_000, 1_680, (66, 152), 58),
    _row("c1.xlarge", 8, 7, 1_000, 1_680, (62, 148), 65),
    _row("m3.xlarge", 4, 15, 1_000, 80, (24, 62), 82),
    _row("m2.2xlarge", 4, 34.2, 500, 850, (36, 80), 70),
    _row("m1.xlarge", 4, 15, 1_000, 1_680, (42, 82), 81),
    _row("m2.xlarge", 2, 17.1, 500, 420, (20, 42), 73),
    _row("c1.medium", 2, 1.7, 500, 350, (17, 38), 67),
    _row("m1.large", 2, 7.5, 500, 840, (23, 43), 82),
    _row("m1.medium", 1, 3.75, 300, 410, (12, 22), 69),
    _row("m1.small", 1, 1.7, 250, 160, (10, 18), 78),
)


def platform_counts(servers: int, platforms: Sequence[PlatformFacts] = PLATFORMS) -> list[int]:
    """Divide `servers` among the platforms by the table, rounded by largest remainder.

    Raises
    ------
    ValueError : fewer than one server.
    """
    if servers < 1:
        raise ValueError(f"servers must be at least 1, got {servers}")
    total = sum(facts.count for facts in platforms)
    exact = [servers * facts.count / total for facts in platforms]
    counts = [int(share) for share in exact]
    by_remainder = sorted(range(len(exact)), key=lambda i: (counts[i] - exact[i], i))
    for i in by_remainder[: servers - sum(counts)]:
        counts[i] += 1
    return counts
