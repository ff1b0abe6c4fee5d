"""Writes of the cluster clock: it starts, stops, and is recorded.

Cluster time follows the wall clock of the database. That clock may step: it is set by hand or by
NTP, or the host was suspended. A step moves cluster time by at most `CLOCK_UNSEEN_S` wall seconds.
"""

from datetime import UTC, datetime
from typing import Final

from django.db import transaction

from apps.common.infrastructure.database import database_now, fetch_rows
from apps.inventory import selectors
from apps.inventory.models import CLOCK_UNSEEN_S, Cluster
from apps.operations.core.states import Topic
from apps.operations.services import NewEvent, record_events

# While the wall clock is out of bounds, only `save_clock` records: it reports the step.
_RECORD: Final = """
UPDATE inventory_cluster SET seen_cluster_s = %s
WHERE id = 1 AND seen_cluster_s < %s AND (speed = 0 OR abs(
    extract(epoch FROM clock_timestamp())::float8 - wall_anchor_s
    - (greatest(cluster_anchor_s, seen_cluster_s) - cluster_anchor_s) / speed) <= %s)
RETURNING id
"""


def start_clock(*, speed: float, was_still: bool = False) -> Cluster:
    """Start cluster time from its current value; a running clock is not set back.

    After a crash the clock restarts at the last value that a process recorded, so cluster time
    does not pass while nothing runs.

    Parameters
    ----------
    was_still : the caller knows that nothing has run since the clock was last recorded
    """
    if not 0 < speed <= 100_000:
        msg = f"speed must be above 0 and at most 100,000 cluster seconds a second, got {speed!r}"
        raise ValueError(msg)
    return _anchor_clock(speed=speed, was_still=was_still)


def stop_clock() -> Cluster:
    """Stop cluster time."""
    return _anchor_clock(speed=0.0)


def _anchor_clock(*, speed: float, was_still: bool = False) -> Cluster:
    with transaction.atomic():
        row = selectors.lock_cluster()
        now_s = database_now().timestamp()
        current_s = row.recorded_s
        seen_s = row.clock.wall(row.recorded_s) if row.speed > 0 else row.wall_anchor_s
        _note_step_back(row, now_s - seen_s)
        if selectors.is_live(row, wall_s=now_s) and not was_still:
            current_s = max(current_s, row.clock.at(now_s))
        elif row.speed > 0:
            # agents may have run for a few seconds after the clock was last recorded
            current_s = max(current_s, selectors.last_change_s())
        _anchor(row, wall_s=now_s, cluster_s=current_s, speed=speed)
    return row


def _note_step_back(row: Cluster, step_s: float) -> None:
    """Remember a step by more than `CLOCK_UNSEEN_S`; the caller saves the row."""
    if step_s < -CLOCK_UNSEEN_S:
        row.stepped_back_s -= step_s


def take_step_back() -> float:
    """Return the wall seconds by which the clock was set back, once; the caller moves all leases.

    In the caller's transaction: if it is rolled back, the next call returns them again.
    """
    if not Cluster.objects.filter(stepped_back_s__gt=0.0).exists():
        return 0.0
    row = selectors.lock_cluster()
    back_s, row.stepped_back_s = row.stepped_back_s, 0.0
    row.save(update_fields=["stepped_back_s"])
    return back_s


def _anchor(row: Cluster, *, wall_s: float, cluster_s: float, speed: float) -> None:
    row.cluster_anchor_s = row.seen_cluster_s = cluster_s
    row.wall_anchor_s, row.speed = wall_s, speed
    row.save()


def save_clock() -> None:
    """Record the current cluster time, also while no backend reports.

    If the wall clock is more than `CLOCK_UNSEEN_S` from the last record, it has stepped, or no
    process ran for so long. Cluster time then continues from what it shows, and an event reports
    the step.
    """
    with transaction.atomic():
        row, now = selectors.lock_cluster(), database_now()
        if row.speed == 0.0:
            return
        shown_s = row.clock.at(now.timestamp())
        recorded = datetime.fromtimestamp(row.clock.wall(row.recorded_s), UTC)
        step_s = (now - recorded).total_seconds()
        if abs(step_s) <= CLOCK_UNSEEN_S:
            row.seen_cluster_s = shown_s
            row.save(update_fields=["seen_cluster_s"])
            return
        _note_step_back(row, step_s)
        _anchor(row, wall_s=now.timestamp(), cluster_s=shown_s, speed=row.speed)
        data = {
            "step_s": round(step_s, 3),
            "from": recorded.isoformat(),
            "to": now.isoformat(),
            "cluster_s": shown_s,
        }
        record_events([NewEvent(Topic.CLUSTER, selectors.STEP_EVENT, str(row.id), data)], at=now)


def record_cluster_time(*, cluster_s: float) -> None:
    """Record that cluster time has reached ``cluster_s``, for a restart after a crash."""
    fetch_rows(_RECORD, [cluster_s, cluster_s, CLOCK_UNSEEN_S])
