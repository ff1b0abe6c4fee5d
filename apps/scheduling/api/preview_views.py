"""Previews of corrections by hand."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import principal_of
from apps.classification.api.override_serializers import OverrideRequestSerializer, read_correction
from apps.classification.tasks import draft_by_worker
from apps.common.views import ApiView
from apps.scheduling.api.preview_serializers import OverridePreviewSerializer, represent_preview
from apps.scheduling.services import preview_overrides
from apps.workloads.api.application_views import named_application


class OverridePreviewView(ApiView):
    """What corrections by hand would change."""

    rate_class = "submit"

    @extend_schema(
        operation_id="applications_overrides_preview",
        request=OverrideRequestSerializer,
        responses=OverridePreviewSerializer,
    )
    def post(self, request: Request, key: str) -> Response:
        """Tell which cells and which jobs corrections would change, writing nothing."""
        application = named_application(key)
        cells, _ = read_correction(request.data)
        found = preview_overrides(principal_of(request), application, cells, draw=draft_by_worker)
        return Response(represent_preview(found))
