"""Platforms, servers, units and the cluster as a whole."""

from base64 import b64encode
from typing import Any, ClassVar

from django.conf import settings
from django.db import transaction
from django.db.models import QuerySet
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.core.roles import Role
from apps.common.api.etags import expected_generation
from apps.common.api.paging import Order
from apps.common.api.queries import (
    ListQuery,
    any_of,
    choice,
    choices,
    exact,
    label,
    read,
    read_word,
    whole,
)
from apps.common.api.views import ApiView, ListView, answer
from apps.common.core.errors import NotFoundError
from apps.common.core.interference import SOURCES
from apps.common.core.preconditions import require_generation
from apps.inventory import selectors
from apps.inventory.api.serializers import (
    ClockSerializer,
    ClusterSerializer,
    MapSerializer,
    PlatformSerializer,
    ServerSerializer,
    SourcesSerializer,
    UnitSerializer,
    represent_clock,
    represent_platform,
    represent_server,
    represent_unit,
)
from apps.inventory.models import Platform, ResourceUnit, Server, ServerState
from apps.inventory.services import set_server_state


def brief(body: dict[str, Any]) -> dict[str, Any]:
    """Return id and name."""
    return {name: body["metadata"][name] for name in ("id", "name")}


class PlatformList(ListView):
    """Server configurations, the highest-end first."""

    row_serializer = PlatformSerializer
    orders: ClassVar = {"rank": Order(("rank",)), "name": Order(("name",))}
    filters: ClassVar = {"name": exact("name", "Exactly this name.")}

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[Platform]:
        """Return all platforms."""
        return selectors.platforms()

    def represent(self, row: Platform) -> dict[str, Any]:
        """JSON of a platform."""
        return represent_platform(row)

    def represent_briefly(self, row: Platform) -> dict[str, Any]:
        """Return id and name."""
        return brief(self.represent(row))


class PlatformDetail(ApiView):
    """One platform."""

    @extend_schema(responses=PlatformSerializer)
    def get(self, request: Request, platform_id: int) -> Response:
        """Return a platform."""
        found = selectors.platforms().filter(pk=platform_id).first()
        if found is None:
            raise NotFoundError(f"There is no platform {platform_id}.")
        return answer(request, represent_platform(found))


class SourceList(ApiView):
    """The ten shared resources in which jobs interfere."""

    @extend_schema(responses=SourcesSerializer)
    def get(self, request: Request) -> Response:
        """Return the sources of interference in the order of every vector."""
        return answer(request, {"results": [{"id": i, "name": n} for i, n in enumerate(SOURCES)]})


class ServerList(ListView):
    """Servers with their last reading."""

    row_serializer = ServerSerializer
    orders: ClassVar = {"id": Order(("id",)), "name": Order(("name",))}
    filters: ClassVar = {
        "name": exact("name", "Exactly this name."),
        "q": exact("name__icontains", "Name contains this text."),
        "state": choice("state", ServerState.values, "In this state."),
        "state__in": choices("state", ServerState.values, "In any of these states."),
        "platform": exact("platform__name", "Of this platform."),
        "platform__in": any_of("platform__name", "Of any of these platforms."),
        "rack": exact("rack__name", "In this rack."),
        "switch": exact("rack__switch", "In a rack below this switch."),
        "label": label("labels", "With this label, name:value; repeatable."),
        "used_cores__gte": whole("used_cores__gte", "At least this number of allocated cores."),
        "used_cores__lt": whole("used_cores__lt", "Fewer allocated cores than this."),
    }

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[Server]:
        """Return all servers."""
        return selectors.servers()

    def represent(self, row: Server) -> dict[str, Any]:
        """JSON of a server."""
        return represent_server(row)

    def represent_briefly(self, row: Server) -> dict[str, Any]:
        """Return id and name."""
        return {"id": row.pk, "name": row.name}


def named_server(key: str) -> Server:
    """Return a server by id or name.

    Raises
    ------
    NotFoundError : there is none.
    """
    found = selectors.server_by(key)
    if found is None:
        raise NotFoundError(f"There is no server {key}.")
    return found


class ServerDetail(ApiView):
    """One server, addressed by id or by name."""

    @extend_schema(responses=ServerSerializer)
    def get(self, request: Request, key: str) -> Response:
        """Return a server."""
        found = named_server(key)
        return answer(request, represent_server(found), generation=found.generation)


class ServerUnitsView(ListView):
    """The units of one server."""

    row_serializer = UnitSerializer
    orders: ClassVar = {"core": Order(("core",))}

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[ResourceUnit]:
        """Return the server's units."""
        return selectors.units().filter(server_id=named_server(kwargs["key"]).pk)

    def represent(self, row: ResourceUnit) -> dict[str, Any]:
        """JSON of a unit."""
        return represent_unit(row)


class ServerAction(ApiView):
    """Change of a server's state."""

    takes_body = False
    takes_match = frozenset({"POST"})
    write_role = Role.OPERATOR
    state: ServerState

    def change(self, request: Request, key: str) -> Response:
        """Set the server to the view's state if If-Match holds."""
        found = named_server(key)
        expected = expected_generation(request._request)
        with transaction.atomic():
            if expected is not None:
                # lock before the check, so that no other write comes in between
                locked = Server.objects.select_for_update().get(pk=found.pk)
                require_generation(expected, locked.generation)
            set_server_state(server_id=found.pk, state=self.state)
        after = named_server(key)
        return answer(request, represent_server(after), generation=after.generation)


class ServerDrain(ServerAction):
    """Draining a server."""

    state = ServerState.DRAINING

    @extend_schema(request=None, responses=ServerSerializer)
    def post(self, request: Request, key: str) -> Response:
        """Let the server's jobs end and place no new ones on it."""
        return self.change(request, key)


class ServerCordon(ServerAction):
    """Cordoning a server."""

    state = ServerState.CORDONED

    @extend_schema(request=None, responses=ServerSerializer)
    def post(self, request: Request, key: str) -> Response:
        """Keep the server's jobs and place no new ones on it."""
        return self.change(request, key)


class ServerUndrain(ServerAction):
    """Reopening a server."""

    state = ServerState.ACTIVE

    @extend_schema(request=None, responses=ServerSerializer)
    def post(self, request: Request, key: str) -> Response:
        """Place jobs on the server again."""
        return self.change(request, key)


class ClockView(ApiView):
    """Cluster time."""

    @extend_schema(responses=ClockSerializer)
    def get(self, request: Request) -> Response:
        """Return the cluster time and its speed."""
        return answer(request, _clock())


class ClusterView(ApiView):
    """The cluster as a whole."""

    @extend_schema(responses=ClusterSerializer)
    def get(self, request: Request) -> Response:
        """Return the totals of the cluster."""
        row, totals = selectors.cluster(), selectors.cluster_totals()
        usage = totals.usage
        body = {
            "name": row.name,
            "policy": selectors.applied_policy().policy or settings.DEFAULT_POLICY,
            "clock": _clock(),
            "servers": totals.servers_by_state,
            "units": usage.units,
            "units_allocated": usage.units_allocated,
            "cpu_share": usage.cpu_share if usage.reporting else None,
            "power_watts": usage.watts,
        }
        return answer(request, body)


def _clock() -> dict[str, Any]:
    now = selectors.cluster_time()
    return represent_clock(now.cluster_s, now.speed, now.at)


class MapView(ApiView):
    """The cluster map: one byte per server."""

    query_parameters = frozenset({"layer"})

    @extend_schema(
        responses=MapSerializer,
        parameters=[OpenApiParameter("layer", enum=selectors.LAYERS, description="What to show.")],
    )
    def get(self, request: Request) -> Response:
        """Return one layer of the map as a packed array in the order of the server ids."""
        given = request.query_params.get("layer", "cpu")
        name = read("layer", given, lambda value: read_word(value, selectors.LAYERS))
        layer = selectors.map_layer(name)
        body = {
            "layer": name,
            "description": layer.description,
            "encoding": "base64:uint8",
            "scale": layer.scale,
            "servers": len(layer.ids),
            "ids": list(layer.ids),
            "values": b64encode(layer.values).decode(),
        }
        return answer(request, body)
