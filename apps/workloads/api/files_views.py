"""Files of the command of a job."""

from uuid import UUID

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request

from apps.common.api.views import ApiView
from apps.common.core.errors import NotFoundError
from apps.workloads.api.job_views import visible_job
from apps.workloads.selectors import files_of


class JobFiles(ApiView):
    """Files of the command of a job."""

    has_fields = False
    has_tags = False

    @extend_schema(responses={(200, "application/octet-stream"): OpenApiTypes.BINARY})
    def get(self, request: Request, job_id: UUID) -> HttpResponse:
        """Return the archive that a job was submitted with: a tar file, plain or with gzip."""
        data = files_of(visible_job(request, job_id))
        if data is None:
            raise NotFoundError(f"The job {job_id} has no files.")
        headers = {
            "Cache-Control": "no-store",
            # a user made it: a browser must not interpret it
            "X-Content-Type-Options": "nosniff",
            "Content-Disposition": "attachment",
        }
        return HttpResponse(data, content_type="application/octet-stream", headers=headers)
