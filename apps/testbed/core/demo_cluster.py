"""Demo clusters in memory: their topology for schedulers and their machines for the engine."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from apps.emulation.core.events import Machines
from apps.emulation.core.truth import Truth
from apps.emulation.core.worlds import PAPER, World
from apps.inventory.core.demo import PLATFORMS, PlatformFacts, platform_counts
from apps.inventory.core.snapshot import Floats, Ints, Topology
from apps.scheduling.core.types import Request
from apps.testbed.core.replay.model import ReplayPlatform

SERVERS_PER_RACK: Final = 40
DEMO_PLATFORMS: Final = tuple(facts.name for facts in PLATFORMS)


@dataclass(frozen=True, slots=True, eq=False)
class DemoCluster:
    """One cluster as schedulers see it and as the engine runs it, in the same server order.

    Its applications are drawn from `world`, for `machines.platforms`.
    """

    topology: Topology
    machines: Machines
    seed: int
    world: World = PAPER


def demo_cluster(servers: int, seed: int, world: World = PAPER) -> DemoCluster:
    """Return servers of the fourteen demo platforms in proportion, shuffled over racks of 40.

    Raises
    ------
    ValueError : fewer than one server.
    """
    rng = np.random.default_rng(seed)
    kinds = np.repeat(np.arange(len(PLATFORMS)), platform_counts(servers))
    platform = rng.permutation(kinds)
    rack = np.arange(servers) // SERVERS_PER_RACK
    return cluster_of(PLATFORMS, platform, rack, seed, world)


def cluster_of(
    platforms: Sequence[PlatformFacts | ReplayPlatform],
    platform: Ints,
    rack: Ints,
    seed: int,
    world: World = PAPER,
) -> DemoCluster:
    """Return servers of any platforms.

    Parameters
    ----------
    platforms : the highest-end one first
    platform, rack : (S,) index of each server's platform and rack
    seed : of what the world draws: unknown platforms, and the speed of servers
    """
    facts = np.array(
        [
            (p.cores, p.memory_bytes, p.network_bps, p.storage_bytes, p.idle_watts, p.peak_watts)
            for p in platforms
        ],
        dtype=np.float64,
    )[platform]
    units = facts[:, 0].astype(np.int64)
    names = tuple(p.name for p in platforms)
    return DemoCluster(
        topology=_topology(platform, units, facts[:, 1:4], names=names, rack=rack),
        machines=Machines(
            platforms=world.catalogue(names, seed=seed),
            platform=platform,
            units=units,
            rack=rack,
            memory_bytes=facts[:, 1],
            network_bps=facts[:, 2],
            storage_bytes=facts[:, 3],
            idle_watts=facts[:, 4],
            peak_watts=facts[:, 5],
            speed=world.server_speed(seed, np.arange(len(platform))),
        ),
        seed=seed,
        world=world,
    )


def exact_request(
    truth: Truth, job: str, *, units: int = 1, measure_rank: bool = False
) -> Request:
    """Return the request for a job with a perfect profile."""
    return Request(
        job=job,
        units=units,
        caused=truth.caused,
        tolerated=truth.tolerated,
        platform_speed=truth.platform_speed,
        measure_rank=measure_rank,
    )


def _topology(
    platform: Ints,
    units: Ints,
    capacity: Floats,
    *,
    names: tuple[str, ...] = DEMO_PLATFORMS,
    rack: Ints | None = None,
) -> Topology:
    servers = len(platform)
    first = np.concatenate(([0], np.cumsum(units)[:-1]))
    owner = np.repeat(np.arange(servers), units)
    racks = np.arange(servers) // SERVERS_PER_RACK if rack is None else rack
    return Topology(
        unit_id=np.arange(1, len(owner) + 1, dtype=np.int64),
        unit_server=owner.astype(np.int32),
        unit_core=(np.arange(len(owner)) - first[owner]).astype(np.int32),
        server_id=np.arange(1, servers + 1, dtype=np.int64),
        server_name=tuple(f"server-{i:05d}" for i in range(servers)),
        server_first_unit=first.astype(np.int32),
        server_units=units.astype(np.int32),
        server_platform=platform.astype(np.int32),
        server_rack=racks.astype(np.int32),
        server_capacity=capacity,
        server_labels=(frozenset(),) * servers,
        platform_name=names,
        rack_name=tuple(f"rack-{i:03d}" for i in range(int(racks.max()) + 1)),
    )
