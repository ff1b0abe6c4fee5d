"""Administration of users, their tokens and their failed sign-ins."""

from secrets import token_urlsafe
from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.keyed_view import KeyedView
from apps.accounts.api.permissions import principal_of
from apps.accounts.api.serializers import (
    ROLES,
    NewTokenSerializer,
    TokenRequestSerializer,
    TokenSerializer,
    represent_token,
)
from apps.accounts.api.user_serializers import (
    BlockedSignInSerializer,
    NewUserSerializer,
    OneTimePasswordSerializer,
    UserPatchSerializer,
    UserRequestSerializer,
    UserSerializer,
    represent_blocked_sign_in,
    represent_user,
)
from apps.accounts.api.views import new_token_response, with_credential
from apps.accounts.core.roles import Role
from apps.accounts.models import SignInFailures, Token, User
from apps.accounts.selectors import blocked_sign_ins, live_tokens, user_by, users
from apps.accounts.services import (
    add_user,
    one_time_password,
    reset_password,
    revoke_token,
    secret_of,
    unblock_sign_in,
    update_user,
)
from apps.common.api.etags import expected_generation
from apps.common.api.inputs import idempotency_key, validated
from apps.common.api.paging import Order
from apps.common.api.queries import ListQuery, choice, exact, flag
from apps.common.api.views import ApiView, ListView, answer
from apps.common.core.keyed_requests import KeyedResponse


class UserList(KeyedView, ListView):
    """All users: list them, add one."""

    manages_credentials = True
    read_role = write_role = Role.ADMIN
    row_serializer = UserSerializer
    orders: ClassVar = {
        "username": Order(("username",)),
        "-created_at": Order(("date_joined", "id"), descending=True),
    }
    filters: ClassVar = {
        "username": exact("username", "With exactly this name."),
        "q": exact("username__icontains", "Whose name contains this."),
        "role": choice("role", [value for value, _ in ROLES], "With this role."),
        "is_active": flag("is_active", "Who may sign in."),
        "is_service": flag("is_service", "Service accounts."),
    }

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[User]:
        """Return all users."""
        return users()

    def represent(self, row: User) -> dict[str, Any]:
        """JSON of a user."""
        return represent_user(row)

    @extend_schema(request=UserRequestSerializer, responses={201: NewUserSerializer})
    def post(self, request: Request) -> Response:
        """Add a user; only this response and its repeats contain password and token."""
        data = validated(UserRequestSerializer, request.data)
        key = idempotency_key(request._request) or token_urlsafe(32)

        def make() -> KeyedResponse:
            added = add_user(
                username=data["username"],
                role=Role(data["role"]),
                service=data["is_service"],
                projects=data["projects"],
                key=key,
            )
            user = represent_user(user_by(str(added.user.pk)))
            body = {"user": user, "token_id": str(added.token_id)}
            return KeyedResponse(201, f"/api/v1/users/{added.user.pk}/", body)

        response = self.once(request, with_credential(request), make)
        user, token_id = response.data["user"], UUID(response.data["token_id"])
        password = None if user["is_service"] else one_time_password(UUID(user["id"]), key)
        secrets = {"one_time_password": password, "token": secret_of(token_id, key)}
        response.data = user | secrets
        return response


class UserDetail(ApiView):
    """One user, addressed by id or by name."""

    takes_match = frozenset({"PATCH"})
    manages_credentials = True  # a role outlives the token that gave it
    read_role = write_role = Role.ADMIN

    @extend_schema(responses=UserSerializer)
    def get(self, request: Request, key: str) -> Response:
        """Return a user."""
        return _present(request, key)

    @extend_schema(request=UserPatchSerializer, responses=UserSerializer)
    def patch(self, request: Request, key: str) -> Response:
        """Change the role of a user, deactivate or reactivate the user."""
        data = validated(UserPatchSerializer, request.data)
        user = update_user(
            user_by(key).pk,
            role=Role(data["role"]) if "role" in data else None,
            is_active=data.get("is_active"),
            by=principal_of(request).user_id,
            expected=expected_generation(request._request),
        )
        return _present(request, str(user.pk))


def _present(request: Request, key: str) -> Response:
    user = user_by(key)
    return answer(request, represent_user(user), generation=user.generation)


class UserPasswordReset(KeyedView):
    """A new one-time password."""

    takes_body = False
    manages_credentials = True
    write_role = Role.ADMIN

    @extend_schema(request=None, responses={201: OneTimePasswordSerializer})
    def post(self, request: Request, key: str) -> Response:
        """Replace the password; only this response and its repeats contain the new one."""
        user = user_by(key)
        given = idempotency_key(request._request) or token_urlsafe(32)

        def make() -> KeyedResponse:
            # a key may be used again after a day, and must not give an old password
            nonce = token_urlsafe(12)
            reset_password(user.pk, key=f"{nonce} {given}")
            return KeyedResponse(201, "", {"nonce": nonce})

        response = self.once(request, with_credential(request), make)
        password = one_time_password(user.pk, f"{response.data['nonce']} {given}")
        response.data = {"one_time_password": password}
        return response


class UserTokenList(KeyedView, ListView):
    """The tokens of a user."""

    manages_credentials = True
    read_role = write_role = Role.ADMIN
    row_serializer = TokenSerializer
    orders: ClassVar = {"-created_at": Order(("created_at", "id"), descending=True)}

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[Token]:
        """Return the tokens that are not revoked."""
        return live_tokens(user_by(kwargs["key"]).pk)

    def represent(self, row: Token) -> dict[str, Any]:
        """JSON of a token."""
        return represent_token(row)

    @extend_schema(request=TokenRequestSerializer, responses={201: NewTokenSerializer})
    def post(self, request: Request, key: str) -> Response:
        """Create a token for a user; only this response and its repeats contain its secret."""
        user = user_by(key)
        url = f"/api/v1/users/{user.pk}/tokens/"
        return new_token_response(request, user, url, once=self.once)


class UserToken(ApiView):
    """One token of a user."""

    manages_credentials = True
    write_role = Role.ADMIN

    @extend_schema(responses={204: None})
    def delete(self, request: Request, key: str, token_id: UUID) -> Response:
        """Revoke a token immediately and permanently."""
        revoke_token(user_id=user_by(key).pk, token_id=token_id)
        return Response(status=204)


class BlockedSignInList(ListView):
    """Accounts and addresses that have to wait before the next attempt to sign in."""

    read_role = Role.ADMIN
    row_serializer = BlockedSignInSerializer
    orders: ClassVar = {"-blocked_until": Order(("blocked_until", "id"), descending=True)}

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[SignInFailures]:
        """Return what is blocked now."""
        return blocked_sign_ins()

    def represent(self, row: SignInFailures) -> dict[str, Any]:
        """JSON of a blocked account or address."""
        return represent_blocked_sign_in(row)


class BlockedSignIn(ApiView):
    """One blocked account or address."""

    write_role = Role.ADMIN

    @extend_schema(responses={204: None})
    def delete(self, request: Request, counter_id: UUID) -> Response:
        """Allow the next attempt immediately and forget the failures."""
        unblock_sign_in(counter_id)
        return Response(status=204)
