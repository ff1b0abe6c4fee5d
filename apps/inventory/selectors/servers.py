"""Servers, platforms and units: as arrays for agents, and as rows for the API."""

from collections.abc import Collection, Iterable, Mapping
from datetime import datetime

import numpy as np
from django.db.models import Count, Q, QuerySet, Sum
from django.db.models.functions import Coalesce

from apps.common.core.arrays import as_readonly
from apps.common.infrastructure.database import fetch_rows
from apps.inventory.core.backends import AGENT, EMULATED, Capability, backends_with
from apps.inventory.core.snapshot import Topology
from apps.inventory.models import Platform, Rack, ResourceUnit, Server, ServerReading


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


def silent_servers(*, silent_before: datetime) -> QuerySet[Server]:
    """Servers without a report since ``silent_before`` while others of their backend report.

    If a whole backend is silent, the state of its servers is unknown, unless each server reports
    for itself. Servers that have never reported are left out, as their backend may be starting.
    """
    reporting = ServerReading.objects.filter(at__gte=silent_before).values("backend")
    return Server.objects.filter(
        Q(reading__backend__in=reporting) | Q(backend=AGENT), reading__at__lt=silent_before
    ).order_by("id")


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


def constraint_warnings(
    platforms: Collection[str], labels: Mapping[str, str], excluded: Collection[str]
) -> list[str]:
    """Return a sentence for each platform, label and excluded server that no server has."""
    servers = Server.objects
    of = set(servers.filter(platform__name__in=platforms).values_list("platform__name", flat=True))
    named = set(servers.filter(name__in=excluded).values_list("name", flat=True))
    return [
        *(f"No server has the platform {name!r}." for name in platforms if name not in of),
        *(
            f"No server has the label {key}={value}."
            for key, value in labels.items()
            if not servers.filter(labels__contains={key: value}).exists()
        ),
        *(f"There is no server {name!r} to exclude." for name in excluded if name not in named),
    ]


def units() -> QuerySet[ResourceUnit]:
    """Resource units with their server."""
    return ResourceUnit.objects.select_related("server")
