"""Reads of people, projects and tokens."""

import hashlib
import json
from typing import Any
from uuid import UUID

from django.db import connection
from django.db.models import QuerySet

from apps.accounts.core.principal import Principal, make_principal
from apps.accounts.core.roles import Role, includes
from apps.accounts.models import Project, Token, User

# One statement per request: the token, its user and the memberships.
_MEMBERSHIPS = """
coalesce((SELECT json_agg(json_build_array(p.id, p.name, m.role))
          FROM accounts_membership m JOIN accounts_project p ON p.id = m.project_id
          WHERE m.user_id = u.id), '[]')
"""
_BY_DIGEST = f"""
SELECT u.id, u.username, u.role, u.is_service, {_MEMBERSHIPS}, t.id, t.role,
       t.last_used_at IS NULL OR t.last_used_at < now() - interval '1 minute'
FROM accounts_token t JOIN accounts_user u ON u.id = t.user_id
WHERE t.digest = %s AND t.revoked_at IS NULL AND u.is_active
  AND (t.expires_at IS NULL OR t.expires_at > now())
"""  # noqa: S608 - no input is interpolated
_BY_USER = f"""
SELECT u.id, u.username, u.role, u.is_service, {_MEMBERSHIPS}
FROM accounts_user u WHERE u.id = %s AND u.is_active
"""  # noqa: S608 - no input is interpolated


def token_digest(secret: str) -> bytes:
    """Return what is stored of a token."""
    return hashlib.sha256(secret.encode()).digest()


def principal_by_token(secret: str) -> tuple[Principal, bool] | None:
    """Return the caller a token stands for, and whether its last use is worth noting again.

    None where the token is unknown, revoked or expired, or its user is inactive.
    """
    with connection.cursor() as cursor:
        cursor.execute(_BY_DIGEST, [token_digest(secret)])
        row = cursor.fetchone()
    if row is None:
        return None
    return _principal(row, token=(row[5], row[6])), row[7]


def principal_by_user(user_id: UUID) -> Principal | None:
    """Return the caller of a signed-in user; None where the user is inactive."""
    with connection.cursor() as cursor:
        cursor.execute(_BY_USER, [user_id])
        row = cursor.fetchone()
    return None if row is None else _principal(row)


def _principal(row: Any, token: tuple[UUID, str | None] | None = None) -> Principal:
    user_id, username, role, is_service, memberships = row[:5]
    if isinstance(memberships, str):
        memberships = json.loads(memberships)
    return make_principal(
        user_id=user_id,
        username=username,
        role=role,
        is_service=is_service,
        memberships={UUID(project): (name, inside) for project, name, inside in memberships},
        token=token,
    )


def tokens_of(principal: Principal) -> QuerySet[Token]:
    """Tokens a caller may see: the own ones that still work."""
    return Token.objects.filter(user_id=principal.user_id, revoked_at__isnull=True)


def users() -> QuerySet[User]:
    """All users, by name."""
    return User.objects.order_by("username")


def default_project() -> Project | None:
    """Return the oldest project: where jobs go that name none."""
    return Project.objects.order_by("created_at", "id").first()


def holds(user: Any, role: Role) -> bool:
    """Whether somebody, signed in or not, may do in the whole cluster what a role may."""
    held = getattr(user, "role", None)
    return bool(user.is_authenticated and held and includes(held, role))
