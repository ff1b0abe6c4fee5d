"""URLs of profiling."""

from apps.common.api.routes import route
from apps.profiling.api import views

urlpatterns = [
    *route("profiling-runs/", views.ProfilingRunList.as_view(), "api-profiling-runs"),
    *route(
        "profiling-runs/<uuid:run_id>/", views.ProfilingRunDetail.as_view(), "api-profiling-run"
    ),
    *route(
        "applications/<path:key>/profiling-runs/",
        views.ApplicationRunList.as_view(),
        "api-application-profiling-runs",
    ),
]
