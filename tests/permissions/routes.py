"""Every route of the URL configuration, with the methods that its view handles."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from django.urls import URLPattern, URLResolver, get_resolver

# HEAD runs the handler of GET; OPTIONS describes the route.
METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")


@dataclass(frozen=True, slots=True)
class Route:
    """One route.

    Attributes
    ----------
    pattern : the address with its placeholders; without the final slash under ``api/``, where
        both forms lead to the same view
    methods : handled methods; None for a function, which does not declare them
    """

    pattern: str
    methods: frozenset[str] | None


def all_routes() -> dict[str, Route]:
    """Return the routes by pattern.

    Raises
    ------
    AssertionError : the forms of a route with and without its final slash differ.
    """
    found: dict[str, Route] = {}
    for pattern, callback in _leaves(get_resolver().url_patterns, ""):
        name = _canonical(pattern)
        route = Route(name, _handled(callback))
        assert found.setdefault(name, route) == route, f"two views serve {name}"
    return found


def _canonical(pattern: str) -> str:
    return pattern.rstrip("/") if pattern.startswith("api/v1/") else pattern


def _leaves(
    patterns: Sequence[URLPattern | URLResolver], prefix: str
) -> Iterator[tuple[str, Any]]:
    for entry in patterns:
        address = prefix + str(entry.pattern)
        if isinstance(entry, URLResolver):
            yield from _leaves(entry.url_patterns, address)
        else:
            yield address, entry.callback


def _handled(callback: Any) -> frozenset[str] | None:
    view = getattr(callback, "view_class", None) or getattr(callback, "cls", None)
    if view is None:
        return None
    allowed = view.http_method_names
    return frozenset(m for m in METHODS if m.lower() in allowed and hasattr(view, m.lower()))
