"""Pages that do not exist or are not allowed: what was meant, and ways on."""

from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Final
from urllib.parse import unquote

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from apps.accounts.selectors import principal_by_user
from apps.common.api.middleware import is_api
from apps.dashboard.core.nearest import nearest_names
from apps.dashboard.selectors import applications, servers
from apps.dashboard.selectors.administration import project_names
from apps.dashboard.views.search import results_of

SHOWN: Final = 6
NamesStartingWith = Callable[[str], list[str]]
# first segment of an address: the list of its kind
LISTS: Final = {
    "jobs": ("jobs", "Jobs"),
    "servers": ("map", "Cluster map"),
    "map": ("map", "Cluster map"),
    "applications": ("applications", "Applications"),
    "plans": ("plans", "Plans"),
    "calibrate": ("calibrate", "Calibrate"),
    "decisions": ("decisions", "Decisions"),
    "projects": ("projects", "Projects"),
    "classification": ("classification", "Classification"),
    "sampling": ("sampling", "Sampling"),
    "lab": ("lab", "Lab"),
    "submit": ("submit", "Submit"),
    "system": ("system", "System"),
}
USUAL: Final = ("jobs", "servers", "applications", "decisions")


@dataclass(frozen=True, slots=True)
class Way:
    """A link to a page."""

    name: str
    url: str
    what: str = ""


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Show that a page does not exist, with similar names, lists and a search."""
    return _lost(request, "404.html", 404, exception)


def forbidden(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Show that a page needs another role, with the pages that do not."""
    return _lost(request, "403.html", 403, exception)


def _lost(request: HttpRequest, template: str, status: int, exception: Exception) -> HttpResponse:
    text = str(exception.args[0]) if exception.args and not _is_unresolved(exception) else ""
    context: dict[str, Any] = {"detail": text, "frame": "dashboard/error.html"}
    if _is_page_of_user(request):
        kind, name = _parts(request.path_info)
        context |= {
            "frame": "dashboard/lost_page.html",
            "ways": _ways(request, kind, name) if status == 404 else [],
            "lists": _lists(kind),
            "name": name,
        }
    return render(request, template, context, status=status)


def _is_unresolved(exception: Exception) -> bool:
    """Whether no route matches; the text of that exception is about routes."""
    return bool(exception.args) and isinstance(exception.args[0], dict)


def _is_page_of_user(request: HttpRequest) -> bool:
    """Whether a signed-in user opens a page; figures and the API are read by scripts."""
    is_page = not is_api(request) and not request.path_info.startswith("/figures/")
    return is_page and hasattr(request, "user") and request.user.is_authenticated


def _parts(path: str) -> tuple[str, str]:
    """Return the first segment of an address, and the rest of it."""
    kind, _, name = unquote(path).strip("/").partition("/")
    return kind, name.strip("/")


def _lists(kind: str) -> list[Way]:
    """Return the list of the kind, or the one with the most similar address, then the others."""
    near = get_close_matches(kind, LISTS, n=2, cutoff=0.6)
    listed = dict.fromkeys(LISTS[one] for one in (*near, *USUAL))
    return [Way(label, reverse(route)) for route, label in listed]


def _ways(request: HttpRequest, kind: str, name: str) -> list[Way]:
    """Return objects that the user may see with a similar name or id, exact ones first."""
    found = [Way(one["name"], one["url"], one["what"]) for one in results_of(request, name)]
    if len(found) < SHOWN:
        found += _nearest(request, kind, name)
    return list({way.url: way for way in found}.values())[:SHOWN]


def _nearest(request: HttpRequest, kind: str, name: str) -> list[Way]:
    principal = principal_by_user(request.user.pk) if request.user.pk is not None else None
    routes: dict[str, tuple[str, NamesStartingWith]] = {
        "servers": ("server", servers.names_starting_with),
        "applications": ("application", applications.names_starting_with),
    }
    if principal is not None:
        routes["projects"] = ("project", lambda start: project_names(principal, start))
    kinds = get_close_matches(kind, routes, n=1, cutoff=0.6)
    return [
        Way(near, reverse(route, args=[near]), route)
        for route, starting_with in (routes[one] for one in kinds)
        for near in nearest_names(name, starting_with)
    ]
