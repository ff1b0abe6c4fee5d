"""Frames of cluster minutes that no worker stored in time."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import numpy as np

from apps.common.infrastructure.database import fetch_rows
from apps.inventory.models import ClusterFrame

FRAME_S: Final = 60.0  # cluster seconds
MAX_FILLED: Final = 600  # frames of one gap: ten wall minutes at 60 times wall time
_CHANGES: Final = """
SELECT server_id, cluster_s, CASE kind WHEN 'claim' THEN -1 ELSE 1 END * cardinality(unit_ids)
FROM inventory_change
WHERE seq > %s AND kind IN ('claim', 'release') AND cluster_s > %s ORDER BY cluster_s DESC
"""


@dataclass(frozen=True, slots=True, eq=False)
class Allocated:
    """Allocated units of S servers at a cluster minute.

    Attributes
    ----------
    at, cluster_s : wall time of the reading, and the minute that it belongs to
    server_ids : (S,) ascending
    cores, used : (S,) units of each server, and those allocated
    """

    at: datetime
    cluster_s: float
    server_ids: "np.ndarray[Any, np.dtype[np.int64]]"
    cores: "np.ndarray[Any, np.dtype[np.float64]]"
    used: "np.ndarray[Any, np.dtype[np.float64]]"


def missed_frames(last: ClusterFrame, now: Allocated) -> list[ClusterFrame]:
    """Return the frames between the last stored one and the current minute, at most `MAX_FILLED`.

    Allocated units are exact: the changes since the last frame are undone. Usage, power and facts
    are those of the last frame, and ``facts["filled"]`` is true. Returns no frames if servers were
    added or removed meanwhile.
    """
    first_s = max(last.cluster_s + FRAME_S, now.cluster_s - MAX_FILLED * FRAME_S)
    position = last.facts.get("log_position")
    if first_s >= now.cluster_s or position is None or last.servers != now.server_ids.size:
        return []
    used, frames = now.used.copy(), []
    changes = fetch_rows(_CHANGES, [position, first_s])
    undone = 0
    for minute_s in np.arange(now.cluster_s - FRAME_S, first_s - 1.0, -FRAME_S).tolist():
        while undone < len(changes) and changes[undone][1] > minute_s:
            server, _, units = changes[undone]
            used[np.searchsorted(now.server_ids, server)] += units
            undone += 1
        frames.append(_frame(last, now, minute_s, np.clip(used, 0.0, now.cores)))
    return frames[::-1]


def _frame(
    last: ClusterFrame,
    now: Allocated,
    minute_s: float,
    used: "np.ndarray[Any, np.dtype[np.float64]]",
) -> ClusterFrame:
    share = (minute_s - last.cluster_s) / (now.cluster_s - last.cluster_s)
    return ClusterFrame(
        at=last.at + share * (now.at - last.at),
        cluster_s=minute_s,
        server_cpu=bytes(last.server_cpu),
        server_allocated=half_percents(used / now.cores),
        servers=last.servers,
        units=int(now.cores.sum()),
        units_allocated=int(used.sum()),
        cpu_share=last.cpu_share,
        memory_share=last.memory_share,
        watts=last.watts,
        servers_on=last.servers_on,
        facts={**last.facts, "filled": True},
    )


def half_percents(shares: "np.ndarray[Any, np.dtype[np.float64]]") -> bytes:
    """One byte per server: in half percents, 255 if unknown."""
    steps = np.where(np.isnan(shares), 255.0, np.clip(np.rint(200.0 * shares), 0.0, 200.0))
    return steps.astype(np.uint8).tobytes()
