"""Wall times of cluster times, from the recorded frames."""

from datetime import datetime

from apps.inventory.models import ClusterFrame


def recorded_before(cluster_s: float) -> datetime | None:
    """Return a wall time, a few cluster minutes before a cluster time; None if none is known.

    What happened from the cluster time on happened after it. A frame is stored within its minute,
    so the last one before the cluster time may be too late: this is the time of the one before.
    """
    before = ClusterFrame.objects.filter(cluster_s__lte=cluster_s).order_by("-cluster_s")
    return next(iter(before.values_list("at", flat=True)[1:2]), None)


def recorded_after(cluster_s: float) -> datetime | None:
    """Return the wall time of the first frame at or after a cluster time; None if there is none.

    What happened until the cluster time happened before it.
    """
    after = ClusterFrame.objects.filter(cluster_s__gte=cluster_s).order_by("cluster_s")
    return after.values_list("at", flat=True).first()
