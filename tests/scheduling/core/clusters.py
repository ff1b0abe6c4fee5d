"""Small clusters and requests for the tests of this folder and the contracts."""

from typing import Any

import numpy as np

from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Floats, Snapshot, Topology
from apps.scheduling.core.types import Request

SHARE = (4e9, 6.25e8, 3e10)  # memory bytes, network bits/s, storage bytes per core


def topology(
    sizes: tuple[int, ...],
    *,
    platforms: tuple[str, ...] = ("J", "A"),
    racks: int = 2,
    switches: tuple[str, ...] = (),
    labels: tuple[frozenset[str], ...] | None = None,
) -> Topology:
    """Return servers of given sizes, with alternating platforms and racks.

    ``switches`` are those above the racks; none by default.
    """
    units = np.array(sizes, dtype=np.int32)
    servers = np.arange(units.size, dtype=np.int32)
    first = (np.cumsum(units) - units).astype(np.int32)
    owner = np.repeat(servers, units).astype(np.int32)
    return Topology(
        unit_id=np.arange(owner.size, dtype=np.int64) * 3 + 100,
        unit_server=owner,
        unit_core=(np.arange(owner.size) - first[owner]).astype(np.int32),
        server_id=servers.astype(np.int64) + 1,
        server_name=tuple(f"srv-{i:04d}" for i in servers),
        server_first_unit=first,
        server_units=units,
        server_platform=(servers % len(platforms)).astype(np.int32),
        server_rack=(servers % racks).astype(np.int32),
        server_capacity=np.array(SHARE)[None, :] * units[:, None],
        server_labels=labels or tuple(frozenset() for _ in sizes),
        platform_name=platforms,
        rack_name=tuple(f"rack-{i}" for i in range(racks)),
        rack_switch=switches,
    )


def idle(cluster: Topology) -> Snapshot:
    """Return a snapshot of an idle cluster."""
    return Snapshot(
        sequence=7,
        topology=cluster,
        unit_free=frozen(np.ones(cluster.unit_id.size, dtype=np.bool_)),
        server_open=frozen(np.ones(cluster.server_id.size, dtype=np.bool_)),
        server_caused=frozen(np.zeros((cluster.server_id.size, N_SOURCES), dtype=np.float32)),
        server_exposure=frozen(np.zeros((cluster.server_id.size, N_SOURCES), dtype=np.float32)),
        server_tolerance=frozen(
            np.full((cluster.server_id.size, N_SOURCES), 100.0, dtype=np.float32)
        ),
        server_free=frozen(cluster.server_capacity.copy()),
    )


def loaded(cluster: Topology, share: float, rng: np.random.Generator) -> Snapshot:
    """Return a snapshot in which each unit is busy with probability ``share``."""
    free = rng.random(cluster.unit_id.size) >= share
    scores = rng.uniform(0, 100, (cluster.unit_id.size, N_SOURCES)) * ~free[:, None]
    caused = np.zeros((cluster.server_id.size, N_SOURCES))
    np.add.at(caused, cluster.unit_server, scores)
    busy = np.bincount(cluster.unit_server, weights=~free, minlength=cluster.server_id.size)
    left = cluster.server_capacity * (1 - busy / cluster.server_units)[:, None]
    return Snapshot(
        sequence=7,
        topology=cluster,
        unit_free=frozen(free),
        server_open=frozen(np.ones(cluster.server_id.size, dtype=np.bool_)),
        server_caused=frozen(caused.astype(np.float32)),
        server_exposure=frozen((-caused / 1e5).astype(np.float32)),
        server_tolerance=frozen((100.0 - caused / 5.0).astype(np.float32)),
        server_free=frozen(left),
    )


def frozen(array: np.ndarray) -> np.ndarray:
    """Make an array read-only and return it."""
    array.flags.writeable = False
    return array


def request(
    units: int = 1, *, job: str = "job-1", caused: Floats | None = None, **more: Any
) -> Request:
    """Return a request with moderate interference by default."""
    scores = np.linspace(60.0, 15.0, N_SOURCES) if caused is None else caused
    limits: dict[str, Any] = {"tolerated": 100.0 - scores}
    return Request(job=job, units=units, caused=scores, **(limits | more))
