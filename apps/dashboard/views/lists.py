"""Pages of long lists, cut by key."""

from collections.abc import Callable
from typing import TypeVar

from django.http import HttpRequest

from apps.common.problems import ProblemError

Page = TypeVar("Page")


def asked_page(request: HttpRequest, read: Callable[[str | None], Page]) -> tuple[Page, bool]:
    """Read the page that the address asks for, or the first one where that exists no more.

    Returns it and whether it is another than asked for, which the page then says.
    """
    try:
        return read(request.GET.get("cursor")), False
    except ProblemError:
        return read(None), True
