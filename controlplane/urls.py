"""Root URL configuration."""

from django.urls import include, path

from controlplane.api_views import docs

urlpatterns = [
    path("", include("controlplane.probe_urls")),
    path("api/docs/", docs, name="api-docs"),
    path("api/v1/", include("controlplane.api_urls")),
    path("", include("apps.dashboard.urls")),
]

handler403 = "apps.dashboard.views.errors.forbidden"
handler404 = "apps.dashboard.views.errors.not_found"
