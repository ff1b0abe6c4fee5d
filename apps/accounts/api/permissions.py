"""What a caller's role allows, per method of a view."""

from typing import Any, cast

from rest_framework.exceptions import PermissionDenied
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from apps.accounts.core.principal import Principal
from apps.accounts.core.roles import Role, includes

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


def principal_of(request: Request) -> Principal:
    """Return the caller of an authenticated request."""
    return cast("Principal", request.auth)


class HasRole(BasePermission):
    """Reading needs viewer, writing what the view's ``write_role`` says (submitter by default).

    A submitter's role in any project suffices here; the view then checks the project of the
    object itself. What needs more concerns every project (servers, applications, weights, plans),
    and so must be held in the whole cluster.
    """

    def has_permission(self, request: Request, view: Any) -> bool:
        """Return True, or say which role is missing."""
        if request.auth is None:
            return False  # rest_framework answers 401
        name = "read_role" if request.method in SAFE else "write_role"
        default = Role.VIEWER if request.method in SAFE else Role.SUBMITTER
        needed = getattr(view, name, default)
        principal = principal_of(request)
        if includes(needed, Role.OPERATOR):
            if not includes(principal.role, needed):
                raise PermissionDenied(f"This needs the role {needed} in the whole cluster.")
        elif not includes(principal.best_role(), needed):
            raise PermissionDenied(f"This needs the role {needed}.")
        return True


def require_role(request: Request, needed: Role, project_id: Any) -> None:
    """Check the caller's role inside one project.

    Raises
    ------
    PermissionDenied : naming the role that is missing.
    """
    if not principal_of(request).may(needed, project_id):
        raise PermissionDenied(f"This needs the role {needed} in the project.")
