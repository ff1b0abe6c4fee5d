"""URL routes of classification."""

from apps.classification.api import (
    matrix_views,
    override_views,
    report_views,
    revision_views,
    views,
)
from apps.common.api.routes import route

urlpatterns = [
    *route("report-keys/", report_views.ReportKeyList.as_view(), "api-report-keys"),
    *route("report-keys/<uuid:key_id>/", report_views.ReportKeyDetail.as_view(), "api-report-key"),
    *route("profile-reports/", report_views.ReportList.as_view(), "api-profile-reports"),
    *route("matrices/", matrix_views.MatrixList.as_view(), "api-matrices"),
    *route("matrices/<str:name>/", matrix_views.MatrixDetail.as_view(), "api-matrix"),
    *route("matrices/<str:name>/cells/", matrix_views.MatrixCells.as_view(), "api-matrix-cells"),
    *route("revisions/", revision_views.RevisionList.as_view(), "api-revisions"),
    *route("revisions/<int:number>/", revision_views.RevisionDetail.as_view(), "api-revision"),
    *route(
        "applications/<path:key>/classification/",
        views.ClassificationView.as_view(),
        "api-application-classification",
    ),
    *route(
        "applications/<path:key>/estimates/",
        views.EstimatesView.as_view(),
        "api-application-estimates",
    ),
    *route(
        "applications/<path:key>/measurements/",
        views.MeasurementList.as_view(),
        "api-application-measurements",
    ),
    *route(
        "applications/<path:key>/prediction-errors/",
        views.PredictionErrorList.as_view(),
        "api-application-prediction-errors",
    ),
    *route(
        "applications/<path:key>/overrides/",
        override_views.OverrideList.as_view(),
        "api-application-overrides",
    ),
    *route(
        "applications/<path:key>/overrides/<uuid:override_id>/",
        override_views.OverrideDetail.as_view(),
        "api-application-override",
    ),
]
