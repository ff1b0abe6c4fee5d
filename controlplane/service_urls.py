"""Addresses beside the API: its documentation, readiness and metrics."""

from django.urls import path

from controlplane.api_views import docs

urlpatterns = [
    path("api/docs/", docs, name="api-docs"),
]
