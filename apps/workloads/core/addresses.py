"""Names of applications that are no address of anything else in the REST API."""

import re
from typing import Final

from apps.common.core.errors import FieldProblem, InvalidInputError

SUB_ROUTES: Final = (
    "classification",
    "estimates",
    "measurements",
    "overrides",
    "overrides/preview",
    "overrides/<uuid:override_id>",
    "prediction-errors",
    "profiling-runs",
)
_UUID: Final = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_ENDS: Final = re.compile(
    rf".+/({'|'.join(SUB_ROUTES).replace('<uuid:override_id>', _UUID)})", re.DOTALL
)
_DOTS: Final = frozenset({".", ".."})


def without_address(application: str, *, at: str) -> FieldProblem | None:
    """Return why a new application of that name would have no address; None if it has one.

    The address of ``sort/estimates`` is that of the estimates of ``sort``, and clients resolve
    the parts ``.`` and ``..`` of an address.

    Parameters
    ----------
    at : pointer to the name
    """
    found = _ENDS.fullmatch(application)
    if found is not None:
        detail = f"must not end in /{found[1]}, an address of the REST API"
    elif not _DOTS.isdisjoint(application.split("/")):
        detail = "must not have the part . or .., which addresses cannot have"
    else:
        return None
    return FieldProblem(at, "reserved", f"{detail}, not {application!r:.60}")


def require_addressable(application: str, *, at: str) -> None:
    """Check that a new application has an address of its own.

    Raises
    ------
    InvalidInputError : it has none (`without_address`).
    """
    problem = without_address(application, at=at)
    if problem is not None:
        raise InvalidInputError([problem])
