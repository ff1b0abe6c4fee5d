"""Preview of overrides."""

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import principal_of
from apps.classification.api.override_serializers import (
    OverrideRequestSerializer,
    read_override_request,
)
from apps.classification.tasks import preview_by_worker
from apps.common.api.views import ApiView
from apps.scheduling.api.preview_serializers import OverridePreviewSerializer, represent_preview
from apps.scheduling.services import preview_overrides
from apps.workloads.api.application_views import named_application


class OverridePreviewView(ApiView):
    """Preview of overrides."""

    rate_class = "solver"

    @extend_schema(
        operation_id="applications_overrides_preview",
        request=OverrideRequestSerializer,
        responses=OverridePreviewSerializer,
    )
    def post(self, request: Request, key: str) -> Response:
        """Return the cells and jobs that overrides would change, without writing anything."""
        application = named_application(key)
        cells, _ = read_override_request(request.data)
        preview = preview_overrides(
            principal_of(request), application, cells, infer=preview_by_worker
        )
        return Response(represent_preview(preview))
