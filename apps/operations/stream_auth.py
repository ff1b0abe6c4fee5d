"""Who may follow the event stream: a ticket, a bearer token or a browser session."""

from http.cookies import CookieError, SimpleCookie
from importlib import import_module
from typing import Final
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib.auth import get_user
from django.http import HttpRequest
from django.http.request import split_domain_port, validate_host

from apps.accounts.core.principal import Principal
from apps.accounts.selectors import principal_by_token, principal_by_user
from apps.operations.tickets import redeem_ticket

LOOPBACK: Final = frozenset({"127.0.0.1", "localhost", "::1"})


def authenticate(headers: dict[str, str], ticket: str | None) -> Principal | None:
    """Return the caller, None where nothing proves who it is. Queries the database."""
    if ticket:
        user_id = redeem_ticket(ticket)
        return principal_by_user(user_id) if user_id else None
    scheme, _, secret = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        found = principal_by_token(secret.strip())
        return found[0] if found else None
    return _by_session(headers.get("cookie", ""))


def _by_session(cookie: str) -> Principal | None:
    try:
        morsel = SimpleCookie(cookie).get(settings.SESSION_COOKIE_NAME)
    except CookieError:
        return None
    if morsel is None:
        return None
    request = HttpRequest()
    request.session = import_module(settings.SESSION_ENGINE).SessionStore(morsel.value)
    user = get_user(request)
    return principal_by_user(user.pk) if user.is_authenticated else None


def is_known_host(host: str) -> bool:
    """Return True where the Host header names this installation."""
    domain, _ = split_domain_port(host)
    return bool(domain) and validate_host(domain, settings.ALLOWED_HOSTS)


def may_read_from(origin: str) -> bool:
    """Return True where pages of another origin may read the stream with the caller's cookies.

    Pages on this very machine may, because `./dev run` serves pages and stream on two ports;
    others must be listed in CSRF_TRUSTED_ORIGINS.
    """
    if origin in settings.CSRF_TRUSTED_ORIGINS:
        return True
    stream = urlsplit(settings.BERTH_STREAM_ORIGIN).hostname
    return stream in LOOPBACK and urlsplit(origin).hostname == stream
