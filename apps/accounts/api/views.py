"""The caller and the caller's tokens."""

from typing import Any, ClassVar
from uuid import UUID

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

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
from apps.accounts.services import create_token, revoke_token
from apps.common.core.errors import NotFoundError
from apps.common.inputs import validated
from apps.common.paging import Order
from apps.common.queries import ListQuery
from apps.common.views import ApiView, ListView, answer


class MeView(ApiView):
    """The caller, with roles."""

    @extend_schema(responses=MeSerializer)
    def get(self, request: Request) -> Response:
        """Return who is calling."""
        return answer(request, represent_me(principal_of(request)))


class TokenList(ListView):
    """The caller's own tokens."""

    write_role = Role.VIEWER  # everybody may make tokens for oneself
    row_serializer = TokenSerializer
    orders: ClassVar = {"-created_at": Order(("created_at", "id"), descending=True)}

    def rows(self, request: Request, query: ListQuery, **kwargs: Any) -> QuerySet[Token]:
        """Return the tokens that still work."""
        return tokens_of(principal_of(request))

    def represent(self, row: Token) -> dict[str, Any]:
        """JSON of a token."""
        return represent_token(row)

    @extend_schema(request=TokenRequestSerializer, responses={201: NewTokenSerializer})
    def post(self, request: Request) -> Response:
        """Make a token; the answer is the only place its secret is shown."""
        data = validated(TokenRequestSerializer, request.data)
        role = data.get("role")
        made = create_token(
            user=User.objects.get(pk=principal_of(request).user_id),
            name=data["name"],
            role=Role(role) if role else None,
            limit=principal_of(request).limit,
            expires_at=data.get("expires_at"),
        )
        body = represent_token(made.token) | {"token": made.secret}
        location = f"/api/v1/tokens/{made.token.pk}/"
        return Response(body, status=201, headers={"Location": location})


class TokenDetail(ApiView):
    """One of the caller's tokens."""

    write_role = Role.VIEWER

    @extend_schema(responses=TokenSerializer)
    def get(self, request: Request, token_id: UUID) -> Response:
        """Return a token without its secret."""
        token = tokens_of(principal_of(request)).filter(pk=token_id).first()
        if token is None:
            raise NotFoundError("You have no such token.")
        return answer(request, represent_token(token))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, token_id: UUID) -> Response:
        """Revoke a token, at once and for good."""
        revoke_token(user_id=principal_of(request).user_id, token_id=token_id)
        return Response(status=204)
