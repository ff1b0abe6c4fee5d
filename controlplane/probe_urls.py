"""URLs that load balancers, containers and monitoring read from inside the network."""

from django.urls import path

from controlplane.api_views import metrics, readyz
from controlplane.health import healthz

urlpatterns = [
    path("healthz", healthz, name="healthz"),
    path("readyz", readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
]
