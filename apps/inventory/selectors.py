"""Reads of the shared cluster state, as arrays for agents and rows for pages."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import numpy as np
from django.db import connection, transaction
from django.utils import timezone

from apps.common.core.clock import ClusterClock
from apps.common.core.interference import N_SOURCES
from apps.inventory.core.snapshot import Snapshot, Topology
from apps.inventory.models import Change, ChangeKind, Cluster, Platform, Rack, Server, ServerState


def cluster() -> Cluster:
    """The one cluster row; created on first use."""
    row, _ = Cluster.objects.get_or_create(id=1)
    return row


def cluster_clock() -> ClusterClock:
    """The clock by which cluster time is told now."""
    row = cluster()
    return ClusterClock(
        wall_anchor_s=row.wall_anchor_s, cluster_anchor_s=row.cluster_anchor_s, speed=row.speed
    )


def cluster_now() -> float:
    """Cluster time in seconds at this moment."""
    return cluster_clock().at(timezone.now().timestamp())


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One change of the shared state, as an agent applies it."""

    seq: int
    kind: str
    server_id: int
    allocation_id: int | None
    unit_ids: tuple[int, ...]
    vector: tuple[float, ...]
    caused: tuple[float, ...]


def changes_since(seq: int, *, limit: int = 10_000) -> list[LogEntry]:
    """Entries after ``seq`` in order; complete, because numbers are allotted in commit order."""
    rows = (
        Change.objects.filter(seq__gt=seq)
        .order_by("seq")
        .values_list("seq", "kind", "server_id", "allocation_id", "unit_ids", "vector", "caused")[
            :limit
        ]
    )
    return [
        LogEntry(s, kind, server, allocation, tuple(units), tuple(vector), tuple(caused))
        for s, kind, server, allocation, units, vector, caused in rows
    ]


def topology() -> Topology:
    """Servers and units as arrays, ordered by id."""
    servers = list(
        Server.objects.order_by("id").values_list(
            "id", "name", "platform_id", "rack_id", "memory_bytes", "network_bps",
            "storage_bytes", "labels",
        )
    )  # fmt: skip
    platforms = list(Platform.objects.order_by("rank").values_list("id", "name"))
    racks = list(Rack.objects.order_by("id").values_list("id", "name"))
    platform_index = {pk: i for i, (pk, _) in enumerate(platforms)}
    rack_index = {pk: i for i, (pk, _) in enumerate(racks)}
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT id, server_id, core FROM inventory_resourceunit ORDER BY server_id, core"
        )
        units = np.array(cursor.fetchall(), dtype=np.int64).reshape(-1, 3)
    server_id = np.array([row[0] for row in servers], dtype=np.int64)
    unit_server = np.searchsorted(server_id, units[:, 1]).astype(np.int32)
    server_units = np.bincount(unit_server, minlength=len(servers)).astype(np.int32)
    return Topology(
        unit_id=_frozen(units[:, 0].copy()),
        unit_server=_frozen(unit_server),
        unit_core=_frozen(units[:, 2].astype(np.int32)),
        server_id=_frozen(server_id),
        server_name=tuple(row[1] for row in servers),
        server_first_unit=_frozen(
            np.concatenate(([0], np.cumsum(server_units)[:-1])).astype(np.int32)
            if servers
            else np.zeros(0, np.int32)
        ),
        server_units=_frozen(server_units),
        server_platform=_frozen(np.array([platform_index[r[2]] for r in servers], np.int32)),
        server_rack=_frozen(np.array([rack_index[r[3]] for r in servers], np.int32)),
        server_capacity=_frozen(np.array([r[4:7] for r in servers], float).reshape(-1, 3)),
        server_labels=tuple(frozenset(f"{k}={v}" for k, v in r[7].items()) for r in servers),
        platform_name=tuple(name for _, name in platforms),
        rack_name=tuple(name for _, name in racks),
    )


def cluster_snapshot() -> Snapshot:
    """The shared state at one change-log number, read from the master copy. O(servers + units)."""
    with transaction.atomic():
        with connection.cursor() as cursor:
            cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            cursor.execute("SELECT coalesce(max(seq), 0) FROM inventory_change")
            (sequence,) = cursor.fetchone()
            shape = topology()
            cursor.execute(
                "SELECT allocation_id IS NULL FROM inventory_resourceunit ORDER BY server_id, core"
            )
            free = np.array([row[0] for row in cursor.fetchall()], dtype=np.bool_)
            cursor.execute(_SERVER_STATE)
            rows = cursor.fetchall()
    return Snapshot(
        sequence=sequence,
        topology=shape,
        unit_free=_frozen(free),
        server_open=_frozen(np.array([row[1] for row in rows], np.bool_)),
        server_caused=_frozen(
            np.array([row[5] for row in rows], np.float32).reshape(-1, N_SOURCES)
        ),
        server_free=_frozen(np.array([row[2:5] for row in rows], float).reshape(-1, 3)),
    )


_SERVER_STATE = f"""
SELECT id, state = '{ServerState.ACTIVE}', memory_bytes * oversubscription - used_memory_bytes,
       network_bps * oversubscription - used_network_bps,
       storage_bytes * oversubscription - used_storage_bytes, caused
FROM inventory_server ORDER BY id
"""


def closed_servers(*, silent_since: datetime) -> Sequence[int]:
    """Active servers whose last heartbeat is older than ``silent_since``."""
    return list(
        Server.objects.filter(state=ServerState.ACTIVE, reading__at__lt=silent_since)
        .order_by("id")
        .values_list("id", flat=True)
    )


def topology_version() -> int:
    """Change-log number of the last change of the servers themselves; 0 before any."""
    last = (
        Change.objects.filter(kind=ChangeKind.TOPOLOGY)
        .order_by("-seq")
        .values_list("seq", flat=True)
    )
    return last.first() or 0


def _frozen(array: Any) -> Any:
    array.setflags(write=False)
    return array
