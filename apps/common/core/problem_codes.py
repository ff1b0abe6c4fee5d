"""The catalogue of problem responses (RFC 9457). Codes are stable, texts are not."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final


class ProblemCode(StrEnum):
    """Machine-readable code of a problem."""

    MALFORMED_REQUEST = "malformed_request"
    MALFORMED_JSON = "malformed_json"
    UNKNOWN_PARAMETER = "unknown_parameter"
    INVALID_PARAMETER = "invalid_parameter"
    INVALID_CURSOR = "invalid_cursor"
    KEY_REQUIRED = "key_required"
    NOT_AUTHENTICATED = "not_authenticated"
    CSRF_FAILED = "csrf_failed"
    PERMISSION_DENIED = "permission_denied"
    PASSWORD_CHANGE_REQUIRED = "password_change_required"  # noqa: S105 - a code
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    NOT_ACCEPTABLE = "not_acceptable"
    STATE_CONFLICT = "state_conflict"
    COUNT_DIFFERS = "count_differs"
    KEY_IN_FLIGHT = "key_in_flight"
    PLAN_SUPERSEDED = "plan_superseded"
    STREAM_POSITION_GONE = "stream_position_gone"
    PRECONDITION_FAILED = "precondition_failed"
    BODY_TOO_LARGE = "body_too_large"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    INVALID_INPUT = "invalid_input"
    KEY_REUSED = "key_reused"
    INFEASIBLE_TARGET = "infeasible_target"
    PRECONDITION_REQUIRED = "precondition_required"
    TOO_MANY_REQUESTS = "too_many_requests"
    INTERNAL_ERROR = "internal_error"
    SERVICE_UNAVAILABLE = "service_unavailable"


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """The constant part of all problems of one code.

    Attributes
    ----------
    status : HTTP status
    title : one short sentence
    advice : what the caller can do
    retryable : True if the same request may succeed later
    """

    status: int
    title: str
    advice: str
    retryable: bool = False


CATALOGUE: Final[dict[ProblemCode, ProblemKind]] = {
    ProblemCode.MALFORMED_REQUEST: ProblemKind(
        400, "The request cannot be understood", "Compare it with the schema at /api/v1/schema/."
    ),
    ProblemCode.MALFORMED_JSON: ProblemKind(
        400, "The body is not valid JSON", "Correct the body; the detail names line and column."
    ),
    ProblemCode.UNKNOWN_PARAMETER: ProblemKind(
        400,
        "There is no such query parameter",
        "Use one of the parameters that the detail lists.",
    ),
    ProblemCode.INVALID_PARAMETER: ProblemKind(
        400, "A query parameter has an invalid value", "Correct the value that the detail names."
    ),
    ProblemCode.INVALID_CURSOR: ProblemKind(
        400,
        "The cursor does not belong to this list",
        "Follow the next and previous links unchanged, or start without a cursor.",
    ),
    ProblemCode.KEY_REQUIRED: ProblemKind(
        400,
        "The project requires an Idempotency-Key",
        "Send an Idempotency-Key header, a new key for each new job.",
    ),
    ProblemCode.NOT_AUTHENTICATED: ProblemKind(
        401,
        "You are not signed in",
        "Send 'Authorization: Bearer TOKEN' with a token that is neither expired nor revoked.",
    ),
    ProblemCode.CSRF_FAILED: ProblemKind(
        403,
        "The CSRF token is missing or wrong",
        "Send the CSRF token of the session in X-CSRFToken, or use a bearer token.",
    ),
    ProblemCode.PERMISSION_DENIED: ProblemKind(
        403,
        "Your role does not allow this",
        "Ask an administrator for the role that the detail names.",
    ),
    ProblemCode.PASSWORD_CHANGE_REQUIRED: ProblemKind(
        403,
        "You have to choose a password first",
        "Send the new password to /api/v1/account/password/, or use a token.",
    ),
    ProblemCode.NOT_FOUND: ProblemKind(
        404,
        "There is no such object",
        "Check the URL. Objects of projects that you are not a member of are hidden.",
    ),
    ProblemCode.METHOD_NOT_ALLOWED: ProblemKind(
        405, "The method is not allowed here", "Use one of the methods in the Allow header."
    ),
    ProblemCode.NOT_ACCEPTABLE: ProblemKind(
        406, "The requested format is not available", "Request application/json."
    ),
    ProblemCode.STATE_CONFLICT: ProblemKind(
        409,
        "The object's state does not allow this",
        "Read the object again, then repeat the request if it still applies.",
    ),
    ProblemCode.COUNT_DIFFERS: ProblemKind(
        409,
        "The number of matching objects differs from the expected one",
        "List the matches again and repeat the request with their current number.",
    ),
    ProblemCode.KEY_IN_FLIGHT: ProblemKind(
        409,
        "A request with the same Idempotency-Key is still running",
        "Repeat the request after the time in Retry-After.",
        retryable=True,
    ),
    ProblemCode.PLAN_SUPERSEDED: ProblemKind(
        409,
        "The plan no longer fits the cluster",
        "Request a new plan; the detail says what has changed.",
    ),
    ProblemCode.STREAM_POSITION_GONE: ProblemKind(
        410,
        "Events at this position have been deleted",
        "List the objects again and continue from the position in the body.",
    ),
    ProblemCode.PRECONDITION_FAILED: ProblemKind(
        412,
        "The object has changed since you read it",
        "Read it again, merge the changes, and send the new ETag in If-Match.",
    ),
    ProblemCode.BODY_TOO_LARGE: ProblemKind(
        413, "The body is too large", "Split it; a batch takes 10,000 jobs and 32 MiB."
    ),
    ProblemCode.UNSUPPORTED_MEDIA_TYPE: ProblemKind(
        415,
        "The media type of the body is not supported",
        "Send application/json (batches also take application/x-ndjson).",
    ),
    ProblemCode.INVALID_INPUT: ProblemKind(
        422, "The input is not valid", "Correct every field listed in errors."
    ),
    ProblemCode.KEY_REUSED: ProblemKind(
        422,
        "The Idempotency-Key belongs to a request with another body",
        "Use a new key for each new request.",
    ),
    ProblemCode.INFEASIBLE_TARGET: ProblemKind(
        422,
        "The target cannot be met on any platform",
        "Relax the target to the feasible value in the detail, or allow more platforms.",
    ),
    ProblemCode.PRECONDITION_REQUIRED: ProblemKind(
        428,
        "If-Match is required",
        "Read the object and send its ETag in If-Match.",
    ),
    ProblemCode.TOO_MANY_REQUESTS: ProblemKind(
        429,
        "Too many requests of this kind",
        "Wait for the time in Retry-After; submit many jobs as one batch.",
        retryable=True,
    ),
    ProblemCode.INTERNAL_ERROR: ProblemKind(
        500,
        "Internal error",
        "Report the request id; the server log has the details.",
    ),
    ProblemCode.SERVICE_UNAVAILABLE: ProblemKind(
        503,
        "A required service is unavailable",
        "Repeat the request after the time in Retry-After.",
        retryable=True,
    ),
}
