"""The recorded history of the cluster as arrays."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from django.db.models import Max, Min
from numpy.typing import NDArray

from apps.dashboard.core.ranges import TimeRange
from apps.inventory.models import ClusterFrame

Floats = NDArray[np.float64]
UNKNOWN = 255
FULL = 200


@dataclass(frozen=True, slots=True, eq=False)
class History:
    """Sums over the cluster, one value per frame.

    Attributes
    ----------
    times_s : (T,) cluster seconds, ascending
    used, allocated : (T,) shares of all units
    watts : (T,)
    servers_on : (T,)
    facts : T dicts as recorded by execution
    """

    times_s: Floats
    used: Floats
    allocated: Floats
    watts: Floats
    servers_on: Floats
    facts: tuple[dict[str, Any], ...]


def history(span: TimeRange, *, limit: int = 240) -> History:
    """Return at most ``limit`` evenly spaced frames of the range, without server arrays."""
    chosen = chosen_frames(span, limit=limit)
    rows = list(
        ClusterFrame.objects.filter(id__in=chosen)
        .order_by("cluster_s")
        .values_list(
            "cluster_s", "cpu_share", "units_allocated", "units", "watts", "servers_on", "facts"
        )
    )
    numbers = np.array([row[:6] for row in rows], dtype=float).reshape(-1, 6)
    return History(
        times_s=numbers[:, 0],
        used=numbers[:, 1],
        allocated=numbers[:, 2] / np.maximum(numbers[:, 3], 1),
        watts=numbers[:, 4],
        servers_on=numbers[:, 5],
        facts=tuple(row[6] for row in rows),
    )


def recorded_span() -> tuple[float | None, float | None]:
    """Return the first and the last recorded moment in cluster seconds; None before any."""
    ends = ClusterFrame.objects.aggregate(first=Min("cluster_s"), last=Max("cluster_s"))
    return ends["first"], ends["last"]


def chosen_frames(span: TimeRange, *, limit: int) -> list[int]:
    """Return ids of at most ``limit`` evenly spaced frames of the range, with the newest."""
    ids = list(
        ClusterFrame.objects.filter(cluster_s__gte=span.first_s, cluster_s__lte=span.last_s)
        .order_by("cluster_s")
        .values_list("id", flat=True)
    )
    if len(ids) <= limit:
        return ids
    picked = np.unique(np.linspace(0, len(ids) - 1, limit).round().astype(int))
    return [ids[i] for i in picked]


def server_shares(span: TimeRange, column: str, *, limit: int) -> tuple[Floats, Floats]:
    """Return cluster seconds (T,) and the share of each server (T, S); NaN = no report.

    ``column`` is ``server_cpu`` or ``server_allocated``. Servers that joined later are NaN before.
    """
    rows = list(
        ClusterFrame.objects.filter(id__in=chosen_frames(span, limit=limit))
        .order_by("cluster_s")
        .values_list("cluster_s", column)
    )
    width = max((len(row[1]) for row in rows), default=0)
    shares = np.full((len(rows), width), np.nan)
    for i, (_, packed) in enumerate(rows):
        shares[i, : len(packed)] = shares_of(bytes(packed))
    return np.array([row[0] for row in rows], dtype=float), shares


def shares_of(packed: bytes) -> Floats:
    """Return shares (S,) from half percents; NaN = unknown."""
    raw = np.frombuffer(packed, np.uint8).astype(float)
    return np.where(raw == UNKNOWN, np.nan, np.minimum(raw, FULL) / FULL)


def fact_series(facts: tuple[dict[str, Any], ...], *path: str) -> Floats:
    """Return one number of the frames' facts over time; NaN if a frame does not have it."""
    values = np.full(len(facts), np.nan)
    for i, fact in enumerate(facts):
        value: Any = fact
        for name in path:
            value = value.get(name) if isinstance(value, dict) else None
        if isinstance(value, int | float):
            values[i] = float(value)
    return values
