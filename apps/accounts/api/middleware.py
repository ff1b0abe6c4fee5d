"""The caller of a request: its address, and who it is once a view has authenticated it."""

from collections.abc import Callable
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse

from apps.accounts.core.sign_in import BEFORE_PASSWORD_CHANGE
from apps.accounts.infrastructure.actor import Actor, Via, acting_as
from apps.common.core.addresses import client_address

GetResponse = Callable[[HttpRequest], HttpResponse]
ADDRESS = "BERTH_CLIENT_ADDRESS"


class ActorMiddleware:
    """Attribute the acts of a request to its caller, and forget the caller afterwards."""

    def __init__(self, get_response: GetResponse) -> None:
        self._get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Serve a request as its caller."""
        address = client_address(
            request.META.get("REMOTE_ADDR", ""),
            request.META.get("HTTP_X_FORWARDED_FOR", ""),
            settings.BERTH_TRUSTED_PROXIES,
        )
        request.META[ADDRESS] = address
        with acting_as(Actor(via=Via.SESSION, address=address)):
            return self._get_response(request)

    def process_view(
        self, request: HttpRequest, view: Any, args: Any, kwargs: Any
    ) -> HttpResponse | None:
        """Send a session that began with a one-time password to the page that replaces it.

        Requests to the API get a problem response instead, from `BrowserAuthentication`.
        """
        match = request.resolver_match
        if request.path.startswith("/api/") or match is None:
            return None
        if match.url_name in BEFORE_PASSWORD_CHANGE or settings.SESSION_COOKIE_NAME not in (
            request.COOKIES
        ):
            return None
        must_change = getattr(request.user, "must_change_password", False)
        return HttpResponseRedirect(reverse("password")) if must_change else None
