"""Addresses beside the API: its documentation, readiness and metrics."""

from django.urls import path

from controlplane.api_views import docs, metrics, readyz

urlpatterns = [
    path("readyz", readyz, name="readyz"),
    path("metrics", metrics, name="metrics"),
    path("api/docs/", docs, name="api-docs"),
]
