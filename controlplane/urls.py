"""Where every address begins."""

from django.urls import include, path

from controlplane.health import healthz

urlpatterns = [
    path("healthz", healthz, name="healthz"),
    path("", include("controlplane.service_urls")),
    path("api/v1/", include("controlplane.api_urls")),
    path("", include("apps.dashboard.urls")),
]
