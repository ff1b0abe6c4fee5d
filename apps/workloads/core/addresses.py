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


def require_addressable(application: str, *, at: str) -> None:
    """Check that the address of a new application is that of no sub-route of another one.

    The address of ``sort/estimates`` is that of the estimates of ``sort``, and clients resolve
    the parts ``.`` and ``..`` of an address.

    Parameters
    ----------
    at : pointer to the name

    Raises
    ------
    InvalidInputError : it is.
    """
    found = _ENDS.fullmatch(application)
    detail = ""
    if found is not None:
        detail = f"must not end in /{found[1]}, an address of the REST API"
    elif not _DOTS.isdisjoint(application.split("/")):
        detail = "must not have the part . or .., which addresses cannot have"
    if detail:
        problem = FieldProblem(at, "reserved", f"{detail}, not {application!r:.60}")
        raise InvalidInputError([problem])
