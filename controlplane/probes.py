"""Probes are answered before host names and HTTPS are checked."""

from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.urls import Resolver404, resolve

GetResponse = Callable[[HttpRequest], HttpResponse]


class ProbeMiddleware:
    """Serve `/healthz`, `/readyz` and `/metrics` to whoever reaches the process.

    A probe calls a container by its address and without TLS, which `ALLOWED_HOSTS` and
    `SECURE_SSL_REDIRECT` refuse. These views neither use the host name nor set a cookie. All other
    requests pass on to the checks.
    """

    def __init__(self, get_response: GetResponse) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Call the view of a probe; pass other requests on."""
        try:
            probe = resolve(request.path_info, urlconf="controlplane.probe_urls")
        except Resolver404:
            return self._get_response(request)
        response: HttpResponse = probe.func(request)
        return response
