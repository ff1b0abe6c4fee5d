"""Resource units, which can be filtered by the allocation that holds them."""

from typing import Any, ClassVar

from django.db.models import Q, QuerySet
from rest_framework.request import Request

from apps.common.api.queries import Filter, ListQuery, exact, flag, read_int
from apps.common.api.views import ListView
from apps.inventory.api.serializers import UnitSerializer, represent_unit
from apps.inventory.models import ResourceUnit
from apps.inventory.selectors import units
from apps.scheduling.selectors import units_of_allocation


def _held_by(value: str) -> Q:
    """Look up the units of an allocation: units have no index of the allocation."""
    allocation = read_int(value)
    # the units of a released allocation may be held by others
    return Q(pk__in=units_of_allocation(allocation), allocation_id=allocation)


class UnitList(ListView):
    """Resource units: one core each with an equal share of its server."""

    row_serializer = UnitSerializer
    filters: ClassVar = {
        "server": exact("server__name", "Of the server with this name."),
        "platform": exact("server__platform__name", "Of this platform."),
        "free": flag("allocation_id__isnull", "Not allocated."),
        "allocation": Filter(_held_by, "Held by this allocation.", {"type": "integer"}),
    }

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[ResourceUnit]:
        """Return all units."""
        return units()

    def represent(self, row: ResourceUnit) -> dict[str, Any]:
        """JSON of a unit."""
        return represent_unit(row)
