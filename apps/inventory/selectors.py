"""Reads of the shared cluster state, as arrays for agents and rows for pages."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import numpy as np
from django.db.models import Count, Q, QuerySet, Sum
from django.db.models.functions import Coalesce

from apps.common.core.arrays import as_readonly
from apps.common.core.errors import FieldProblem
from apps.common.infrastructure.database import (
    database_now,
    fetch_columns,
    fetch_prepared,
    fetch_rows,
)
from apps.common.infrastructure.log_numbers import Log, complete_up_to
from apps.inventory.core.backends import AGENT, EMULATED, Capability, backends_with
from apps.inventory.core.cluster_file import ClusterSpec
from apps.inventory.core.snapshot import Topology
from apps.inventory.core.usage import SILENT_S, ServerUsage, UsageTotals, usage_totals
from apps.inventory.models import (
    CLOCK_UNSEEN_S,
    Change,
    ChangeKind,
    Cluster,
    DefaultPolicy,
    Platform,
    Rack,
    ResourceUnit,
    Server,
    ServerReading,
    ServerState,
)
from apps.operations.models import Event


def cluster() -> Cluster:
    """Return the one cluster row; created on first use."""
    row, _ = Cluster.objects.get_or_create(id=1)
    return row


def applied_policy() -> DefaultPolicy:
    """Return the policy that an administrator applied; one that is empty before the first."""
    found = DefaultPolicy.objects.select_related("changed_by").filter(pk=1).first()
    return found or DefaultPolicy()


def applied_policy_name() -> str:
    """Return the name of `applied_policy`, empty before the first; agents read it in each turn."""
    rows = fetch_prepared("SELECT policy FROM inventory_defaultpolicy WHERE id = 1", ())
    return str(rows[0][0]) if rows else ""


def lock_applied_policy() -> DefaultPolicy:
    """Lock the row of the applied policy; created on first use."""
    DefaultPolicy.objects.get_or_create(pk=1)
    return DefaultPolicy.objects.select_for_update().get(pk=1)


STEP_EVENT: Final = "cluster.clock_stepped"


@dataclass(frozen=True, slots=True)
class ClockStep:
    """A step of the wall clock: when, and by how many seconds; below 0 = back."""

    at: datetime
    seconds: float

    @property
    def size_s(self) -> float:
        """How far it stepped, in either direction."""
        return abs(self.seconds)


def last_clock_step() -> ClockStep | None:
    """Return the last step of the wall clock; None if there is none in the event log."""
    event = Event.objects.filter(kind=STEP_EVENT).order_by("-seq").first()
    return ClockStep(event.at, event.data["step_s"]) if event is not None else None


def lock_cluster() -> Cluster:
    """Lock the one cluster row and return it."""
    cluster()
    return Cluster.objects.select_for_update().get(id=1)


@dataclass(frozen=True, slots=True)
class ClusterTime:
    """Wall time and cluster time at one moment.

    Attributes
    ----------
    at : wall time of the database
    speed : cluster seconds per wall second; 0 = stopped
    """

    at: datetime
    cluster_s: float
    speed: float


def cluster_time() -> ClusterTime:
    """Read the wall time of the database and the cluster time.

    Cluster time stays within `CLOCK_UNSEEN_S` wall seconds of its last record: the wall clock may
    step, and `services.save_clock` then reports the step.
    """
    rows = fetch_prepared(_TIME, [])
    if not rows:
        cluster()
        rows = fetch_prepared(_TIME, [])
    at, *clock = rows[0]
    row = Cluster(**dict(zip(_CLOCK, clock, strict=True)))
    return ClusterTime(at, row.clock.at(at.timestamp()), row.speed)


_CLOCK: Final = ("wall_anchor_s", "cluster_anchor_s", "speed", "seen_cluster_s")
_TIME: Final = f"SELECT clock_timestamp(), {', '.join(_CLOCK)} FROM inventory_cluster WHERE id = 1"  # noqa: S608 - constants


def is_live(row: Cluster, *, wall_s: float) -> bool:
    """Whether the clock runs and was recorded recently; otherwise its processes have crashed.

    The emulator records it every 2 s and the sweep every 5 s. The wall time of the last record
    follows from the recorded cluster time.
    """
    return row.speed > 0 and wall_s - row.clock.wall(row.recorded_s) <= CLOCK_UNSEEN_S


def last_change_s() -> float:
    """Cluster time of the latest entry of the change log; 0 before any."""
    last = Change.objects.order_by("-seq").values_list("cluster_s", flat=True).first()
    return last or 0.0


def cluster_now() -> float:
    """Cluster time in seconds at this moment."""
    return cluster_time().cluster_s


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One change of the shared state, for the copies of agents."""

    seq: int
    kind: str
    server_id: int
    allocation_id: int | None
    unit_ids: tuple[int, ...]
    vector: tuple[float, ...]
    caused: tuple[float, ...]
    tolerated: tuple[float, ...]


def log_position(known: int = 0) -> int:
    """Return a change-log number, at least ``known``, up to which no further entry can appear.

    Read it before the rows that it is the version of, in a transaction of its own: later entries
    may already be in these rows, and are applied again.
    """
    newest = newest_change()
    return known if newest <= known else max(known, complete_up_to(Log.CHANGES, newest))


def newest_change() -> int:
    """Return the highest number of the change log; lower ones may still appear."""
    ((newest,),) = fetch_prepared("SELECT coalesce(max(seq), 0) FROM inventory_change", ())
    return int(newest)


def changes_since(seq: int, *, limit: int = 10_000, until: int | None = None) -> list[LogEntry]:
    """Entries after ``seq`` in order; no lower number appears later.

    Parameters
    ----------
    until : a number that `log_position` has returned before; None = its present value
    """
    last = log_position(seq) if until is None else until
    if last <= seq:
        return []
    rows = fetch_prepared(_CHANGES, [seq, last, limit])
    return [
        LogEntry(seq, kind, server, allocation, *(tuple(array) for array in arrays))
        for seq, kind, server, allocation, *arrays in rows
    ]


_CHANGES: Final = """
SELECT seq, kind, server_id, allocation_id, unit_ids, vector, caused, tolerated
FROM inventory_change WHERE seq > %s AND seq <= %s ORDER BY seq LIMIT %s
"""


def topology(*, backend: str | None = None) -> Topology:
    """Servers and units as arrays, ordered by id; of one backend, or of all."""
    servers = list(
        Server.objects.filter(**({} if backend is None else {"backend": backend}))
        .order_by("id")
        .values_list(
            "id", "name", "platform_id", "rack_id", "memory_bytes", "network_bps",
            "storage_bytes", "labels", "backend",
        )
    )  # fmt: skip
    backends = dict(Server.objects.values_list("platform_id", "backend").distinct())
    platforms = [
        (key, name)
        for key, name in Platform.objects.order_by("rank").values_list("id", "name")
        if backend in {None, backends.get(key, EMULATED)}
    ]
    racks = list(Rack.objects.order_by("id").values_list("id", "name", "switch"))
    platform_index = {pk: i for i, (pk, _) in enumerate(platforms)}
    rack_index = {pk: i for i, (pk, _, _) in enumerate(racks)}
    rows = fetch_rows(
        """SELECT id, server_id, core FROM inventory_resourceunit
           WHERE %s OR server_id = ANY(%s) ORDER BY server_id, core""",
        [backend is None, [] if backend is None else [row[0] for row in servers]],
    )
    units = np.array(rows, dtype=np.int64).reshape(-1, 3)
    server_id = np.array([row[0] for row in servers], dtype=np.int64)
    unit_server = np.searchsorted(server_id, units[:, 1]).astype(np.int32)
    server_units = np.bincount(unit_server, minlength=len(servers)).astype(np.int32)
    return Topology(
        unit_id=as_readonly(units[:, 0].copy()),
        unit_server=as_readonly(unit_server),
        unit_core=as_readonly(units[:, 2].astype(np.int32)),
        server_id=as_readonly(server_id),
        server_name=tuple(row[1] for row in servers),
        server_first_unit=as_readonly(
            np.concatenate(([0], np.cumsum(server_units)[:-1])).astype(np.int32)
            if servers
            else np.zeros(0, np.int32)
        ),
        server_units=as_readonly(server_units),
        server_platform=as_readonly(np.array([platform_index[r[2]] for r in servers], np.int32)),
        server_rack=as_readonly(np.array([rack_index[r[3]] for r in servers], np.int32)),
        server_capacity=as_readonly(np.array([r[4:7] for r in servers], float).reshape(-1, 3)),
        server_labels=tuple(frozenset(f"{k}={v}" for k, v in r[7].items()) for r in servers),
        platform_name=tuple(name for _, name in platforms),
        rack_name=tuple(name for _, name, _ in racks),
        rack_switch=tuple(switch for _, _, switch in racks),
        platform_backend=tuple(backends.get(key, EMULATED) for key, _ in platforms),
    )


def has_servers_with(capability: Capability) -> bool:
    """Return True if a server belongs to a backend with a capability."""
    return Server.objects.filter(backend__in=backends_with(capability)).exists()


def known_servers(spec: ClusterSpec) -> dict[str, Server]:
    """Existing servers of a cluster file, by name."""
    names = [server.name for server in spec.servers]
    rows = Server.objects.filter(name__in=names).select_related("platform", "rack")
    return {row.name: row for row in rows}


def contradictions(spec: ClusterSpec) -> list[FieldProblem]:
    """Fields of a cluster file that contradict existing platforms and servers.

    An import does not change existing ones, so the inventory would differ from the file.
    """
    problems = []
    platforms = {row.name: row for row in Platform.objects.all()}
    for i, platform in enumerate(spec.platforms):
        if row := platforms.get(platform.name):
            problems += [
                _contradiction(f"/platforms/{i}/{key}", getattr(row, key), getattr(platform, key))
                for key in _FIGURES
                if getattr(row, key) != getattr(platform, key)
            ]
    known = known_servers(spec)
    for i, server in enumerate(spec.servers):
        if existing := known.get(server.name):
            present = {"platform": existing.platform.name, "rack": existing.rack.name}
            problems += [
                _contradiction(f"/servers/{i}/{key}", value, getattr(server, key))
                for key, value in present.items()
                if getattr(server, key) != value
            ]
    return problems


_FIGURES: Final = (
    *("cores", "memory_bytes", "network_bps", "storage_bytes"),
    *("idle_watts", "peak_watts"),
)


def _contradiction(pointer: str, present: object, given: object) -> FieldProblem:
    detail = f"expected {present!r} as in the inventory (or a new name), got {given!r}"
    return FieldProblem(pointer, "otherwise", detail)


def silent_servers(*, silent_before: datetime) -> QuerySet[Server]:
    """Servers without a report since ``silent_before`` while others of their backend report.

    If a whole backend is silent, the state of its servers is unknown, unless each server reports
    for itself. Servers that have never reported are left out, as their backend may be starting.
    """
    reporting = ServerReading.objects.filter(at__gte=silent_before).values("backend")
    return Server.objects.filter(
        Q(reading__backend__in=reporting) | Q(backend=AGENT), reading__at__lt=silent_before
    ).order_by("id")


def topology_version() -> int:
    """Change-log number of the last complete change of the servers themselves; 0 before any."""
    last = (
        Change.objects.filter(kind=ChangeKind.TOPOLOGY, seq__lte=log_position())
        .order_by("-seq")
        .values_list("seq", flat=True)
    )
    return last.first() or 0


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
    """Find a server by name or id; the name has precedence if it is a number."""
    named = servers().filter(name=key).first()
    if named is None and key.isascii() and key.isdigit() and len(key) < 19:
        return servers().filter(pk=int(key)).first()
    return named


def server_names(ids: Iterable[int]) -> dict[int, str]:
    """Names of servers by id; removed servers are missing."""
    return dict(Server.objects.filter(pk__in=set(ids)).values_list("id", "name"))


def units() -> QuerySet[ResourceUnit]:
    """Resource units with their server."""
    return ResourceUnit.objects.select_related("server")


_LAYERS = {
    # layer: (description, column or expression, value of one byte step)
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
    rows = fetch_rows(
        f"SELECT s.id, ({expression})::float8 FROM inventory_server s"  # noqa: S608 - ours
        " LEFT JOIN inventory_serverreading r ON r.server_id = s.id AND r.at >= %s"
        " AND s.state <> 'down' ORDER BY s.id",
        [database_now() - timedelta(seconds=SILENT_S)],
    )
    numbers = np.array([np.nan if value is None else value for _, value in rows], dtype=float)
    steps = np.where(np.isnan(numbers), 255, np.clip(np.rint(numbers / scale), 0, 254))
    ids = tuple(row[0] for row in rows)
    return Layer(description, scale, ids, steps.astype(np.uint8).tobytes())


def server_usage(*, now: datetime) -> ServerUsage:
    """Return the use of all servers. Cost: one scan of the servers, 1 ms for 1,000."""
    states = ServerState.values
    since = now - timedelta(seconds=SILENT_S)
    ids, platforms, racks, places, *numbers = fetch_columns(_USAGE, [states, since], columns=9)
    names = tuple(states[place - 1] for place in places.tolist())
    return ServerUsage(ids, platforms, racks, names, *numbers)


_USAGE: Final = """
SELECT s.id, s.platform_id, s.rack_id, array_position(%s::text[], s.state::text),
       s.cores::float8, s.used_cores::float8, coalesce(r.cpu_share, 'NaN'),
       coalesce(r.memory_share, 'NaN'), coalesce(r.watts, 'NaN')
FROM inventory_server s
LEFT JOIN inventory_serverreading r ON r.server_id = s.id AND r.at >= %s AND s.state <> 'down'
ORDER BY s.id
"""


@dataclass(frozen=True, slots=True)
class ClusterTotals:
    """The cluster as a whole: servers by state, and their use."""

    servers_by_state: dict[str, int]
    usage: UsageTotals


def cluster_totals(*, now: datetime | None = None) -> ClusterTotals:
    """Return the totals of the cluster, from one scan of the servers."""
    usage = server_usage(now=now or database_now())
    return ClusterTotals(dict(sorted(Counter(usage.states).items())), usage_totals(usage))
