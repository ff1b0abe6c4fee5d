"""Data of the Calibrate page; placements and weights come through the REST API."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.conf import settings
from django.db.models import Count, Max, Min, Q

from apps.common.core.errors import NotFoundError
from apps.inventory.models import ClusterFrame, Rack
from apps.operations.services.retention import cutoff
from apps.placement.core.preference.sentences import OBJECTIVE_NAMES
from apps.placement.core.problem.objectives import BUILT_IN, OBJECTIVES, Objective
from apps.placement.models import Front
from apps.placement.selectors.fronts import front_by_key
from apps.placement.selectors.other_objectives import other_objectives

MAX_LISTED = 50


@dataclass(frozen=True, slots=True)
class ListedFront:
    """A front that can be opened."""

    id: UUID
    name: str
    containers: int
    versions: int


@dataclass(frozen=True, slots=True)
class Recorded:
    """Recorded time span of the cluster, in cluster seconds."""

    first_s: float
    last_s: float


@dataclass(frozen=True, slots=True)
class PlotObjective:
    """An objective that an axis of the plots can show.

    Attributes
    ----------
    option, label : with and without its letter
    unit : None for P, D and C, which every front has
    """

    name: str
    option: str
    label: str
    unit: str | None = None


@dataclass(frozen=True, slots=True)
class Fronts:
    """Fronts to choose from, and the front to open.

    Attributes
    ----------
    listed : newest first, including fronts without a version and the opened one
    opened : the requested front, or else the newest with a version; None if there are no fronts
    missing : requested name, if there is no such front
    """

    listed: tuple[ListedFront, ...]
    opened: ListedFront | None
    missing: str = ""


def fronts(name: str = "") -> Fronts:
    """Return the newest fronts, and the front with the given id or name, however old."""
    rows = Front.objects.annotate(version_count=Count("versions")).order_by("-created_at", "-id")
    listed = tuple(
        ListedFront(row.id, str(row), row.containers, row.version_count)
        for row in rows.only("id", "number", "containers")[:MAX_LISTED]
    )
    newest = next((front for front in listed if front.versions), next(iter(listed), None))
    if not name:
        return Fronts(listed, newest)
    try:
        front = front_by_key(name)
    except NotFoundError:
        return Fronts(listed, newest, missing=name)
    for row in listed:
        if row.id == front.id:
            return Fronts(listed, row)
    old = ListedFront(front.id, str(front), front.containers, front.versions.count())
    return Fronts((*listed, old), old)


def recorded() -> Recorded | None:
    """Return the recorded time span of the cluster, or None if nothing was recorded.

    It begins where no job that ran then has been deleted for its age.
    """
    before = cutoff(settings.BERTH_JOB_DAYS)
    whole = Q() if before is None else Q(at__gte=before)
    span: dict[str, Any] = ClusterFrame.objects.filter(whole).aggregate(
        first=Min("cluster_s"), last=Max("cluster_s")
    )
    return None if span["first"] is None else Recorded(span["first"], span["last"])


def plot_objectives() -> list[PlotObjective]:
    """Return the objectives that the plots can show: P, D, C, then the others of the registry."""
    searched = [
        PlotObjective(name, f"{name} {OBJECTIVE_NAMES[name]}", OBJECTIVE_NAMES[name])
        for name in OBJECTIVES
    ]
    others = other_objectives().items()
    return [*searched, *(_plot_objective(name, objective) for name, objective in others)]


def _plot_objective(name: str, objective: Objective) -> PlotObjective:
    """Return an objective that fronts are not searched by; the built-in ones have a letter."""
    if name not in BUILT_IN:
        return PlotObjective(name, objective.label, objective.label, objective.unit)
    label = objective.label.lower()
    return PlotObjective(name, f"{name} {label}", label, objective.unit)


def racks() -> list[str]:
    """Return the names of racks with servers."""
    racks_in_use = Rack.objects.filter(servers__isnull=False).distinct().order_by("name")
    return list(racks_in_use.values_list("name", flat=True))
