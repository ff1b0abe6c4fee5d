"""What describes the interface as a whole: version, errors, schema, docs, health, metrics."""

from typing import Any

import django
from django.conf import settings
from django.db import DatabaseError, connection
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_GET
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.selectors import principal_by_token
from apps.common.core.errors import NotFoundError
from apps.common.middleware import API_VERSION
from apps.common.schema import catalogue
from apps.common.views import ApiView, answer
from controlplane.metrics import collect, exposition


class VersionSerializer(serializers.Serializer[Any]):
    """Versions of what answers."""

    berth = serializers.CharField()
    api = serializers.CharField()
    django = serializers.CharField()


class ErrorKindSerializer(serializers.Serializer[Any]):
    """One problem code."""

    code = serializers.CharField()
    status = serializers.IntegerField()
    title = serializers.CharField()
    advice = serializers.CharField()
    retryable = serializers.BooleanField()


class ErrorCatalogueSerializer(serializers.Serializer[Any]):
    """Every problem code."""

    results = ErrorKindSerializer(many=True)


class OpenView(ApiView):
    """For everybody, signed in or not."""

    authentication_classes = ()
    permission_classes = ()
    rate_class = "open"


class VersionView(OpenView):
    """Versions of what answers."""

    @extend_schema(responses=VersionSerializer)
    def get(self, request: Request) -> Response:
        """Return the versions of Berth and of the interface."""
        body = {
            "berth": settings.BERTH_VERSION,
            "api": API_VERSION,
            "django": django.get_version(),
        }
        return answer(request, body)


class ErrorsView(OpenView):
    """The catalogue of problem codes."""

    @extend_schema(responses=ErrorCatalogueSerializer)
    def get(self, request: Request) -> Response:
        """Return every problem code and what to do about it."""
        return answer(request, {"results": catalogue()})


class SchemaView(SpectacularAPIView):
    """The OpenAPI document of this interface."""

    authentication_classes = ()
    permission_classes = ()
    throttle_classes = ()


class UnknownView(OpenView):
    """Whatever no other address matches."""

    schema = None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Answer 404 whatever the method."""
        raise NotFoundError(f"There is nothing at {request.path}.")

    def get(self, request: Request) -> Response:
        """Never reached: `initial` answers."""
        raise NotFoundError(request.path)


@require_GET
def docs(request: HttpRequest) -> HttpResponse:
    """Return the interactive documentation; all its parts are our own files."""
    return render(request, "api/docs.html")


@require_GET
def readyz(request: HttpRequest) -> HttpResponse:
    """200 where this process can serve: the database answers and its tables are up to date."""
    try:
        pending = _unapplied()
    except DatabaseError:
        return HttpResponse("database unavailable\n", status=503, content_type="text/plain")
    if pending:
        text = f"{pending} migrations are not applied\n"
        return HttpResponse(text, status=503, content_type="text/plain")
    return HttpResponse("ready\n", content_type="text/plain")


def _unapplied() -> int:
    executor = MigrationExecutor(connection)
    return len(executor.migration_plan(executor.loader.graph.leaf_nodes()))


@require_GET
def metrics(request: HttpRequest) -> HttpResponse:
    """Return the metrics; with a bearer token unless BERTH_METRICS_OPEN says otherwise."""
    try:
        if not settings.BERTH_METRICS_OPEN and not _has_token(request):
            response = HttpResponse("send a bearer token\n", status=401, content_type="text/plain")
            response["WWW-Authenticate"] = 'Bearer realm="berth"'
            return response
        text = exposition(collect(settings.BERTH_VERSION))
    except DatabaseError:
        return HttpResponse("database unavailable\n", status=503, content_type="text/plain")
    return HttpResponse(text, content_type="text/plain; version=0.0.4; charset=utf-8")


def _has_token(request: HttpRequest) -> bool:
    scheme, _, secret = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
    return scheme.lower() == "bearer" and principal_by_token(secret.strip()) is not None
