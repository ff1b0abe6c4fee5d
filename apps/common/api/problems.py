"""Translation of every error of the API to a problem document (RFC 9457)."""

import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from django.core.exceptions import PermissionDenied, RequestDataTooBig, SuspiciousOperation
from django.db import InterfaceError, OperationalError
from django.http import Http404
from rest_framework import exceptions
from rest_framework.response import Response

from apps.common.core.errors import (
    ConflictError,
    ControlPlaneError,
    CredentialError,
    FieldProblem,
    InvalidInputError,
    NotFoundError,
    TransientError,
)
from apps.common.core.preconditions import ChangedMeanwhileError
from apps.common.core.problem_codes import CATALOGUE, ProblemCode

MEDIA_TYPE: Final = "application/problem+json"
RETRY_AFTER_S: Final = 2
INTERNAL: Final = "An internal error occurred. It has been logged under the request id."
_logger = logging.getLogger(__name__)


class ProblemError(ControlPlaneError):
    """A problem response, raised by an entry point."""

    def __init__(
        self,
        code: ProblemCode,
        detail: str,
        *,
        errors: Sequence[FieldProblem] = (),
        headers: Mapping[str, str] | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(detail)
        self.code = code
        self.detail = detail
        self.errors = errors
        self.headers = dict(headers or {})
        self.extra = dict(extra or {})


def problem_body(error: ProblemError, *, instance: str, request_id: str) -> dict[str, Any]:
    """Return the JSON body of a problem."""
    kind = CATALOGUE[error.code]
    return {
        "type": f"/api/v1/errors/#{error.code}",
        "title": kind.title,
        "status": kind.status,
        "detail": error.detail,
        "instance": instance,
        "code": error.code.value,
        "request_id": request_id,
        "errors": [
            {"pointer": p.pointer, "code": p.code, "detail": p.detail} for p in error.errors
        ],
        "advice": kind.advice,
        "retryable": kind.retryable,
        **error.extra,
    }


def problem_content(error: ProblemError, request: Any) -> bytes:
    """Return the encoded problem document of a request."""
    body = problem_body(error, instance=request.path, request_id=_request_id(request))
    return json.dumps(body).encode()


# The first code of a status in the catalogue, except that CSRF has its own code.
_BY_STATUS: Final = {
    **{CATALOGUE[code].status: code for code in reversed(CATALOGUE)},
    403: ProblemCode.PERMISSION_DENIED,
}


def problem_of_status(status: int) -> ProblemError:
    """Return the problem of an error of which only the status is known."""
    other = ProblemCode.MALFORMED_REQUEST if status < 500 else ProblemCode.INTERNAL_ERROR
    code = _BY_STATUS.get(status, other)
    detail = INTERNAL if code is ProblemCode.INTERNAL_ERROR else f"{CATALOGUE[code].title}."
    return ProblemError(code, detail, extra={"status": status})


def as_problem(error: Exception) -> ProblemError | None:
    """Translate an exception; None if it is a bug, which is logged and answered with 500."""
    if isinstance(error, ProblemError):
        return error
    for kind, translate in _TRANSLATIONS:
        if isinstance(error, kind):
            return translate(error)
    return None


def _invalid_input(error: Any) -> ProblemError:
    many = f"{len(error.problems)} fields are invalid" if len(error.problems) > 1 else ""
    return ProblemError(ProblemCode.INVALID_INPUT, many or str(error), errors=error.problems)


def _with_own_text(code: ProblemCode, default: str) -> Callable[[Any], ProblemError]:
    """Return a translation that keeps the text of the exception, if any."""
    return lambda error: ProblemError(code, str(error) or default)


def _database_away(error: Any) -> ProblemError:
    _logger.warning("database unavailable: %s", error)
    return _unavailable("The database is unavailable.")


def _changed_meanwhile(error: ChangedMeanwhileError) -> ProblemError:
    tag = f'"g{error.generation}"'
    return ProblemError(
        ProblemCode.PRECONDITION_FAILED,
        str(error),
        headers={"ETag": tag},
        extra={"current_etag": tag, "current_generation": error.generation},
    )


def _unavailable(detail: str) -> ProblemError:
    return ProblemError(
        ProblemCode.SERVICE_UNAVAILABLE, detail, headers={"Retry-After": str(RETRY_AFTER_S)}
    )


_BY_EXCEPTION: Final[tuple[tuple[type[exceptions.APIException], ProblemCode], ...]] = (
    (exceptions.NotAuthenticated, ProblemCode.NOT_AUTHENTICATED),
    (exceptions.AuthenticationFailed, ProblemCode.NOT_AUTHENTICATED),
    (exceptions.NotFound, ProblemCode.NOT_FOUND),
    (exceptions.MethodNotAllowed, ProblemCode.METHOD_NOT_ALLOWED),
    (exceptions.NotAcceptable, ProblemCode.NOT_ACCEPTABLE),
    (exceptions.UnsupportedMediaType, ProblemCode.UNSUPPORTED_MEDIA_TYPE),
    (exceptions.ParseError, ProblemCode.MALFORMED_JSON),
    (exceptions.Throttled, ProblemCode.TOO_MANY_REQUESTS),
)


def _from_rest_framework(error: exceptions.APIException) -> ProblemError:
    detail = str(error.detail)
    if isinstance(error, exceptions.PermissionDenied):
        csrf = detail.startswith("CSRF Failed")
        code = ProblemCode.CSRF_FAILED if csrf else ProblemCode.PERMISSION_DENIED
        return ProblemError(code, detail)
    for kind, code in _BY_EXCEPTION:
        if isinstance(error, kind):
            return ProblemError(code, detail, headers=_headers(error))
    return ProblemError(ProblemCode.MALFORMED_REQUEST, detail)


def _headers(error: exceptions.APIException) -> dict[str, str]:
    headers = {}
    challenge = getattr(error, "auth_header", None)  # set by rest_framework's handler
    if challenge:
        headers["WWW-Authenticate"] = challenge
    wait_s = getattr(error, "wait", None)
    if wait_s is not None:
        headers["Retry-After"] = str(max(1, int(wait_s + 0.999)))
    return headers


# The first match counts: subclasses come before their base classes.
_TRANSLATIONS: Final[tuple[tuple[type[Exception], Callable[[Any], ProblemError]], ...]] = (
    (InvalidInputError, _invalid_input),
    (NotFoundError, _with_own_text(ProblemCode.NOT_FOUND, "There is no such object.")),
    (Http404, _with_own_text(ProblemCode.NOT_FOUND, "There is no such object.")),
    (ChangedMeanwhileError, _changed_meanwhile),
    (
        ConflictError,
        _with_own_text(ProblemCode.STATE_CONFLICT, "The object's state does not allow this."),
    ),
    (CredentialError, lambda error: ProblemError(ProblemCode.NOT_AUTHENTICATED, str(error))),
    (TransientError, lambda error: _unavailable(str(error))),
    (OperationalError, _database_away),
    (InterfaceError, _database_away),
    (PermissionDenied, _with_own_text(ProblemCode.PERMISSION_DENIED, "Not allowed.")),
    (RequestDataTooBig, _with_own_text(ProblemCode.BODY_TOO_LARGE, "The body is too large.")),
    (
        SuspiciousOperation,
        lambda _: ProblemError(ProblemCode.MALFORMED_REQUEST, "The request is not valid."),
    ),
    (exceptions.APIException, _from_rest_framework),
)


def handle_exception(error: Exception, context: dict[str, Any]) -> Response:
    """Answer an exception of an API view (REST_FRAMEWORK's EXCEPTION_HANDLER)."""
    request = context["request"]
    problem = as_problem(error)
    if problem is None:
        _logger.error("unexpected error at %s %s", request.method, request.path, exc_info=error)
        problem = ProblemError(ProblemCode.INTERNAL_ERROR, INTERNAL)
    body = problem_body(problem, instance=request.path, request_id=_request_id(request))
    return Response(
        body,
        status=CATALOGUE[problem.code].status,
        headers=problem.headers,
        content_type=MEDIA_TYPE,
    )


def _request_id(request: Any) -> str:
    return str(request.META.get("BERTH_REQUEST_ID", ""))
