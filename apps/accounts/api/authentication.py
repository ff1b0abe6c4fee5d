"""Authentication: a bearer token, or a browser session with its CSRF token."""

from typing import Any

from django.contrib.auth import get_user
from rest_framework.authentication import BaseAuthentication, SessionAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.request import Request

from apps.accounts.core.principal import Principal
from apps.accounts.core.sign_in import BEFORE_PASSWORD_CHANGE
from apps.accounts.infrastructure.actor import identify_actor
from apps.accounts.models import User
from apps.accounts.selectors import principal_by_token, principal_by_user
from apps.accounts.services import record_token_use
from apps.common.api.problems import ProblemError
from apps.common.core.problem_codes import ProblemCode


class Caller:
    """The ``request.user``; the caller's rights are in ``request.auth``, a `Principal`."""

    is_authenticated = True
    is_active = True
    is_anonymous = False

    def __init__(self, principal: Principal) -> None:
        self.pk = self.id = principal.user_id
        self.username = principal.username

    def __str__(self) -> str:
        return self.username


class TokenAuthentication(BaseAuthentication):
    """Authenticates ``Authorization: Bearer berth_...`` with one query."""

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        """Return the caller, or None without a bearer token."""
        scheme, _, secret = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        match = principal_by_token(secret.strip())
        if match is None:
            raise AuthenticationFailed("The token is unknown, expired or revoked.")
        principal, is_use_recorded_long_ago = match
        if is_use_recorded_long_ago and principal.token_id:
            record_token_use(principal.token_id)
        identify_actor(principal.user_id, principal.username, principal.token_id)
        return Caller(principal), principal

    def authenticate_header(self, request: Request) -> str:
        """Return the challenge of a 401."""
        return 'Bearer realm="berth"'


class BrowserAuthentication(SessionAuthentication):
    """Authenticates the session cookie; writes need the CSRF token of the session."""

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        """Return the signed-in caller, or None."""
        user = get_user(request._request)
        if not isinstance(user, User):
            return None
        self.enforce_csrf(request)
        if user.must_change_password and not _is_allowed_before_change(request):
            raise ProblemError(
                ProblemCode.PASSWORD_CHANGE_REQUIRED,
                "This session began with a one-time password: choose a password of your own.",
            )
        principal = principal_by_user(user.pk)
        if principal is None:
            raise AuthenticationFailed("The account has been deactivated.")
        identify_actor(principal.user_id, principal.username)
        return Caller(principal), principal


def _is_allowed_before_change(request: Request) -> bool:
    match = request._request.resolver_match
    return match is not None and match.url_name in BEFORE_PASSWORD_CHANGE
