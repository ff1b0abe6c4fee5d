"""Authentication of the event stream: by ticket, bearer token or browser session."""

from http.cookies import CookieError, SimpleCookie
from urllib.parse import urlsplit

from django.conf import settings
from django.http.request import split_domain_port, validate_host

from apps.accounts.core.principal import Credential, Principal
from apps.accounts.selectors import current_principals, principal_by_token
from apps.common.core.plain_text import has_control_character
from apps.common.infrastructure.stream_origin import LOOPBACK, stream_origin
from apps.operations.api.tickets import redeem_ticket


def authenticate(
    headers: dict[str, str], ticket: str | None
) -> tuple[Credential, Principal] | None:
    """Return what the caller identified with, and its rights; None if that is not valid.

    Queries the database.
    """
    credential = _credential(headers, ticket)
    if credential is None:
        return None
    principal = current_principals([credential]).get(credential)
    return None if principal is None else (credential, principal)


def _credential(headers: dict[str, str], ticket: str | None) -> Credential | None:
    if ticket:
        return redeem_ticket(ticket)
    scheme, _, secret = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        found = principal_by_token(secret.strip())
        return Credential(token_id=found[0].token_id) if found else None
    try:
        morsel = SimpleCookie(headers.get("cookie", "")).get(settings.SESSION_COOKIE_NAME)
    except CookieError:
        return None
    if morsel is None or has_control_character(morsel.value):
        return None
    return Credential(session_key=morsel.value)


def is_known_host(host: str) -> bool:
    """Return True if the Host header names this installation."""
    domain, _ = split_domain_port(host)
    return bool(domain) and validate_host(domain, settings.ALLOWED_HOSTS)


def may_read_from(origin: str, host: str) -> bool:
    """Return True if pages of another origin may read the stream with the caller's cookies.

    Pages of the same machine may, under the name by which they call the stream (its Host header),
    because `./dev run` serves pages and stream on two ports; others must be listed in
    CSRF_TRUSTED_ORIGINS.
    """
    if origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    stream = urlsplit(stream_origin(host)).hostname
    page, _ = split_domain_port(origin.partition("://")[2])
    return stream in LOOPBACK and page.strip("[]") == stream
