"""What the Calibrate page is built with; placements and weights come through the REST API."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Count, Max, Min

from apps.inventory.models import ClusterFrame, Rack
from apps.placement.models import Front

MOST_LISTED = 50


@dataclass(frozen=True, slots=True)
class ListedFront:
    """A front one can open."""

    id: UUID
    name: str
    containers: int
    versions: int


@dataclass(frozen=True, slots=True)
class Recorded:
    """From when to when the cluster was recorded, cluster seconds."""

    first_s: float
    last_s: float


def fronts() -> list[ListedFront]:
    """Return the newest fronts first, those of which nothing was found yet too."""
    rows = Front.objects.annotate(found=Count("versions")).order_by("-created_at", "-id")
    return [
        ListedFront(row.id, str(row), row.containers, row.found)
        for row in rows.only("id", "number", "containers")[:MOST_LISTED]
    ]


def opened(listed: list[ListedFront], wanted: str) -> ListedFront | None:
    """Return the front an address asks for; without one the newest that holds something.

    Raises
    ------
    LookupError : the address asks for a front there is not.
    """
    if wanted:
        found = next((front for front in listed if str(front.id) == wanted), None)
        if found is None:
            raise LookupError(f"there is no front {wanted}")
        return found
    return next((front for front in listed if front.versions), next(iter(listed), None))


def recorded() -> Recorded | None:
    """Return what span of the cluster's past a front can be of, or None."""
    span: dict[str, Any] = ClusterFrame.objects.aggregate(
        first=Min("cluster_s"), last=Max("cluster_s")
    )
    return None if span["first"] is None else Recorded(span["first"], span["last"])


def racks() -> list[str]:
    """Return the names of racks that hold servers."""
    held = Rack.objects.filter(servers__isnull=False).distinct().order_by("name")
    return list(held.values_list("name", flat=True))
