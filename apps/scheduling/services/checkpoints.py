"""Checkpoints of the cluster, from which the state at any decision can be rebuilt."""

from datetime import timedelta
from typing import Final

from apps.common.infrastructure.database import database_now
from apps.scheduling.core.checkpoints import packed
from apps.scheduling.models import ClusterCheckpoint
from apps.scheduling.selectors import ClusterFollower

CHANGES: Final = 20_000  # of the log between two checkpoints: a replay reads at most these
INTERVAL: Final = timedelta(minutes=10)  # of wall time, if the cluster has changed


def write_checkpoint(cluster: ClusterFollower) -> bool:
    """Store the cluster if the log has grown enough since the last checkpoint.

    Returns False if none is due, or if the copy has just been read and may be ahead of the log.
    """
    copy = cluster.follow()
    if not cluster.is_exact:
        return False
    newest = ClusterCheckpoint.objects.order_by("-sequence").defer("state").first()
    now = database_now()
    if newest is not None:
        grown = copy.sequence - newest.sequence
        if grown < CHANGES and (grown <= 0 or now - newest.at < INTERVAL):
            return False
    row = ClusterCheckpoint(sequence=copy.sequence, at=now, state=packed(copy))
    ClusterCheckpoint.objects.bulk_create([row], ignore_conflicts=True)
    return True
