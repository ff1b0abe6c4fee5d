"""Routes end in a slash. The form without it is served too: a redirect would lose a write."""

from typing import Any

from django.urls import URLPattern, path


def route(address: str, view: Any, name: str) -> list[URLPattern]:
    """Return the canonical route and its form without the slash, which the schema omits."""
    return [path(address, view, name=name), path(address.rstrip("/"), view)]


def canonical_only(endpoints: list[tuple[str, str, str, Any]]) -> list[tuple[str, str, str, Any]]:
    """Keep the routes that end in a slash (drf-spectacular's preprocessing hook)."""
    return [endpoint for endpoint in endpoints if endpoint[0].endswith("/")]
