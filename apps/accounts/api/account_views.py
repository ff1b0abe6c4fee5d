"""The caller's own account: the password and the browser sessions."""

from typing import Any, ClassVar
from uuid import UUID

from django.contrib.auth import update_session_auth_hash
from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.middleware import ADDRESS
from apps.accounts.api.permissions import principal_of
from apps.accounts.api.serializers import (
    PasswordRequestSerializer,
    SessionSerializer,
    represent_session,
)
from apps.accounts.core.roles import Role
from apps.accounts.core.sign_in import wait_text
from apps.accounts.models import BrowserSession, User
from apps.accounts.selectors import sessions_of
from apps.accounts.services import (
    Blocked,
    Rejected,
    change_password,
    end_sessions,
    rename_session,
    revoke_session,
    verify_password,
)
from apps.common.api.inputs import validated
from apps.common.api.paging import Order
from apps.common.api.problems import ProblemError
from apps.common.api.queries import ListQuery
from apps.common.api.views import ApiView, ListView
from apps.common.core.errors import ConflictError, FieldProblem, InvalidInputError
from apps.common.core.problem_codes import ProblemCode


class PasswordView(ApiView):
    """The caller's password."""

    manages_credentials = True
    write_role = Role.VIEWER

    @extend_schema(request=PasswordRequestSerializer, responses={204: None})
    def post(self, request: Request) -> Response:
        """Change the password and end all other sessions; a one-time password needs no repeat."""
        body = validated(PasswordRequestSerializer, request.data)
        principal = principal_of(request)
        user = User.objects.get(pk=principal.user_id)
        if user.is_service:
            raise ConflictError(f"{user.username} is a service account: it has no password.")
        if principal.token_id or not user.must_change_password:
            _require_current(request, user, body.get("current_password", ""))
        key = None if principal.token_id else request._request.session.session_key
        changed = change_password(user.pk, body["new_password"], keep_session=key)
        if key is not None:
            request._request.user = changed  # rest_framework has put its own caller there
            update_session_auth_hash(request._request, changed)
            rename_session(key, request._request.session.session_key or "")
        return Response(status=204)


def _require_current(request: Request, user: User, password: str) -> None:
    outcome = verify_password(user.username, password, address=request.META[ADDRESS])
    if isinstance(outcome, Blocked):
        raise ProblemError(
            ProblemCode.TOO_MANY_REQUESTS,
            f"Too many wrong passwords. Try again in {wait_text(outcome.wait_s)}.",
            headers={"Retry-After": str(max(1, int(outcome.wait_s + 0.999)))},
        )
    if isinstance(outcome, Rejected):
        raise InvalidInputError([FieldProblem("/current_password", "wrong", "is not right")])


class SessionList(ListView):
    """The caller's browser sessions."""

    manages_credentials = True
    write_role = Role.VIEWER
    row_serializer = SessionSerializer
    orders: ClassVar = {"-created_at": Order(("created_at", "id"), descending=True)}

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[BrowserSession]:
        """Return the sessions that have not ended."""
        self.current = _session_key(request)
        return sessions_of(principal_of(request).user_id)

    def represent(self, row: BrowserSession) -> dict[str, Any]:
        """JSON of a session."""
        return represent_session(row, is_current=row.session_key == self.current)

    @extend_schema(operation_id="account_sessions_end_others", responses={204: None})
    def delete(self, request: Request) -> Response:
        """End all sessions but this one."""
        user = User.objects.get(pk=principal_of(request).user_id)
        end_sessions(user, keep=_session_key(request))
        return Response(status=204)


class SessionDetail(ApiView):
    """One of the caller's browser sessions."""

    manages_credentials = True
    write_role = Role.VIEWER

    @extend_schema(responses={204: None})
    def delete(self, request: Request, session_id: UUID) -> Response:
        """End a session immediately."""
        revoke_session(principal_of(request).user_id, session_id)
        return Response(status=204)


def _session_key(request: Request) -> str | None:
    """Return the key of the session that makes the request; None for a token."""
    if principal_of(request).token_id:
        return None
    return request._request.session.session_key
