"""What scheduling says about applications; to be included before workloads' own addresses."""

from apps.common.routes import route
from apps.scheduling.api import preview_views

urlpatterns = [
    *route(
        "applications/<path:key>/overrides/preview/",
        preview_views.OverridePreviewView.as_view(),
        "api-application-overrides-preview",
    ),
]
