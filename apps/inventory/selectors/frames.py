"""Wall times of cluster times, from the recorded frames."""

from datetime import datetime

from apps.inventory.models import ClusterFrame


def recorded_before(cluster_s: float) -> datetime | None:
    """Return the wall time of the last frame at or before a cluster time; None if there is none.

    What happened from the cluster time on happened after it.
    """
    before = ClusterFrame.objects.filter(cluster_s__lte=cluster_s).order_by("-cluster_s")
    return before.values_list("at", flat=True).first()
