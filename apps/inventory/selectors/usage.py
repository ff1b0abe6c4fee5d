"""The use of servers: layers of the map, and totals."""

from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import numpy as np

from apps.common.infrastructure.database import database_now, fetch_columns, fetch_rows
from apps.inventory.core.usage import SILENT_S, ServerUsage, UsageTotals, usage_totals
from apps.inventory.models import ServerState

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
