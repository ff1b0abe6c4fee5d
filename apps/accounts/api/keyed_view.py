"""Views of accounts that run a request once per Idempotency-Key.

The app that stores the responses is above accounts, so the routes pass its function in.
"""

from collections.abc import Callable
from typing import Any, cast

from django.http.response import HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response

from apps.common.api.views import ApiView
from apps.common.core.keyed_requests import KeyedResponse

# Runs a request once: (request, what identifies it, what it does).
Once = Callable[[Request, Any, Callable[[], KeyedResponse]], Response]


class KeyedView(ApiView):
    """A view whose POST runs once per Idempotency-Key; see `keyed`."""

    takes_key = True
    once: Once


def keyed(view: type[KeyedView], once: Once) -> Callable[..., HttpResponseBase]:
    """Return the function of a view that runs its POST by ``once``."""
    attributes = {"once": staticmethod(once), "__doc__": view.__doc__}
    wired = cast("type[KeyedView]", type(view.__name__, (view,), attributes))
    return wired.as_view()
