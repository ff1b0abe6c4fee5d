"""People and tokens as the API shows them."""

from typing import Any

from rest_framework import serializers

from apps.accounts.core.principal import Principal
from apps.accounts.core.roles import Role
from apps.accounts.models import BrowserSession, Token
from apps.common.api.representations import time

ROLES = [(role.value, role.value) for role in Role]


class ProjectRoleSerializer(serializers.Serializer[Any]):
    """The caller's role in one project."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    role = serializers.ChoiceField(choices=ROLES)


class MeSerializer(serializers.Serializer[Any]):
    """The caller."""

    id = serializers.UUIDField()
    username = serializers.CharField()
    role = serializers.ChoiceField(choices=ROLES)
    is_service = serializers.BooleanField()
    projects = ProjectRoleSerializer(many=True)
    authenticated_by = serializers.ChoiceField(choices=["session", "token"])


class TokenSerializer(serializers.Serializer[Any]):
    """A token; its secret is shown only in the answer that made it."""

    id = serializers.UUIDField()
    name = serializers.CharField()
    prefix = serializers.CharField()
    role = serializers.ChoiceField(choices=ROLES, allow_null=True)
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(allow_null=True)
    last_used_at = serializers.DateTimeField(allow_null=True)


class NewTokenSerializer(TokenSerializer):
    """A token with its secret."""

    token = serializers.CharField()


class TokenRequestSerializer(serializers.Serializer[Any]):
    """The request for a new token."""

    name = serializers.CharField(max_length=100)
    role = serializers.ChoiceField(choices=ROLES, allow_null=True, required=False)
    expires_at = serializers.DateTimeField(allow_null=True, required=False)


class PasswordRequestSerializer(serializers.Serializer[Any]):
    """The request for another password."""

    current_password = serializers.CharField(
        max_length=200,
        trim_whitespace=False,
        required=False,
        help_text="Not needed in a session that began with a one-time password.",
    )
    new_password = serializers.CharField(max_length=200, trim_whitespace=False)


class SessionSerializer(serializers.Serializer[Any]):
    """A session of a signed-in browser."""

    id = serializers.UUIDField()
    created_at = serializers.DateTimeField()
    address = serializers.CharField()
    user_agent = serializers.CharField()
    is_current = serializers.BooleanField(help_text="This session makes the request.")


def represent_me(principal: Principal) -> dict[str, Any]:
    """JSON of the caller."""
    return {
        "id": str(principal.user_id),
        "username": principal.username,
        "role": principal.role.value,
        "is_service": principal.is_service,
        "projects": [
            {"id": str(key), "name": name, "role": role.value}
            for key, (name, role) in principal.projects.items()
        ],
        "authenticated_by": "token" if principal.token_id else "session",
    }


def represent_session(row: BrowserSession, *, is_current: bool) -> dict[str, Any]:
    """JSON of a session."""
    return {
        "id": str(row.pk),
        "created_at": time(row.created_at),
        "address": row.address,
        "user_agent": row.user_agent,
        "is_current": is_current,
    }


def represent_token(token: Token) -> dict[str, Any]:
    """JSON of a token without its secret."""
    return {
        "id": str(token.pk),
        "name": token.name,
        "prefix": token.prefix,
        "role": token.role,
        "created_at": time(token.created_at),
        "expires_at": time(token.expires_at),
        "last_used_at": time(token.last_used_at),
    }
