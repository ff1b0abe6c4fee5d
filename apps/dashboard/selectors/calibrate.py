"""What the Calibrate page is built with; placements and weights come through the REST API."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db.models import Count, Max, Min

from apps.common.core.errors import NotFoundError
from apps.inventory.models import ClusterFrame, Rack
from apps.placement.models import Front
from apps.placement.selectors.fronts import front_named

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


@dataclass(frozen=True, slots=True)
class Fronts:
    """Fronts to choose from, and the one to open.

    Attributes
    ----------
    listed : newest first, those of which nothing was found yet too; the one opened is among them
    opened : the one asked for; else the newest that holds something; None where there is none
    missing : what was asked for, where there is no such front
    """

    listed: tuple[ListedFront, ...]
    opened: ListedFront | None
    missing: str = ""


def fronts(wanted: str = "") -> Fronts:
    """Return the newest fronts, and however old the one of the id or name that is wanted."""
    rows = Front.objects.annotate(found=Count("versions")).order_by("-created_at", "-id")
    listed = tuple(
        ListedFront(row.id, str(row), row.containers, row.found)
        for row in rows.only("id", "number", "containers")[:MOST_LISTED]
    )
    newest = next((front for front in listed if front.versions), next(iter(listed), None))
    if not wanted:
        return Fronts(listed, newest)
    try:
        front = front_named(wanted)
    except NotFoundError:
        return Fronts(listed, newest, missing=wanted)
    for one in listed:
        if one.id == front.id:
            return Fronts(listed, one)
    old = ListedFront(front.id, str(front), front.containers, front.versions.count())
    return Fronts((*listed, old), old)


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
