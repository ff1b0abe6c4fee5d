"""Addresses of classification."""

from apps.classification.api.views import ClassificationView
from apps.common.routes import route

urlpatterns = [
    *route(
        "applications/<path:key>/classification/",
        ClassificationView.as_view(),
        "api-application-classification",
    ),
]
