"""Permissions of a caller by role and method."""

from typing import Any, cast

from rest_framework.exceptions import PermissionDenied
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from apps.accounts.core.principal import Credential, Principal
from apps.accounts.core.roles import Role, includes

SAFE = frozenset({"GET", "HEAD", "OPTIONS"})


def principal_of(request: Request) -> Principal:
    """Return the caller of an authenticated request."""
    return cast("Principal", request.auth)


def credential_of(request: Request) -> Credential:
    """Return what the caller of an authenticated request identified with."""
    principal = principal_of(request)
    if principal.token_id is not None:
        return Credential(token_id=principal.token_id)
    return Credential(session_key=request._request.session.session_key or "")


class HasRole(BasePermission):
    """Reads need the role viewer, writes the view's ``write_role`` (submitter by default).

    The role submitter in any project suffices here; the view checks the project of the object.
    Higher roles concern all projects (servers, applications, weights, plans), so the caller must
    hold them in the whole cluster. A view with ``manages_credentials`` refuses limited tokens:
    what it creates would have neither the role limit nor the expiry of the token.
    """

    def has_permission(self, request: Request, view: Any) -> bool:
        """Return True, or raise PermissionDenied with the missing role."""
        if request.auth is None:
            return False  # rest_framework responds 401
        name = "read_role" if request.method in SAFE else "write_role"
        default = Role.VIEWER if request.method in SAFE else Role.SUBMITTER
        needed = getattr(view, name, default)
        principal = principal_of(request)
        if getattr(view, "manages_credentials", False) and principal.is_limited():
            raise PermissionDenied(
                "This needs a session, or a token without a role limit and without an expiry."
            )
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
    PermissionDenied : names the missing role.
    """
    if not principal_of(request).may(needed, project_id):
        raise PermissionDenied(f"This needs the role {needed} in the project.")
