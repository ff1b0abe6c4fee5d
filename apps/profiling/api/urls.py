"""Addresses of profiling."""

from apps.common.routes import route
from apps.profiling.api import views

urlpatterns = [
    *route(
        "applications/<path:key>/profiling-runs/",
        views.ProfilingRunList.as_view(),
        "api-application-profiling-runs",
    ),
]
