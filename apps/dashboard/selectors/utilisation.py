"""CPU use by server and time, grouped by platform, at the resolution of the figure."""

import numpy as np
from numpy.typing import NDArray

from apps.common.infrastructure.database import database_now
from apps.dashboard.core.ranges import TimeRange
from apps.dashboard.figures.utilisation import PlatformRows, Utilisation
from apps.dashboard.selectors.frames import history, server_shares
from apps.dashboard.selectors.moments import cluster_moment
from apps.inventory.core.usage import usage_totals
from apps.inventory.models import Server
from apps.inventory.selectors import server_usage

COLUMNS = 96
ROWS = 150
Floats = NDArray[np.float64]


def utilisation(span: TimeRange) -> Utilisation:
    """Return means of neighbouring servers in about ``ROWS`` rows, one frame per column."""
    times_s, shares = server_shares(span, "server_cpu", limit=COLUMNS)
    past = history(span, limit=COLUMNS)
    servers = list(
        Server.objects.order_by("id").values_list(
            "name", "platform__name", "platform__rank", "platform_id"
        )
    )[: shares.shape[1]]
    per_row = max(1, -(-len(servers) // ROWS))
    now = server_usage(now=database_now())
    whole = cluster_moment(span).usage
    groups: list[PlatformRows] = []
    rows: list[Floats] = []
    names: list[str] = []
    for _, platform, key in sorted({(rank, name, key) for _, name, rank, key in servers}):
        members = [i for i, server in enumerate(servers) if server[1] == platform]
        block = shares[:, members]
        chunks = [members[i : i + per_row] for i in range(0, len(members), per_row)]
        rows.extend(_mean(shares[:, chunk]) for chunk in chunks)
        names.extend(_span([servers[i][0] for i in chunk]) for chunk in chunks)
        share = usage_totals(now, now.platforms == key).cpu_share
        if span.is_past:
            share = float(_mean(block)[-1]) if times_s.size else float("nan")
        groups.append(_group(platform, len(members), len(chunks), block, now=share))
    used = np.array(rows) if rows else np.zeros((0, times_s.size))
    width = float(np.median(np.diff(times_s))) if times_s.size > 1 else 60.0
    return Utilisation(
        times_s=times_s,
        used=used,
        platforms=tuple(groups),
        cluster_used=past.used,
        cluster_allocated=past.allocated,
        used_now=whole.cpu_share,
        allocated_now=whole.allocated_share,
        servers=len(servers),
        servers_per_row=per_row,
        column_s=width,
        row_names=tuple(names),
    )


def _group(name: str, servers: int, rows: int, block: Floats, *, now: float) -> PlatformRows:
    by_time = _mean(block)
    known = by_time[~np.isnan(by_time)]
    return PlatformRows(
        name=name,
        servers=servers,
        rows=rows,
        now=now,
        mean=float(known.mean()) if known.size else float("nan"),
        peak=float(known.max()) if known.size else float("nan"),
    )


def _mean(block: Floats) -> Floats:
    """Return the mean of the known values over the second axis; NaN if none is known."""
    known = ~np.isnan(block)
    count = known.sum(axis=1)
    total = np.where(known, block, 0.0).sum(axis=1)
    return np.where(count > 0, total / np.maximum(count, 1), np.nan)


def _span(names: list[str]) -> str:
    return names[0] if len(names) == 1 else f"{names[0]} to {names[-1]}"
