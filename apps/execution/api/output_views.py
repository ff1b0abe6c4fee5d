"""Output of the command of a job."""

import time
from typing import Final
from uuid import UUID

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request

from apps.common.api.queries import read, read_int, read_word
from apps.common.api.views import ApiView
from apps.execution.models import OutputStream
from apps.execution.selectors.agents import Output, output
from apps.workloads.api.job_views import visible_job
from apps.workloads.core.lifecycle import TERMINAL_STATES

MAX_BYTES: Final = 1 << 20
MAX_WAIT_S: Final = 20
POLL_S: Final = 0.1


class JobOutput(ApiView):
    """Output of the command of a job."""

    rate_class = "stream"
    has_fields = False
    has_tags = False
    query_parameters = frozenset({"stream", "start", "limit", "wait"})

    @extend_schema(
        responses={(200, "application/octet-stream"): OpenApiTypes.BINARY},
        parameters=[
            OpenApiParameter(
                "stream", str, enum=OutputStream.values, description="Default: stdout."
            ),
            OpenApiParameter("start", int, description="Position of the first byte, from 0."),
            OpenApiParameter("limit", int, description="Maximum number of bytes, up to 1 MiB."),
            OpenApiParameter("wait", int, description="Seconds to wait for output, up to 20."),
        ],
    )
    def get(self, request: Request, job_id: UUID) -> HttpResponse:
        """Return the output of the last launch from a position on.

        ``Berth-Output-Start`` is the position of the first byte returned, later than requested
        if older output was deleted; ``Berth-Output-End`` is where to continue. With ``wait``, the
        answer waits for output, or for the end of the job.
        """
        job = visible_job(request, job_id)
        query = request.query_params
        given = query.get("stream", "stdout")
        stream = read("stream", given, lambda v: read_word(v, OutputStream.values))
        start = read("start", query.get("start", "0"), lambda v: read_int(v, low=0))
        limit = read(
            "limit",
            query.get("limit", str(MAX_BYTES)),
            lambda v: read_int(v, low=1, high=MAX_BYTES),
        )
        wait_s = read(
            "wait", query.get("wait", "0"), lambda v: read_int(v, low=0, high=MAX_WAIT_S)
        )
        until = time.monotonic() + wait_s
        is_over = job.state in TERMINAL_STATES
        part = output(job, stream, start=start, limit=limit)
        while not part.data and not is_over and time.monotonic() < until:
            time.sleep(POLL_S)
            # read before the output: what was written before the end is returned with the end
            is_over = visible_job(request, job_id).state in TERMINAL_STATES
            part = output(job, stream, start=start, limit=limit)
        return _response(part, is_over=is_over)


def _response(part: Output, *, is_over: bool) -> HttpResponse:
    headers = {
        "Berth-Output-Attempt": str(part.attempt),
        "Berth-Output-Start": str(part.start),
        "Berth-Output-End": str(part.end),
        "Berth-Job-Over": "true" if is_over else "false",
        "Cache-Control": "no-store",
        # it is what a program wrote: a browser must not interpret it
        "X-Content-Type-Options": "nosniff",
        "Content-Disposition": "attachment",
    }
    return HttpResponse(part.data, content_type="application/octet-stream", headers=headers)
