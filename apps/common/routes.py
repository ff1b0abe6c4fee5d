"""Addresses end in a slash; the form without is served too, never by redirecting a write."""

from typing import Any

from django.urls import URLPattern, path


def route(address: str, view: Any, name: str) -> list[URLPattern]:
    """Return the canonical address and, hidden from the schema, its form without the slash."""
    return [path(address, view, name=name), path(address.rstrip("/"), view)]


def canonical_only(endpoints: list[tuple[str, str, str, Any]]) -> list[tuple[str, str, str, Any]]:
    """Keep the addresses that end in a slash (drf-spectacular's preprocessing hook)."""
    return [endpoint for endpoint in endpoints if endpoint[0].endswith("/")]
