"""Reads of the shared cluster state, as arrays for agents and rows for pages."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np
from django.db import connection
from django.db.models import Count, QuerySet, Sum
from django.db.models.functions import Coalesce
from django.utils import timezone

from apps.common.core.clock import ClusterClock
from apps.common.core.errors import FieldProblem
from apps.inventory.core.cluster_file import ClusterSpec
from apps.inventory.core.snapshot import Topology
from apps.inventory.models import (
    Change,
    ChangeKind,
    Cluster,
    Platform,
    Rack,
    ResourceUnit,
    Server,
    ServerReading,
)

CLOCK_UNSEEN_S: Final = 30.0  # wall seconds without a touch after which a clock has crashed


def cluster() -> Cluster:
    """Return the one cluster row; created on first use."""
    row, _ = Cluster.objects.get_or_create(id=1)
    return row


def cluster_clock() -> ClusterClock:
    """Return the clock by which cluster time is told now."""
    return cluster().clock


def is_live(row: Cluster, *, wall_s: float) -> bool:
    """Tell whether the clock runs and somebody has seen it lately; else its processes crashed.

    The emulator touches it every 2 s and the sweep every 5 s, so the wall time of the last touch
    follows from the cluster time it left.
    """
    seen_s = max(row.cluster_anchor_s, row.seen_cluster_s)
    return row.speed > 0 and wall_s - row.clock.wall(seen_s) <= CLOCK_UNSEEN_S


def last_change_s() -> float:
    """Cluster time of the latest entry of the change log; 0 before any."""
    last = Change.objects.order_by("-seq").values_list("cluster_s", flat=True).first()
    return last or 0.0


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


def known_servers(spec: ClusterSpec) -> dict[str, Server]:
    """Servers of a cluster file that are there already, by name."""
    names = [server.name for server in spec.servers]
    rows = Server.objects.filter(name__in=names).select_related("platform", "rack")
    return {row.name: row for row in rows}


def contradictions(spec: ClusterSpec) -> list[FieldProblem]:
    """Where a cluster file says otherwise than the inventory about what is there already.

    An import leaves that alone, so the file would not become true.
    """
    problems = []
    platforms = {row.name: row for row in Platform.objects.all()}
    for i, platform in enumerate(spec.platforms):
        if row := platforms.get(platform.name):
            problems += [
                _otherwise(f"/platforms/{i}/{key}", getattr(row, key), getattr(platform, key))
                for key in _FIGURES
                if getattr(row, key) != getattr(platform, key)
            ]
    known = known_servers(spec)
    for i, server in enumerate(spec.servers):
        if found := known.get(server.name):
            there = {"platform": found.platform.name, "rack": found.rack.name}
            problems += [
                _otherwise(f"/servers/{i}/{key}", value, getattr(server, key))
                for key, value in there.items()
                if getattr(server, key) != value
            ]
    return problems


_FIGURES: Final = (
    *("cores", "memory_bytes", "network_bps", "storage_bytes"),
    *("idle_watts", "peak_watts"),
)


def _otherwise(pointer: str, there: object, given: object) -> FieldProblem:
    detail = f"expected {there!r} as in the inventory (or a new name), got {given!r}"
    return FieldProblem(pointer, "otherwise", detail)


def silent_servers(*, silent_before: datetime) -> QuerySet[Server]:
    """Servers not heard of since ``silent_before`` while others of their backend speak.

    Where a whole backend is away, nobody knows how its servers are. One that never spoke is left
    out, as its backend may be starting.
    """
    speaking = ServerReading.objects.filter(at__gte=silent_before).values("backend")
    return Server.objects.filter(
        reading__at__lt=silent_before, reading__backend__in=speaking
    ).order_by("id")


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


# ---- rows for the API ----


def platforms() -> QuerySet[Platform]:
    """Platforms with the numbers of their servers, units and allocated units."""
    return Platform.objects.annotate(
        n_servers=Count("servers"),
        n_units=Coalesce(Sum("servers__cores"), 0),
        n_used=Coalesce(Sum("servers__used_cores"), 0),
    )


def servers() -> QuerySet[Server]:
    """Servers with platform, rack and latest reading."""
    return Server.objects.select_related("platform", "rack", "reading")


def server_by(key: str) -> Server | None:
    """Find a server by id or name; a name wins where a server is named like a number."""
    named = servers().filter(name=key).first()
    if named is None and key.isascii() and key.isdigit() and len(key) < 19:
        return servers().filter(pk=int(key)).first()
    return named


def server_names(ids: Iterable[int]) -> dict[int, str]:
    """Names of servers by id; those removed since are missing."""
    return dict(Server.objects.filter(pk__in=set(ids)).values_list("id", "name"))


def units() -> QuerySet[ResourceUnit]:
    """Resource units with their server."""
    return ResourceUnit.objects.select_related("server")


_LAYERS = {
    # layer: (what it shows, column or expression, factor of one byte)
    "cpu": ("cores in use, share", "r.cpu_share", 0.005),
    "memory": ("memory in use, share", "r.memory_share", 0.005),
    "network": ("network in use, share", "r.network_share", 0.005),
    "storage": ("storage in use, share", "r.storage_share", 0.005),
    "allocated": ("units allocated, share", "s.used_cores::float8 / s.cores", 0.005),
    "power": ("power over peak power, share", "r.watts / nullif(s.peak_watts, 0)", 0.005),
    "state": (
        "0 active, 1 cordoned, 2 draining, 3 down",
        "array_position(ARRAY['active', 'cordoned', 'draining', 'down'], s.state::text) - 1",
        1.0,
    ),
}
LAYERS = tuple(_LAYERS)


@dataclass(frozen=True, slots=True)
class Layer:
    """One number per server.

    Attributes
    ----------
    ids : server ids, ascending
    values : one byte per server; value = byte * scale, 255 = not known
    """

    description: str
    scale: float
    ids: tuple[int, ...]
    values: bytes


def map_layer(name: str) -> Layer:
    """One layer of the cluster map. Cost: one scan of the servers, a few ms for 6,000."""
    description, expression, scale = _LAYERS[name]
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT s.id, ({expression})::float8 FROM inventory_server s"  # noqa: S608 - ours
            " LEFT JOIN inventory_serverreading r ON r.server_id = s.id ORDER BY s.id"
        )
        rows = cursor.fetchall()
    numbers = np.array([np.nan if value is None else value for _, value in rows], dtype=float)
    steps = np.where(np.isnan(numbers), 255, np.clip(np.rint(numbers / scale), 0, 254))
    ids = tuple(row[0] for row in rows)
    return Layer(description, scale, ids, steps.astype(np.uint8).tobytes())


@dataclass(frozen=True, slots=True)
class ClusterTotals:
    """The cluster in a few numbers."""

    servers_by_state: dict[str, int]
    units: int
    units_allocated: int
    cpu_share: float | None
    watts: float


def cluster_totals() -> ClusterTotals:
    """Numbers of the whole cluster, from one scan of the servers."""
    with connection.cursor() as cursor:
        cursor.execute(_TOTALS)
        rows = cursor.fetchall()
    cores = sum(row[2] for row in rows)
    known = [row for row in rows if row[4] is not None]
    return ClusterTotals(
        servers_by_state={row[0]: row[1] for row in rows},
        units=cores,
        units_allocated=sum(row[3] for row in rows),
        cpu_share=sum(row[4] for row in known) / cores if known and cores else None,
        watts=sum(row[5] or 0.0 for row in rows),
    )


_TOTALS = """
SELECT s.state, count(*), sum(s.cores)::bigint, sum(s.used_cores)::bigint,
       sum(r.cpu_share * s.cores), sum(r.watts)
FROM inventory_server s LEFT JOIN inventory_serverreading r ON r.server_id = s.id
GROUP BY s.state ORDER BY s.state
"""
