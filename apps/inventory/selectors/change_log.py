"""Changes of the shared state, which the copies of agents follow."""

from dataclasses import dataclass
from typing import Final

from apps.common.infrastructure.database import fetch_prepared
from apps.common.infrastructure.log_numbers import Log, complete_up_to
from apps.inventory.models import Change, ChangeKind


def last_change_s() -> float:
    """Cluster time of the latest entry of the change log; 0 before any."""
    last = Change.objects.order_by("-seq").values_list("cluster_s", flat=True).first()
    return last or 0.0


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


def topology_version() -> int:
    """Change-log number of the last complete change of the servers themselves; 0 before any."""
    last = (
        Change.objects.filter(kind=ChangeKind.TOPOLOGY, seq__lte=log_position())
        .order_by("-seq")
        .values_list("seq", flat=True)
    )
    return last.first() or 0
