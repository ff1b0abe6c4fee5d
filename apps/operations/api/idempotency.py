"""Idempotency keys: a request runs once, and repeats get the same response.

The key is inserted in the transaction that creates the object, so neither exists without the
other. The unique constraint decides between concurrent requests (Nomad checked before its
transaction, and both ran: nomad#26690).
"""

import hashlib
from collections.abc import Callable
from typing import Any, Final

from django.db import OperationalError, transaction
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import principal_of
from apps.common.api.inputs import idempotency_key
from apps.common.api.problems import ProblemError
from apps.common.core.errors import ControlPlaneError
from apps.common.core.keyed_requests import KeyedRequest, KeyedResponse, body_digest
from apps.common.core.problem_codes import ProblemCode
from apps.operations.selectors import stored_response
from apps.operations.services import store_response

WAIT_MS: Final = 2000  # for a concurrent request with the same key
MAX_ROUTE: Final = 100  # characters
_LOCK_NOT_AVAILABLE: Final = "55P03"


def once(request: Request, body: Any, make: Callable[[], KeyedResponse]) -> Response:
    """Run ``make`` in a transaction, once per Idempotency-Key, and return its response.

    Without the header it always runs. Repeats get the first response with ``Idempotency-Replayed:
    true``.

    Raises
    ------
    ProblemError : the key is malformed, was used with another body, or is in use right now.
    """
    keyed = read_key(request, body)
    if keyed is None:
        with transaction.atomic():
            answer = make()
        return _respond(answer)
    try:
        with transaction.atomic():
            answer = make()
            is_first = store_response(keyed, answer, wait_ms=WAIT_MS)
            if not is_first:
                transaction.set_rollback(True)
    except ControlPlaneError:
        if stored_response(keyed) is None:
            raise
        return _replay(keyed)  # the object of the first request may cause the conflict
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", None) == _LOCK_NOT_AVAILABLE:
            raise ProblemError(
                ProblemCode.KEY_IN_FLIGHT,
                f"Another request with the key {keyed.key!r} is still running.",
                headers={"Retry-After": "1"},
            ) from error
        raise
    return _respond(answer) if is_first else _replay(keyed)


def read_key(request: Request, body: Any) -> KeyedRequest | None:
    """Return the key of a request; None if it has none."""
    key = idempotency_key(request._request)
    if key is None:
        return None
    return KeyedRequest(
        principal_id=principal_of(request).user_id,
        route=_route(f"{request.method} {request.path.rstrip('/')}/"),
        key=key,
        body_digest=body_digest(body),
    )


def _route(route: str) -> str:
    """Return a route, or of a long one the beginning and a digest, as the column is short."""
    if len(route) <= MAX_ROUTE:
        return route
    digest = hashlib.sha256(route.encode(errors="surrogatepass")).hexdigest()
    return route[: MAX_ROUTE - len(digest)] + digest


def _replay(keyed: KeyedRequest) -> Response:
    found = stored_response(keyed)
    if found is None:  # pruned between the conflict and this read
        raise ProblemError(ProblemCode.KEY_IN_FLIGHT, "Try again.", headers={"Retry-After": "1"})
    answer, is_same_body = found
    if not is_same_body:
        raise ProblemError(
            ProblemCode.KEY_REUSED, f"The key {keyed.key!r} belongs to another request."
        )
    response = _respond(answer)
    response["Idempotency-Replayed"] = "true"
    return response


def _respond(answer: KeyedResponse) -> Response:
    headers = {"Location": answer.location} if answer.location else {}
    return Response(answer.response, status=answer.status, headers=headers)
