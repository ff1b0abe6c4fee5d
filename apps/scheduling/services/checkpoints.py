"""Checkpoints of the cluster, from which the state at any decision can be rebuilt."""

from datetime import datetime, timedelta
from typing import Final

from apps.common.infrastructure.database import database_now
from apps.inventory.selectors import log_position
from apps.scheduling.core.cluster.checkpoints import packed
from apps.scheduling.models import ClusterCheckpoint
from apps.scheduling.selectors import ClusterFollower

CHANGES: Final = 20_000  # of the log between two checkpoints: a replay reads at most these
INTERVAL: Final = timedelta(minutes=10)  # of wall time, if the cluster has changed


def write_checkpoint(cluster: ClusterFollower) -> bool:
    """Store the cluster if the log has grown enough since the last checkpoint.

    Reads the log only if a checkpoint is due. Returns False if none is, or if the copy has just
    been read and may be ahead of the log.
    """
    now = database_now()
    if not _is_due(log_position(), now):
        return False
    copy = cluster.follow()
    if not cluster.is_exact:
        return False
    row = ClusterCheckpoint(sequence=copy.sequence, at=now, state=packed(copy))
    ClusterCheckpoint.objects.bulk_create([row], ignore_conflicts=True)
    return True


def _is_due(sequence: int, now: datetime) -> bool:
    newest = ClusterCheckpoint.objects.order_by("-sequence").defer("state").first()
    if newest is None:
        return True
    grown = sequence - newest.sequence
    return grown >= CHANGES or (grown > 0 and now - newest.at >= INTERVAL)
