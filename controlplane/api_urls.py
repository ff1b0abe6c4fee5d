"""URLs under /api/v1/: the apps', then version, errors and schema."""

from django.urls import include, path, re_path

from apps.accounts.api import openapi as _openapi  # noqa: F401 - registers the schema's security
from apps.accounts.api.urls import keyed_routes
from apps.common.api.routes import route
from apps.execution.api import openapi as _agents  # noqa: F401 - likewise
from apps.operations.api.idempotency import once
from controlplane import api_views

urlpatterns = [
    *keyed_routes(once),
    path("", include("apps.accounts.api.urls")),
    path("", include("apps.operations.api.urls")),
    path("", include("apps.inventory.api.urls")),
    # before workloads, whose application names may contain slashes
    path("", include("apps.profiling.api.urls")),
    path("", include("apps.classification.api.urls")),
    path("", include("apps.scheduling.api.application_urls")),
    path("", include("apps.workloads.api.urls")),
    path("", include("apps.scheduling.api.urls")),
    path("", include("apps.execution.api.urls")),
    path("", include("apps.placement.api.plan_urls")),
    path("", include("apps.placement.api.urls")),
    path("", include("apps.testbed.api.urls")),
    *route("version/", api_views.VersionView.as_view(), "api-version"),
    *route("errors/", api_views.ErrorsView.as_view(), "api-errors"),
    *route("schema/", api_views.SchemaView.as_view(), "api-schema"),
    re_path(r"", api_views.UnknownView.as_view(), name="api-unknown"),
]
