"""URLs of applications served by scheduling; include them before those of workloads."""

from apps.common.api.routes import route
from apps.scheduling.api import preview_views

urlpatterns = [
    *route(
        "applications/<path:key>/overrides/preview/",
        preview_views.OverridePreviewView.as_view(),
        "api-application-overrides-preview",
    ),
]
