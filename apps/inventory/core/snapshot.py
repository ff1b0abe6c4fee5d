"""The cluster as arrays, the input of a policy.

U units, S servers, P platforms, N = 10 sources of interference. A snapshot is frozen and its
arrays are read-only; agents build one from their local copy in O(1) (views) before each batch.
"""

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from apps.inventory.core.backends import EMULATED, Capability, backends_with

Floats = NDArray[np.float64]
Singles = NDArray[np.float32]
Ints = NDArray[np.int64]
Shorts = NDArray[np.int32]
Bools = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Topology:
    """The servers, units (contiguous per server), platforms and racks, which rarely change.

    Attributes
    ----------
    unit_id : (U,) database ids, ascending
    unit_server : (U,) int32 index into the server arrays, non-decreasing
    unit_core : (U,) int32 core number inside its server, 0..M-1
    server_id : (S,) database ids
    server_name : S names
    server_first_unit : (S,) int32 index of the server's first unit
    server_units : (S,) int32 units of the server, M >= 1
    server_platform : (S,) int32 index into ``platform_name``
    server_rack : (S,) int32 index into ``rack_name``
    server_capacity : (S, 3) memory bytes, network bits/s, storage bytes
    server_labels : S sets of "key=value"
    platform_name, rack_name : names
    rack_switch : switch above each rack, "" = none; empty = no rack has one
    platform_backend : backend of the servers of each platform; empty = all emulated
    """

    unit_id: Ints
    unit_server: Shorts
    unit_core: Shorts
    server_id: Ints
    server_name: tuple[str, ...]
    server_first_unit: Shorts
    server_units: Shorts
    server_platform: Shorts
    server_rack: Shorts
    server_capacity: Floats
    server_labels: tuple[frozenset[str], ...]
    platform_name: tuple[str, ...]
    rack_name: tuple[str, ...]
    rack_switch: tuple[str, ...] = ()
    platform_backend: tuple[str, ...] = ()

    def first(self, servers: int, platforms: int) -> "Topology":
        """Return the topology as it was with its first servers and platforms: others came later.

        Raises
        ------
        ValueError : there are fewer.
        """
        if servers > self.server_id.size or platforms > len(self.platform_name):
            raise ValueError(f"fewer than {servers} servers or {platforms} platforms")
        units = int(self.server_units[:servers].sum())
        by_unit = ("unit_id", "unit_server", "unit_core")
        by_server = (
            *("server_id", "server_name", "server_first_unit", "server_units", "server_platform"),
            *("server_rack", "server_capacity", "server_labels"),
        )
        return replace(
            self,
            **{name: getattr(self, name)[:units] for name in by_unit},
            **{name: getattr(self, name)[:servers] for name in by_server},
            platform_name=self.platform_name[:platforms],
            platform_backend=self.platform_backend[:platforms],
        )

    def server_switch(self) -> Shorts:
        """(S,) int32 number of the switch above each server's rack; without one, of the rack."""
        switches = self.rack_switch or ("",) * len(self.rack_name)
        names = [name or (rack,) for rack, name in enumerate(switches)]
        number = {name: i for i, name in enumerate(dict.fromkeys(names))}
        of_rack = np.array([number[name] for name in names], dtype=np.int32)
        return of_rack[self.server_rack]

    def platforms_with(self, capability: Capability) -> tuple[str, ...]:
        """Return the platforms whose backend has a capability."""
        return self.platforms_of(*backends_with(capability))

    def platforms_of(self, *backends: str) -> tuple[str, ...]:
        """Return the platforms of the servers of some backends."""
        of = self.platform_backend or (EMULATED,) * len(self.platform_name)
        named = zip(self.platform_name, of, strict=True)
        return tuple(name for name, backend in named if backend in backends)

    def platforms_for(self, backend: str) -> tuple[str, ...]:
        """Return the platforms for commands of a backend; empty = those of any that runs them."""
        return self.platforms_of(backend) if backend else self.platforms_with(Capability.COMMANDS)

    def has_servers_with(self, capability: Capability) -> bool:
        """Return True if the backend of some server has a capability."""
        able = set(self.platforms_with(capability))
        return any(self.platform_name[i] in able for i in np.unique(self.server_platform))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Cluster state at one version.

    Attributes
    ----------
    sequence : change-log number of the last change included
    topology : servers, units, platforms and racks
    unit_free : (U,) True if no allocation holds the unit (in any state of the server)
    server_open : (S,) True if the server accepts new work (active, not drained, heartbeat fresh)
    server_caused : (S, N) float32, sum over the server's busy units of the score their job causes,
        0-100 each
    server_exposure : (S, N) float32, log performance that the jobs of the server lose per point of
        further pressure, at most 0 (`scheduling.core.loss`)
    server_tolerance : (S, N) float32, further pressure that every job of the server tolerates: the
        smallest difference of tolerance and pressure, negative = exceeded; 100 for an idle server
    server_free : (S, 3) float64 memory bytes, network bits/s, storage bytes not allocated
    changed : (S,) number of the last change of each server among those of its copy, increasing;
        None = the snapshot is not a view of a copy
    """

    sequence: int
    topology: Topology
    unit_free: Bools
    server_open: Bools
    server_caused: Singles
    server_exposure: Singles
    server_tolerance: Singles
    server_free: Floats
    changed: Ints | None = None

    @property
    def free_units(self) -> int:
        """Free units on servers that accept new work. O(U)."""
        return int((self.unit_free & self.server_open[self.topology.unit_server]).sum())
