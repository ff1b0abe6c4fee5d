"""Headers of every response."""

import time
from collections.abc import Callable
from typing import Final

from django.http import HttpRequest, HttpResponse
from django.http.response import HttpResponseBase
from django.middleware.gzip import GZipMiddleware
from django.shortcuts import render

from apps.common.api.etags import compressed_tag
from apps.common.api.input_checks import request_problem
from apps.common.api.problems import MEDIA_TYPE, problem_content, problem_of_status
from apps.common.infrastructure.request_id import begin_request, choose_request_id, end_request
from apps.common.infrastructure.stream_origin import stream_origin

API_VERSION: Final = "1.0"
COMPRESSED_TYPES: Final = frozenset(
    {
        *("text/html", "text/css", "text/csv", "text/javascript", "text/plain", "image/svg+xml"),
        *("application/json", "application/x-ndjson", "application/yaml", MEDIA_TYPE),
        *("application/javascript", "application/vnd.oai.openapi"),
    }
)
GetResponse = Callable[[HttpRequest], HttpResponse]


class RequestIdMiddleware:
    """Assign an id to every request; add ``X-Request-ID``, ``API-Version`` and ``Server-Timing``.

    It is the first middleware, so that the responses of the others carry the headers too.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Serve a request under its id."""
        began_s = time.perf_counter()
        request_id = choose_request_id(
            request.META.get("HTTP_X_REQUEST_ID", ""), request.META.get("HTTP_TRACEPARENT", "")
        )
        request.META["BERTH_REQUEST_ID"] = request_id
        begin_request(request_id)
        try:
            response = self._get_response(request)
        finally:
            end_request()
        response["X-Request-ID"] = request_id
        response["API-Version"] = API_VERSION
        response["Server-Timing"] = f"app;dur={(time.perf_counter() - began_s) * 1e3:.1f}"
        return response


class CompressionMiddleware(GZipMiddleware):
    """Compress text for callers who accept gzip.

    Django adds random padding to every body, so that its compressed size tells little about
    secrets next to reflected input (BREACH). It makes every tag weak, which If-Match refuses;
    here, a strong tag stays strong and names the encoding (RFC 9110 §8.8.3.3).
    """

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        """Compress a response of text that is not compressed yet."""
        media_type = response.get("Content-Type", "").partition(";")[0]
        if media_type not in COMPRESSED_TYPES:
            return response
        tag = response.get("ETag", "")
        compressed = super().process_response(request, response)
        if compressed.get("Content-Encoding") == "gzip" and tag:
            compressed["ETag"] = compressed_tag(tag)
        return compressed


class ApiProblemMiddleware:
    """Answer every error under ``/api/`` with a problem document, also those outside API views.

    Django itself answers unknown hosts, methods and paths, and errors of middleware, with HTML.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Serve a request and replace the body of an error that is not a problem document."""
        response = self._get_response(request)
        is_error = is_api(request) and response.status_code >= 400
        if not is_error or response.get("Content-Type") == MEDIA_TYPE:
            return response
        response.content = problem_content(problem_of_status(response.status_code), request)
        response["Content-Type"] = MEDIA_TYPE
        response["Content-Length"] = str(len(response.content))
        return response


class InputMiddleware:
    """Refuse requests with characters that can neither be stored nor logged."""

    def __init__(self, get_response: GetResponse) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Serve a request, or name what is wrong with it."""
        problem = request_problem(request)
        if problem is None:
            return self._get_response(request)
        if is_api(request):
            content = problem_content(problem, request)
            return HttpResponse(content, status=400, content_type=MEDIA_TYPE)
        return render(request, "400.html", {"detail": problem.detail}, status=400)


def is_api(request: HttpRequest) -> bool:
    """Return True if the path is under ``/api/``."""
    return f"{request.path_info}/".startswith("/api/")


class SecurityHeadersMiddleware:
    """Add a strict Content-Security-Policy to every response: own files only, no inline code."""

    def __init__(self, get_response: GetResponse) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Serve a request and add the headers."""
        response = self._get_response(request)
        policy = content_security_policy(stream_origin(request.META.get("HTTP_HOST", "")))
        response.headers.setdefault("Content-Security-Policy", policy)
        response.headers.setdefault(
            "Permissions-Policy", "camera=(), geolocation=(), microphone=()"
        )
        return response


def content_security_policy(stream_origin: str) -> str:
    """Return the policy; ``stream_origin`` serves the event stream, empty = same origin."""
    return "; ".join(
        (
            "default-src 'self'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self' data: blob:",
            f"connect-src 'self' {stream_origin}".rstrip(),
            "object-src 'none'",
            "frame-ancestors 'none'",
            "base-uri 'self'",
            "form-action 'self'",
        )
    )
