"""Pages of long lists."""

from collections.abc import Callable
from typing import TypeVar

from django.http import HttpRequest

from apps.common.api.problems import ProblemError

Page = TypeVar("Page")


def requested_page(request: HttpRequest, read: Callable[[str | None], Page]) -> tuple[Page, bool]:
    """Return the requested page, or the first one if its cursor is stale, and whether it is."""
    try:
        return read(request.GET.get("cursor")), False
    except ProblemError:
        return read(None), True
