"""Views of the API itself: version, errors, schema, docs, readiness, metrics."""

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
from apps.common.api.middleware import API_VERSION
from apps.common.api.schema import catalogue
from apps.common.api.views import ApiView, answer
from apps.common.core.errors import NotFoundError
from controlplane.metrics import InstallationCollector, exposition


class VersionSerializer(serializers.Serializer[Any]):
    """Versions of the server."""

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
    """A view without authentication."""

    authentication_classes = ()
    permission_classes = ()
    rate_class = "open"


class VersionView(OpenView):
    """Versions of the server."""

    @extend_schema(responses=VersionSerializer)
    def get(self, request: Request) -> Response:
        """Return the versions of Berth, the API and Django."""
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
        """Return every problem code with advice."""
        return answer(request, {"results": catalogue()})


class SchemaView(SpectacularAPIView):
    """The OpenAPI document of the API."""

    authentication_classes = ()
    permission_classes = ()
    throttle_classes = ()


class UnknownView(OpenView):
    """Any path that matches no other URL."""

    schema = None

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        """Return 404 for every method."""
        raise NotFoundError(f"There is nothing at {request.path}.")

    def get(self, request: Request) -> Response:
        """Unreachable, as `initial` raises."""
        raise NotFoundError(request.path)


@require_GET
def docs(request: HttpRequest) -> HttpResponse:
    """Return the interactive documentation, without external resources."""
    return render(request, "api/docs.html")


@require_GET
def readyz(request: HttpRequest) -> HttpResponse:
    """Return 200 if the database responds and all migrations are applied."""
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
    """Return the metrics; needs a bearer token unless BERTH_METRICS_OPEN is set."""
    try:
        if not settings.BERTH_METRICS_OPEN and not _has_token(request):
            response = HttpResponse("send a bearer token\n", status=401, content_type="text/plain")
            response["WWW-Authenticate"] = 'Bearer realm="berth"'
            return response
        text = exposition(InstallationCollector(settings.BERTH_VERSION))
    except DatabaseError:
        return HttpResponse("database unavailable\n", status=503, content_type="text/plain")
    return HttpResponse(text, content_type="text/plain; version=0.0.4; charset=utf-8")


def _has_token(request: HttpRequest) -> bool:
    scheme, _, secret = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
    return scheme.lower() == "bearer" and principal_by_token(secret.strip()) is not None
