"""Writes of servers, their state, readings, frames and the change log."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import itemgetter
from typing import Any, Final, NamedTuple

from django.db import connection, transaction
from django.db.models import Max

from apps.accounts.services import Act, record_act
from apps.common.core.errors import ConflictError, NotFoundError
from apps.common.infrastructure.database import copy_rows, fetch_rows, number_array
from apps.common.infrastructure.log_numbers import Log, draw_numbers
from apps.inventory import selectors
from apps.inventory.core.cluster_file import ClusterSpec
from apps.inventory.models import (
    Change,
    ChangeKind,
    ClusterFrame,
    Platform,
    Rack,
    ResourceUnit,
    Server,
    ServerState,
)

PRUNE_BATCH: Final = 10_000  # entries per statement
NO_SERVER: Final = 0  # in the change log: only the switches above racks have changed

_DELETE_OLD_CHANGES: Final = """
WITH old AS (
    SELECT seq FROM (
        SELECT seq, at FROM inventory_change WHERE kind NOT IN ('topology', 'pruned')
        ORDER BY seq LIMIT %s) oldest
    WHERE at < %s AND seq < (SELECT max(seq) FROM inventory_change)),
marked AS (
    UPDATE inventory_change SET kind = 'pruned' WHERE seq = (SELECT max(seq) FROM old)),
deleted AS (
    DELETE FROM inventory_change
    WHERE seq < (SELECT max(seq) FROM old)
      AND (kind = 'pruned' OR seq IN (SELECT seq FROM old)))
SELECT count(*) FROM old
"""


@dataclass(frozen=True, slots=True)
class NewChange:
    """A change to append to the change log."""

    kind: ChangeKind
    server_id: int
    allocation_id: int | None = None
    unit_ids: Sequence[int] = field(default_factory=list)
    vector: Sequence[float] = field(default_factory=list)
    caused: Sequence[float] = field(default_factory=list)
    tolerated: Sequence[float] = field(default_factory=list)


def prune_changes(*, before: datetime | None) -> int:
    """Delete one batch of old entries of the change log; returns its size. None: delete nothing.

    The last entry stays, as it marks the end of the log, and so do changes of the topology, whose
    numbers are the versions of arrays of servers. The newest old entry stays with another kind: a
    copy that fell behind the log finds it there, and is read again from the tables
    (`scheduling.selectors.ClusterFollower`).
    """
    if before is None:
        return 0
    ((count,),) = fetch_rows(_DELETE_OLD_CHANGES, [PRUNE_BATCH, before])
    return int(count)


def append_changes(changes: Sequence[NewChange], *, at: datetime, cluster_s: float) -> list[int]:
    """Insert changes under new numbers, in the caller's transaction, after all its row locks."""
    if not changes:
        return []
    numbers = draw_numbers(Log.CHANGES, len(changes))
    copy_rows(
        Change._meta.db_table,
        (
            *("seq", "kind", "at", "cluster_s", "server_id", "allocation_id"),
            *("unit_ids", "vector", "caused", "tolerated"),
        ),
        (
            (
                *(seq, str(c.kind), at, cluster_s, c.server_id, c.allocation_id),
                *map(number_array, (c.unit_ids, c.vector, c.caused, c.tolerated)),
            )
            for seq, c in zip(numbers, changes, strict=True)
        ),
    )
    return numbers


def import_cluster(spec: ClusterSpec) -> int:
    """Import a cluster file in one transaction; returns the number of servers added.

    Servers whose name exists are not changed, so importing twice is harmless. The switches of
    racks are those of the file.
    """
    with transaction.atomic():
        row = selectors.lock_cluster()
        row.name = spec.name or row.name
        row.save(update_fields=["name"])
        _add_platforms(spec)
        racks = sorted({server.rack for server in spec.servers})
        Rack.objects.bulk_create([Rack(name=name) for name in racks], ignore_conflicts=True)
        moved = _set_switches(spec)
        platforms = {p.name: p for p in Platform.objects.all()}
        rack_ids = dict(Rack.objects.values_list("name", "id"))
        known = set(Server.objects.values_list("name", flat=True))
        servers = [
            _server(platforms[s.platform], rack_ids[s.rack], s.name, dict(s.labels))
            for s in spec.servers
            if s.name not in known
        ]
        Server.objects.bulk_create(servers, batch_size=2000)
        copy_rows(
            ResourceUnit._meta.db_table,
            ["server_id", "core", "version"],
            ((server.id, core, 0) for server in servers for core in range(server.cores)),
        )
        if servers or moved:
            record_act(Act("cluster.imported", "1", row.name, after=_added(servers, moved)))
            changed = [server.pk for server in servers[:1]]
            if not servers and Server.objects.filter(rack__name__in=moved).exists():
                changed = [NO_SERVER]
            now = selectors.cluster_time()
            append_changes(
                [NewChange(ChangeKind.TOPOLOGY, key) for key in changed],
                at=now.at,
                cluster_s=now.cluster_s,
            )
    return len(servers)


def _set_switches(spec: ClusterSpec) -> list[str]:
    """Set the switches of racks; returns the names of the racks that had another one."""
    switch = {rack.name: rack.switch for rack in spec.racks}
    racks = Rack.objects.filter(name__in=switch).order_by("id")
    moved = [rack for rack in racks if rack.switch != switch[rack.name]]
    for rack in moved:
        rack.switch = switch[rack.name]
    Rack.objects.bulk_update(moved, ["switch"])
    return [rack.name for rack in moved]


def _added(servers: Sequence[Server], moved: Sequence[str]) -> dict[str, Any]:
    after: dict[str, Any] = {"servers": len(servers)}
    if servers:
        after |= {"first": servers[0].name, "last": servers[-1].name}
        after["labels"] = sorted({name for server in servers for name in server.labels})
    return after | ({"racks": moved} if moved else {})


def _add_platforms(spec: ClusterSpec) -> None:
    known = set(Platform.objects.values_list("name", flat=True))
    last = Platform.objects.aggregate(last=Max("rank"))["last"]
    first = 0 if last is None else last + 1
    new = [platform for platform in spec.platforms if platform.name not in known]
    Platform.objects.bulk_create(
        Platform(
            name=p.name, cores=p.cores, memory_bytes=p.memory_bytes, network_bps=p.network_bps,
            storage_bytes=p.storage_bytes, idle_watts=p.idle_watts, peak_watts=p.peak_watts,
            rank=first + i,
        )
        for i, p in enumerate(new)
    )  # fmt: skip


def _server(platform: Platform, rack_id: int, name: str, labels: dict[str, str]) -> Server:
    return Server(
        name=name, platform=platform, rack_id=rack_id, labels=labels, cores=platform.cores,
        memory_bytes=platform.memory_bytes, network_bps=platform.network_bps,
        storage_bytes=platform.storage_bytes, idle_watts=platform.idle_watts,
        peak_watts=platform.peak_watts,
    )  # fmt: skip


def set_server_state(
    *,
    server_id: int,
    state: ServerState,
    expected_generation: int | None = None,
    only_from: ServerState | None = None,
) -> Server:
    """Change the state of a server; agents read the change from the change log.

    Parameters
    ----------
    only_from : do nothing if the server is in another state than this one

    Raises
    ------
    NotFoundError : no such server.
    ConflictError : the server has changed since ``expected_generation``.
    """
    with transaction.atomic():
        server = Server.objects.select_for_update().filter(id=server_id).first()
        if server is None:
            msg = f"there is no server {server_id}"
            raise NotFoundError(msg)
        if expected_generation is not None and server.generation != expected_generation:
            msg = (
                f"server {server.name} is at generation {server.generation},"
                f" not {expected_generation}"
            )
            raise ConflictError(msg)
        if server.state == state or only_from not in {None, server.state}:
            return server
        before, server.state = server.state, state
        server.generation += 1
        server.save(update_fields=["state", "generation", "updated_at"])
        if only_from is None:
            _record_server_state(server, str(before))
        now = selectors.cluster_time()
        kind = ChangeKind.OPEN if state == ServerState.ACTIVE else ChangeKind.CLOSE
        append_changes(
            [NewChange(kind, server.id)],
            at=now.at,
            cluster_s=now.cluster_s,
        )
    return server


def _record_server_state(server: Server, before: str) -> None:
    after = {"state": str(server.state)}
    record_act(Act("server.state_changed", str(server.pk), server.name, {"state": before}, after))


class ServerReport(NamedTuple):
    """Resource usage of one server: shares 0-1, power in watts."""

    server_id: int
    cpu_share: float
    memory_share: float
    network_share: float
    storage_share: float
    watts: float


_UPSERT_READINGS = """
INSERT INTO inventory_serverreading
    (server_id, at, cluster_s, cpu_share, memory_share, network_share, storage_share, watts,
     backend)
SELECT s, %s, %s, c, m, n, st, w, %s
FROM unnest(%s::bigint[], %s::float8[], %s::float8[], %s::float8[], %s::float8[], %s::float8[])
     AS t(s, c, m, n, st, w)
ON CONFLICT (server_id) DO UPDATE SET at = excluded.at, cluster_s = excluded.cluster_s,
    cpu_share = excluded.cpu_share, memory_share = excluded.memory_share,
    network_share = excluded.network_share, storage_share = excluded.storage_share,
    watts = excluded.watts, backend = excluded.backend
"""


def record_readings(
    readings: Iterable[ServerReport], *, backend: str, at: datetime, cluster_s: float
) -> None:
    """Store the latest usage of many servers in one statement; each is also a heartbeat."""
    columns = zip(*sorted(readings, key=itemgetter(0)), strict=True)
    arrays = [number_array(column) for column in columns] or ["{}"] * len(ServerReport._fields)
    with connection.cursor() as cursor:
        cursor.execute(_UPSERT_READINGS, [at, cluster_s, backend, *arrays])


def mark_silent_servers(*, silent_before: datetime) -> tuple[int, int]:
    """Mark silent active servers as down and reporting servers as active again.

    Returns the numbers of both. Cordoned and draining servers take no work anyway; they keep their
    state, which would otherwise be lost when they report again.
    """
    silent = selectors.silent_servers(silent_before=silent_before)
    down = list(silent.filter(state=ServerState.ACTIVE).values_list("id", flat=True))
    up = list(
        Server.objects.filter(state=ServerState.DOWN, reading__at__gte=silent_before)
        .order_by("id")
        .values_list("id", flat=True)
    )
    for server_id in down:
        with transaction.atomic():
            # it may have reported since it was read: check again under the lock
            list(Server.objects.select_for_update().filter(id=server_id).values_list("id"))
            if silent.filter(id=server_id).exists():
                set_server_state(
                    server_id=server_id, state=ServerState.DOWN, only_from=ServerState.ACTIVE
                )
    for server_id in up:
        set_server_state(server_id=server_id, state=ServerState.ACTIVE, only_from=ServerState.DOWN)
    return len(down), len(up)


def record_frames(frames: Sequence[ClusterFrame]) -> None:
    """Store frames; a second one of the same cluster time is ignored."""
    ClusterFrame.objects.bulk_create(frames, batch_size=100, ignore_conflicts=True)
