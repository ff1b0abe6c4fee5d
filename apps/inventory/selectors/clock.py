"""The one row of the cluster, and its clock."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from apps.common.infrastructure.database import fetch_prepared
from apps.inventory.models import CLOCK_UNSEEN_S, Cluster
from apps.operations.models import Event


def cluster() -> Cluster:
    """Return the one cluster row; created on first use."""
    row, _ = Cluster.objects.get_or_create(id=1)
    return row


def lock_cluster() -> Cluster:
    """Lock the one cluster row and return it."""
    cluster()
    return Cluster.objects.select_for_update().get(id=1)


STEP_EVENT: Final = "cluster.clock_stepped"


@dataclass(frozen=True, slots=True)
class ClockStep:
    """A step of the wall clock: when, and by how many seconds; below 0 = back."""

    at: datetime
    seconds: float

    @property
    def size_s(self) -> float:
        """How far it stepped, in either direction."""
        return abs(self.seconds)


def last_clock_step() -> ClockStep | None:
    """Return the last step of the wall clock; None if there is none in the event log."""
    event = Event.objects.filter(kind=STEP_EVENT).order_by("-seq").first()
    return ClockStep(event.at, event.data["step_s"]) if event is not None else None


@dataclass(frozen=True, slots=True)
class ClusterTime:
    """Wall time and cluster time at one moment.

    Attributes
    ----------
    at : wall time of the database
    speed : cluster seconds per wall second; 0 = stopped
    """

    at: datetime
    cluster_s: float
    speed: float


def cluster_time() -> ClusterTime:
    """Read the wall time of the database and the cluster time.

    Cluster time stays within `CLOCK_UNSEEN_S` wall seconds of its last record: the wall clock may
    step, and `services.save_clock` then reports the step.
    """
    rows = fetch_prepared(_TIME, [])
    if not rows:
        cluster()
        rows = fetch_prepared(_TIME, [])
    at, *clock = rows[0]
    row = Cluster(**dict(zip(_CLOCK, clock, strict=True)))
    return ClusterTime(at, row.clock.at(at.timestamp()), row.speed)


_CLOCK: Final = ("wall_anchor_s", "cluster_anchor_s", "speed", "seen_cluster_s")
_TIME: Final = f"SELECT clock_timestamp(), {', '.join(_CLOCK)} FROM inventory_cluster WHERE id = 1"  # noqa: S608 - constants


def is_live(row: Cluster, *, wall_s: float) -> bool:
    """Whether the clock runs and was recorded recently; otherwise its processes have crashed.

    The emulator records it every 2 to 10 s and the sweep every 5 s. The wall time of the last
    record follows from the recorded cluster time.
    """
    return row.speed > 0 and wall_s - row.clock.wall(row.recorded_s) <= CLOCK_UNSEEN_S


def cluster_now() -> float:
    """Cluster time in seconds at this moment."""
    return cluster_time().cluster_s
