"""Keyed requests: done once, answered the same every time.

The key is inserted in the transaction that makes the object, so neither exists without the other;
the unique constraint decides between concurrent requests (Nomad checked before its transaction,
and both ran: nomad#26690).
"""

from collections.abc import Callable
from typing import Any, Final

from django.db import OperationalError, connection, transaction
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.permissions import principal_of
from apps.common.core.errors import ControlPlaneError
from apps.common.core.problem_codes import ProblemCode
from apps.common.problems import ProblemError
from apps.operations.core.keys import KeyedAnswer, KeyedRequest, body_digest
from apps.operations.selectors import kept_answer
from apps.operations.services import keep_answer

HEADER: Final = "HTTP_IDEMPOTENCY_KEY"
WAIT_MS: Final = 2000  # for a concurrent request with the same key
_LOCK_NOT_AVAILABLE: Final = "55P03"


def once(request: Request, body: Any, make: Callable[[], KeyedAnswer]) -> Response:
    """Run ``make`` in a transaction, once per Idempotency-Key, and answer with what it returns.

    Without the header it simply runs. Repeats get the first answer with ``Idempotency-Replayed:
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
            with connection.cursor() as cursor:
                cursor.execute(f"SET LOCAL lock_timeout = {WAIT_MS}")
            is_first = keep_answer(keyed, answer)
            if not is_first:
                transaction.set_rollback(True)
    except ControlPlaneError:
        if kept_answer(keyed) is None:
            raise
        return _replay(keyed)  # what the first request made may stand in the way of making it
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", None) == _LOCK_NOT_AVAILABLE:
            raise ProblemError(
                ProblemCode.KEY_IN_FLIGHT,
                f"The key {keyed.key!r} is being worked on.",
                headers={"Retry-After": "1"},
            ) from error
        raise
    return _respond(answer) if is_first else _replay(keyed)


def read_key(request: Request, body: Any) -> KeyedRequest | None:
    """Return the key of a request; None where it has none."""
    key = request.META.get(HEADER)
    if key is None:
        return None
    key = key.strip().strip('"')
    if not key or len(key) > 200 or not key.isprintable() or not key.isascii():
        raise ProblemError(
            ProblemCode.MALFORMED_REQUEST,
            "Idempotency-Key must have 1 to 200 printable ASCII characters.",
        )
    return KeyedRequest(
        principal_id=principal_of(request).user_id,
        route=f"{request.method} {request.path.rstrip('/')}/"[:100],
        key=key,
        body_digest=body_digest(body),
    )


def _replay(keyed: KeyedRequest) -> Response:
    found = kept_answer(keyed)
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


def _respond(answer: KeyedAnswer) -> Response:
    headers = {"Location": answer.location} if answer.location else {}
    return Response(answer.response, status=answer.status, headers=headers)
