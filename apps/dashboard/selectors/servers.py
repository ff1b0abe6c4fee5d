"""Data of the cluster map and of a server's page."""

import base64
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

import numpy as np
from django.db.models import F, QuerySet
from django.http import Http404
from numpy.typing import NDArray

from apps.classification.models import Profile
from apps.common.core.interference import N_SOURCES, SOURCES
from apps.common.infrastructure.database import fetch_rows
from apps.dashboard.core import labels
from apps.dashboard.core.ranges import TimeRange
from apps.dashboard.figures.pressure import Pressure
from apps.dashboard.figures.server_history import ServerHistory
from apps.dashboard.selectors.explanation import candidate_facts
from apps.dashboard.selectors.frames import server_shares
from apps.execution.models import ServerAgent
from apps.inventory.core.usage import UsageTotals, totals_by, usage_totals
from apps.inventory.models import Platform, Rack, ResourceUnit, Server, ServerState
from apps.inventory.selectors import server_usage
from apps.scheduling.core.records.verdicts import VERDICTS
from apps.scheduling.core.types import Verdict
from apps.scheduling.models import Allocation, Decision
from apps.workloads.models import Job

STATES = (ServerState.ACTIVE, ServerState.CORDONED, ServerState.DRAINING, ServerState.DOWN)
UNKNOWN = 255
CONSIDERED = 400
Floats = NDArray[np.float64]


def map_layout() -> dict[str, Any]:
    """Return the static part of the map: names, platforms, racks and cores, by server id."""
    platforms = list(Platform.objects.order_by("rank").values_list("id", "name"))
    racks = list(Rack.objects.order_by("id").values_list("id", "name"))
    platform_at = {pk: i for i, (pk, _) in enumerate(platforms)}
    rack_at = {pk: i for i, (pk, _) in enumerate(racks)}
    rows = list(
        Server.objects.order_by("id").values_list("id", "name", "platform_id", "rack_id", "cores")
    )
    return {
        "ids": [row[0] for row in rows],
        "names": [row[1] for row in rows],
        "platform": [platform_at[row[2]] for row in rows],
        "rack": [rack_at[row[3]] for row in rows],
        "cores": [row[4] for row in rows],
        "platforms": [name for _, name in platforms],
        "racks": [name for _, name in racks],
        "sources": [{"key": key, "name": labels.SOURCE_NAMES[key]} for key in SOURCES],
        "states": [str(state.value) for state in STATES],
    }


_AGES = """
SELECT s.id, extract(epoch FROM %s - r.at)::float8
FROM inventory_server s LEFT JOIN inventory_serverreading r ON r.server_id = s.id ORDER BY s.id
"""


def map_state(*, now: datetime) -> dict[str, Any]:
    """Return the changing part of the map: one byte per server and layer, in base64.

    0-200 are half percents or half points, 255 is unknown. ``age`` is the seconds since the
    heartbeat, at most 250; ``state`` is an index; ``pressure`` has ten layers. ``usage`` holds the
    shares of the cluster, of each platform and of each rack, in the order of the layout.
    """
    usage = server_usage(now=now)
    age_s = dict(fetch_rows(_AGES, [now]))
    cpu = _bytes((200 * usage.cpu).tolist(), limit=200)
    allocated = _bytes((200 * usage.allocated / usage.cores).tolist(), limit=200)
    age = _bytes([age_s.get(pk) for pk in usage.ids.tolist()], limit=250)
    order = {str(state.value): i for i, state in enumerate(STATES)}
    state = bytes(order[value] for value in usage.states)
    units = usage.cores[:, None]
    caused = _caused_by_server(usage.ids.tolist())
    platforms = list(Platform.objects.order_by("rank").values_list("id", flat=True))
    racks = list(Rack.objects.order_by("id").values_list("id", flat=True))
    shared = np.where(units > 1, caused / np.maximum(units - 1, 1), 0.0)  # Tarcil Eq. 3
    pressure = np.clip(2 * shared, 0, 200).astype(np.uint8)
    return {
        "cpu": _text(cpu),
        "allocated": _text(allocated),
        "age": _text(age),
        "state": _text(state),
        "usage": {
            "all": _shares(usage_totals(usage)),
            "platform": [_shares(row) for row in totals_by(usage, usage.platforms, platforms)],
            "rack": [_shares(row) for row in totals_by(usage, usage.racks, racks)],
        },
        "pressure": [
            _text(np.ascontiguousarray(pressure[:, i]).tobytes()) for i in range(N_SOURCES)
        ],
    }


def _shares(totals: UsageTotals) -> dict[str, float | None]:
    shares = {"cpu": totals.cpu_share, "allocated": totals.allocated_share}
    return {name: None if np.isnan(share) else share for name, share in shares.items()}


def _caused_by_server(ids: Sequence[int]) -> Floats:
    """(S, 10) sum of the pressure caused by the busy units of each server."""
    rows = list(
        Allocation.objects.filter(released_seq__isnull=True).values_list(
            "server_id", "cores", "caused"
        )
    )
    total = np.zeros((len(ids), N_SOURCES))
    if not rows:
        return total
    places = np.searchsorted(np.array(ids), np.array([row[0] for row in rows]))
    scores = np.array([row[2] for row in rows], dtype=float).reshape(-1, N_SOURCES)
    cores = np.array([row[1] for row in rows], dtype=float)[:, None]
    np.add.at(total, np.minimum(places, len(ids) - 1), scores * cores)
    return total


def _bytes(values: Sequence[float | None], *, limit: int) -> bytes:
    numbers = np.array([np.nan if v is None else v for v in values], dtype=float)
    known = np.clip(np.nan_to_num(numbers), 0, limit).round()
    return bytes(np.where(np.isnan(numbers), UNKNOWN, known).astype(np.uint8).tobytes())


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode("ascii")


def server_by_name(name: str) -> Server:
    """Return one server with its platform, rack and last reading.

    Raises
    ------
    Http404 : there is no such server.
    """
    server = Server.objects.select_related("platform", "rack", "reading").filter(name=name).first()
    if server is None:
        raise Http404(f"there is no server called {name!r}")
    return server


@dataclass(frozen=True, slots=True)
class Tenant:
    """One job on a server; ``job`` is None if the user may not see it."""

    job: Job | None
    application_id: UUID
    cores: tuple[int, ...]
    colour: int  # of the chart palette; 0 = grey
    since_s: float
    caused: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Core:
    """One resource unit of a server."""

    number: int
    tenant: Tenant | None
    l3_group: int | None = None  # None: the server has one


@dataclass(frozen=True, slots=True)
class Tenancy:
    """Allocation of the cores of a server."""

    cores: tuple[Core, ...]
    tenants: tuple[Tenant, ...]


PALETTE = (1, 3, 4, 5)


def tenancy(server: Server, visible: QuerySet[Job]) -> Tenancy:
    """Return cores with their tenants; three statements for any size of server."""
    units = list(
        ResourceUnit.objects.filter(server=server)
        .order_by("core")
        .values_list("core", "allocation_id")
    )
    held = {allocation for _, allocation in units if allocation is not None}
    rows = list(
        Allocation.objects.filter(id__in=held)
        .annotate(application_id=F("job__application_id"))
        .order_by("acquired_seq")
    )
    jobs = visible.in_bulk([row.job_id for row in rows])
    tenants: dict[int, Tenant] = {}
    for i, row in enumerate(rows):
        tenants[row.id] = Tenant(
            job=jobs.get(row.job_id),
            application_id=row.application_id,
            cores=tuple(core for core, allocation in units if allocation == row.id),
            colour=PALETTE[i] if i < len(PALETTE) else 0,
            since_s=row.acquired_s,
            caused=tuple(row.caused),
        )
    return Tenancy(
        cores=tuple(
            Core(core, tenants.get(allocation or -1), server.l3_groups[core])
            if server.l3_groups
            else Core(core, tenants.get(allocation or -1))
            for core, allocation in units
        ),
        tenants=tuple(tenants.values()),
    )


def l3_caches(server: Server) -> str:
    """Return the number of L3 caches of a server; "" if it has one, or it is not known."""
    if not server.l3_groups:
        return ""
    agent = ServerAgent.objects.filter(server=server).first()
    note = agent.facts.get("l3_groups", "") if agent is not None else ""
    count = str(max(server.l3_groups) + 1)
    return f"{count} ({note})" if note else count


def pressure(name: str, visible: QuerySet[Job]) -> Pressure:
    """Return caused and tolerated pressure of the ten resources on one server."""
    server = server_by_name(name)
    here = tenancy(server, visible)
    total = sum(
        (len(tenant.cores) * np.array(tenant.caused, dtype=float) for tenant in here.tenants),
        np.zeros(N_SOURCES),
    )
    mean = total / (server.cores - 1) if server.cores > 1 else 0 * total  # Tarcil Eq. 3
    tolerated, strictest = _tolerated(here)
    return Pressure(
        caused=np.clip(mean, 0, 100),
        tolerated=tolerated,
        strictest=strictest,
        server=server.name,
        tenants=len(here.tenants),
    )


def _tolerated(here: Tenancy) -> tuple[Floats, tuple[str, ...]]:
    """Return the lowest tolerance per resource and the name of its tenant."""
    wanted = {tenant.application_id for tenant in here.tenants}
    cells = dict(
        Profile.objects.filter(application_id__in=wanted, is_current=True).values_list(
            "application_id", "cells"
        )
    )
    lowest = np.full(N_SOURCES, np.nan)
    strictest = [""] * N_SOURCES
    for tenant in here.tenants:
        name = labels.HIDDEN_JOB if tenant.job is None else tenant.job.name
        for i, score in enumerate(_scores(cells.get(tenant.application_id))):
            if np.isnan(lowest[i]) or score < lowest[i]:
                lowest[i], strictest[i] = score, name
    return lowest, tuple(strictest)


def _scores(cells: dict[str, Any] | None) -> list[float]:
    row = (cells or {}).get("tolerated") or {}
    values = row.get("value") or []
    return [float(v) for v in values] if len(values) == N_SOURCES else []


def history(name: str, span: TimeRange) -> ServerHistory:
    """Return the use of one server over a range of cluster time."""
    server = server_by_name(name)
    at = Server.objects.filter(id__lt=server.id).count()
    times_s, used = server_shares(span, "server_cpu", limit=240)
    _, given = server_shares(span, "server_allocated", limit=240)
    nothing = np.full(times_s.size, np.nan)
    return ServerHistory(
        server=server.name,
        times_s=times_s,
        used=used[:, at] if at < used.shape[1] else nothing,
        allocated=given[:, at] if at < given.shape[1] else nothing,
    )


@dataclass(frozen=True, slots=True)
class Considered:
    """How often the latest decisions examined a server and chose it."""

    decisions: int
    examined: int
    chosen: int
    main_rejection: str


def considered(server: Server) -> Considered:
    """Count how often the latest decisions examined and chose units of the server."""
    latest = Decision.objects.order_by("-at", "-id").values_list("candidates", flat=True)
    verdicts = Counter(
        candidate_facts(row, {}).verdict_text
        for candidates in latest[:CONSIDERED]
        for row in candidates
        if row.get("server_id") == server.id or row.get("server") == server.name
    )
    examined, chosen = verdicts.total(), verdicts.pop(VERDICTS[Verdict.CHOSEN], 0)
    rejection = min(verdicts, key=lambda each: (-verdicts[each], each), default="")
    return Considered(CONSIDERED, examined, chosen, rejection)


def search(text: str, *, limit: int = 4) -> Sequence[Server]:
    """Return servers whose name contains the text."""
    return list(
        Server.objects.filter(name__icontains=text)
        .select_related("platform")
        .order_by("name")[:limit]
    )


def names_starting_with(prefix: str, *, limit: int = 200) -> list[str]:
    """Return names of servers."""
    rows = Server.objects.filter(name__startswith=prefix).order_by("name")
    return list(rows.values_list("name", flat=True)[:limit])


def decisions_about(
    server: Server, visible: QuerySet[Job], *, limit: int = 12
) -> Sequence[Allocation]:
    """Return the latest visible allocations on a server with decision and job, newest first."""
    return list(
        Allocation.objects.filter(server_id=server.id, job__in=visible)
        .select_related("job", "decision")
        .order_by("-acquired_seq")[:limit]
    )
