"""Which freed capacity may let a refused job start.

An agent notes the servers whose capacity was freed, as it follows the change log, and compares
them with the needs of the shapes that wait. A match may be wrong: the evaluation decides.
"""

from collections.abc import Iterable
from typing import Final

import numpy as np

from apps.inventory.core.snapshot import Snapshot
from apps.scheduling.core.cluster.capacity import SLACK
from apps.scheduling.core.types import RefusalReason, Request, Within
from apps.workloads.core.shapes import Freed, FreedServers, Needs, WaitsFor
from apps.workloads.core.spec import JobSpec

BY_RELEASE: Final = frozenset({WaitsFor.UNITS})
BY_OPENING: Final = frozenset({WaitsFor.UNITS, WaitsFor.OPENING})
BY_NEW_SERVERS: Final = frozenset(WaitsFor)

_WAITS_FOR: Final = {
    RefusalReason.NO_MATCHING_SERVER: WaitsFor.SERVERS,
    RefusalReason.SERVERS_CLOSED: WaitsFor.OPENING,
}


def needs_of(request: Request, reason: RefusalReason) -> Needs:
    """Return what a refused request needs at least."""
    return Needs(
        waits_for=_WAITS_FOR.get(reason, WaitsFor.UNITS),
        units=request.min_units,
        on_one_server=request.locality is Within.SERVER,
        platforms=None if request.platforms is None else tuple(sorted(request.platforms)),
        labels=tuple(sorted(request.labels)),
        unit_memory_bytes=int(request.unit_memory_bytes * (1.0 - SLACK)),
        unit_network_bps=int(request.unit_network_bps * (1.0 - SLACK)),
        unit_storage_bytes=int(request.unit_storage_bytes * (1.0 - SLACK)),
    )


def needs_of_spec(spec: JobSpec, waits_for: WaitsFor) -> Needs:
    """Return what a job needs at least that was refused before it had a size."""
    constraints = spec.constraints
    return Needs(
        waits_for=waits_for,
        platforms=tuple(sorted(constraints.platforms)) or None,
        labels=tuple(sorted(f"{key}={value}" for key, value in constraints.labels.items())),
    )


class FreedLog:
    """Servers whose capacity was freed since `clear`, by id."""

    def __init__(self) -> None:
        self._servers: dict[int, tuple[frozenset[WaitsFor], int]] = {}

    def note(self, servers: Iterable[int], wakes: frozenset[WaitsFor], sequence: int) -> None:
        """Note servers freed by a change of that number."""
        for server in servers:
            known, _ = self._servers.get(server, (wakes, sequence))
            self._servers[server] = (known | wakes, sequence)

    def clear(self) -> None:
        """Forget all servers."""
        self._servers.clear()

    def freed(self, snapshot: Snapshot) -> Freed | None:
        """Return the capacity that is still free on the open servers among them; O(U + S).

        None if there is none.
        """
        if not self._servers:
            return None
        topology = snapshot.topology
        free = np.bincount(
            topology.unit_server, weights=snapshot.unit_free, minlength=topology.server_id.size
        )
        free = np.where(snapshot.server_open, free, 0).astype(np.int64)
        groups: dict[tuple[str, frozenset[str]], FreedServers] = {}
        for i in np.flatnonzero(np.isin(topology.server_id, list(self._servers)) & (free > 0)):
            wakes, sequence = self._servers[int(topology.server_id[i])]
            platform = topology.platform_name[topology.server_platform[i]]
            labels = topology.server_labels[i]
            memory, network, storage = np.maximum(snapshot.server_free[i], 0.0)
            one = FreedServers(
                platform=platform,
                labels=tuple(labels),
                units=int(free[i]),
                memory_bytes=int(memory),
                network_bps=int(network),
                storage_bytes=int(storage),
                wakes=tuple(wakes),
                sequence=sequence,
            )
            known = groups.get((platform, labels))
            groups[platform, labels] = one if known is None else _merged(known, one)
        return Freed(int(free.sum()), list(groups.values())) if groups else None


def _merged(a: FreedServers, b: FreedServers) -> FreedServers:
    return FreedServers(
        platform=a.platform,
        labels=a.labels,
        units=max(a.units, b.units),
        memory_bytes=max(a.memory_bytes, b.memory_bytes),
        network_bps=max(a.network_bps, b.network_bps),
        storage_bytes=max(a.storage_bytes, b.storage_bytes),
        wakes=tuple({*a.wakes, *b.wakes}),
        sequence=max(a.sequence, b.sequence),
    )
