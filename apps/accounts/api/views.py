"""The caller and the caller's tokens."""

from secrets import token_urlsafe
from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from apps.accounts.api.keyed_view import KeyedView, Once
from apps.accounts.api.permissions import principal_of
from apps.accounts.api.serializers import (
    MeSerializer,
    NewTokenSerializer,
    TokenRequestSerializer,
    TokenSerializer,
    represent_me,
    represent_token,
)
from apps.accounts.core.roles import Role
from apps.accounts.models import Token, User
from apps.accounts.selectors import tokens_of
from apps.accounts.services import create_token, revoke_token, secret_of
from apps.common.api.inputs import idempotency_key, validated
from apps.common.api.paging import Order
from apps.common.api.queries import ListQuery
from apps.common.api.views import ApiView, ListView, answer
from apps.common.core.errors import NotFoundError
from apps.common.core.keyed_requests import KeyedResponse


class MeView(ApiView):
    """The caller and its roles."""

    @extend_schema(responses=MeSerializer)
    def get(self, request: Request) -> Response:
        """Return the caller."""
        return answer(request, represent_me(principal_of(request)))


class TokenList(KeyedView, ListView):
    """The caller's own tokens."""

    write_role = Role.VIEWER  # all users may create their own tokens
    row_serializer = TokenSerializer
    orders: ClassVar = {"-created_at": Order(("created_at", "id"), descending=True)}

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[Token]:
        """Return the tokens that are not revoked."""
        return tokens_of(principal_of(request))

    def represent(self, row: Token) -> dict[str, Any]:
        """JSON of a token."""
        return represent_token(row)

    @extend_schema(request=TokenRequestSerializer, responses={201: NewTokenSerializer})
    def post(self, request: Request) -> Response:
        """Create a token; only this response and its repeats contain its secret."""
        user = User.objects.get(pk=principal_of(request).user_id)
        return new_token_response(request, user, "/api/v1/tokens/", once=self.once)


def new_token_response(request: Request, user: User, url: str, *, once: Once) -> Response:
    """Create the requested token for a user, and return it with its secret."""
    data = validated(TokenRequestSerializer, request.data)
    principal = principal_of(request)
    key = idempotency_key(request._request) or token_urlsafe(32)

    def make() -> KeyedResponse:
        role = data.get("role")
        token = create_token(
            user=user,
            name=data["name"],
            role=Role(role) if role else None,
            expires_at=data.get("expires_at"),
            by=principal,
            key=key,
        ).token
        return KeyedResponse(201, f"{url}{token.pk}/", represent_token(token))

    response = once(request, with_credential(request), make)
    response.data["token"] = secret_of(UUID(response.data["id"]), key)
    return response


def with_credential(request: Request) -> dict[str, Any]:
    """Return what identifies a request for a secret: a repeat by another credential gets none."""
    return {"body": request.data, "by": str(principal_of(request).token_id)}


def visible_token(request: Request, token_id: UUID) -> Token:
    """Return a token.

    Raises
    ------
    NotFoundError : there is none the caller may see.
    """
    token = tokens_of(principal_of(request)).filter(pk=token_id).first()
    if token is None:
        raise NotFoundError("You have no such token.")
    return token


class TokenDetail(ApiView):
    """One of the caller's tokens."""

    write_role = Role.VIEWER

    @extend_schema(responses=TokenSerializer)
    def get(self, request: Request, token_id: UUID) -> Response:
        """Return a token without its secret."""
        return answer(request, represent_token(visible_token(request, token_id)))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, token_id: UUID) -> Response:
        """Revoke a token and those derived from it, immediately and permanently."""
        token = visible_token(request, token_id)
        revoke_token(user_id=token.user_id, token_id=token_id)
        return Response(status=204)
