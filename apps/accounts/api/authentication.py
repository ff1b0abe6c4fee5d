"""Who is calling: a bearer token, or a browser session with its CSRF token."""

from typing import Any

from django.contrib.auth import get_user
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from apps.accounts.core.principal import Principal
from apps.accounts.selectors import principal_by_token, principal_by_user
from apps.accounts.services import note_token_use


class Caller:
    """What rest_framework calls the user; the rights are in ``request.auth``, a `Principal`."""

    is_authenticated = True
    is_active = True
    is_anonymous = False

    def __init__(self, principal: Principal) -> None:
        self.pk = self.id = principal.user_id
        self.username = principal.username

    def __str__(self) -> str:
        return self.username


class TokenAuthentication(BaseAuthentication):
    """``Authorization: Bearer berth_...``; one query."""

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        """Return the caller, or None where no bearer token was sent."""
        scheme, _, secret = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        found = principal_by_token(secret.strip())
        if found is None:
            raise AuthenticationFailed("The token is unknown, expired or revoked.")
        principal, is_worth_noting = found
        if is_worth_noting and principal.token_id:
            note_token_use(principal.token_id)
        return Caller(principal), principal

    def authenticate_header(self, request: Request) -> str:
        """Return the challenge of a 401."""
        return 'Bearer realm="berth"'


class BrowserAuthentication(SessionAuthentication):
    """The session cookie; writes must also carry the session's CSRF token."""

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        """Return the signed-in caller, or None."""
        user = get_user(request._request)
        if not user.is_authenticated:
            return None
        self.enforce_csrf(request)
        principal = principal_by_user(user.pk)
        if principal is None:
            raise AuthenticationFailed("The account is not active any more.")
        return Caller(principal), principal
