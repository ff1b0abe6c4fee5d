"""CPU use by server and time, grouped by platform, at the resolution of the figure."""

import numpy as np
from numpy.typing import NDArray

from apps.dashboard.core.ranges import TimeRange
from apps.dashboard.figures.utilisation import PlatformRows, Utilisation
from apps.dashboard.selectors.frames import history, server_shares
from apps.inventory.models import Server

COLUMNS = 96
ROWS = 150
Floats = NDArray[np.float64]


def utilisation(span: TimeRange) -> Utilisation:
    """Return means of neighbouring servers in about ``ROWS`` rows, one frame per column."""
    times_s, shares = server_shares(span, "server_cpu", limit=COLUMNS)
    past = history(span, limit=COLUMNS)
    servers = list(
        Server.objects.order_by("id").values_list("name", "platform__name", "platform__rank")
    )[: shares.shape[1]]
    per_row = max(1, -(-len(servers) // ROWS))
    groups: list[PlatformRows] = []
    rows: list[Floats] = []
    names: list[str] = []
    for _, platform in sorted({(rank, name) for _, name, rank in servers}):
        members = [i for i, server in enumerate(servers) if server[1] == platform]
        block = shares[:, members]
        chunks = [members[i : i + per_row] for i in range(0, len(members), per_row)]
        rows.extend(_mean(shares[:, chunk]) for chunk in chunks)
        names.extend(_span([servers[i][0] for i in chunk]) for chunk in chunks)
        groups.append(_group(platform, len(members), len(chunks), block))
    used = np.array(rows) if rows else np.zeros((0, times_s.size))
    width = float(np.median(np.diff(times_s))) if times_s.size > 1 else 60.0
    return Utilisation(
        times_s=times_s,
        used=used,
        platforms=tuple(groups),
        cluster_used=past.used,
        cluster_allocated=past.allocated,
        servers=len(servers),
        servers_per_row=per_row,
        column_s=width,
        row_names=tuple(names),
    )


def _group(name: str, servers: int, rows: int, block: Floats) -> PlatformRows:
    by_time = _mean(block)
    known = by_time[~np.isnan(by_time)]
    return PlatformRows(
        name=name,
        servers=servers,
        rows=rows,
        now=float(by_time[-1]) if by_time.size else float("nan"),
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
