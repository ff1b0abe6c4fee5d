"""What every response carries, whoever made it."""

import time
from collections.abc import Callable
from typing import Final

from django.conf import settings
from django.http import HttpRequest, HttpResponse

from apps.common.request_id import begin_request, choose_request_id, end_request

API_VERSION: Final = "1.0"
GetResponse = Callable[[HttpRequest], HttpResponse]


class RequestIdMiddleware:
    """Gives every request an id and every response the headers that name it.

    These are ``X-Request-ID``, ``API-Version`` and ``Server-Timing``. Stands first, so that what
    other middleware answers carries them too.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Serve the request under its id."""
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


class SecurityHeadersMiddleware:
    """Gives every response a strict Content-Security-Policy: own files only, nothing inline."""

    def __init__(self, get_response: GetResponse) -> None:
        self._get_response = get_response
        self._policy = content_security_policy(settings.BERTH_STREAM_ORIGIN)

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Serve the request and add the headers."""
        response = self._get_response(request)
        response.headers.setdefault("Content-Security-Policy", self._policy)
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
