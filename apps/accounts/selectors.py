"""Reads of users, projects and tokens."""

import hashlib
import json
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.models import Session
from django.db.models import Prefetch, Q, QuerySet
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from apps.accounts.core.principal import (
    Credential,
    Principal,
    TokenLimits,
    make_principal,
)
from apps.accounts.core.roles import Role, includes
from apps.accounts.models import (
    AuditEntry,
    BrowserSession,
    Membership,
    Project,
    ProjectShare,
    SignInFailures,
    Token,
    User,
)
from apps.common.core.errors import NotFoundError
from apps.common.infrastructure.database import database_now, fetch_prepared, fetch_rows

# One statement per request: the token, its user and the memberships.
_MEMBERSHIPS = """
coalesce((SELECT json_agg(json_build_array(p.id, p.name, m.role))
          FROM accounts_membership m JOIN accounts_project p ON p.id = m.project_id
          WHERE m.user_id = u.id), '[]')
"""
_OF_TOKENS = f"""
SELECT u.id, u.username, u.role, u.is_service, {_MEMBERSHIPS}, t.id, t.role, t.expires_at,
       t.last_used_at IS NULL OR t.last_used_at < now() - interval '1 minute'
FROM accounts_token t JOIN accounts_user u ON u.id = t.user_id
WHERE t.revoked_at IS NULL AND u.is_active AND (t.expires_at IS NULL OR t.expires_at > now())
"""  # noqa: S608 - no input is interpolated
_BY_DIGEST = f"{_OF_TOKENS} AND t.digest = %s"
_BY_TOKENS = f"{_OF_TOKENS} AND t.id = ANY(%s)"
_BY_USERS = f"""
SELECT u.id, u.username, u.role, u.is_service, {_MEMBERSHIPS}
FROM accounts_user u WHERE u.id = ANY(%s) AND u.is_active
"""  # noqa: S608 - no input is interpolated
_DERIVED = """
WITH RECURSIVE derived AS (
    SELECT id FROM accounts_token WHERE parent_id = %s
    UNION ALL SELECT t.id FROM accounts_token t JOIN derived d ON t.parent_id = d.id)
SELECT id FROM derived
"""


def token_digest(secret: str) -> bytes:
    """Return the stored digest of a token."""
    return hashlib.sha256(secret.encode()).digest()


def principal_by_token(secret: str) -> tuple[Principal, bool] | None:
    """Return the caller of a token, and whether to record its use (at most once a minute).

    None if the token is unknown, revoked or expired, or its user is inactive.
    """
    rows = fetch_prepared(_BY_DIGEST, [token_digest(secret)])
    return (_principal(rows[0]), rows[0][8]) if rows else None


def principal_by_user(user_id: UUID) -> Principal | None:
    """Return the caller for a signed-in user; None if the user is inactive."""
    return _principals_by_user([user_id]).get(user_id)


def current_principals(credentials: Collection[Credential]) -> dict[Credential, Principal]:
    """Return the callers of the credentials that are still valid; at most four statements.

    A token is no longer valid once it is revoked or has expired; a session once it has ended or
    the password has changed; both once the user is inactive.
    """
    tokens = [c.token_id for c in credentials if c.token_id is not None]
    by_token = {row[5]: _principal(row) for row in _rows_of(_BY_TOKENS, tokens)}
    users = _users_of_sessions([c.session_key for c in credentials if c.session_key])
    by_user = _principals_by_user(list(users.values()))
    current = {
        credential: by_token.get(credential.token_id)
        if credential.token_id is not None
        else by_user.get(users.get(credential.session_key, _NOBODY))
        for credential in credentials
    }
    return {credential: found for credential, found in current.items() if found is not None}


_NOBODY: Final = UUID(int=0)


def _rows_of(sql: str, ids: Sequence[UUID]) -> list[tuple[Any, ...]]:
    return fetch_rows(sql, [list(ids)]) if ids else []


def _principals_by_user(user_ids: Sequence[UUID]) -> dict[UUID, Principal]:
    return {row[0]: _principal(row) for row in _rows_of(_BY_USERS, user_ids)}


def _users_of_sessions(keys: Sequence[str]) -> dict[str, UUID]:
    """Return the user of each session that has not ended and knows the current password.

    A session that began with a one-time password has no rights until that is replaced.
    """
    if not keys:
        return {}
    rows = Session.objects.filter(session_key__in=keys, expire_date__gt=timezone.now())
    contents = {row.session_key: row.get_decoded() for row in rows}
    signed_in = {key: data for key, data in contents.items() if SESSION_KEY in data}
    users = User.objects.in_bulk([UUID(data[SESSION_KEY]) for data in signed_in.values()])
    return {
        key: user.pk
        for key, data in signed_in.items()
        if (user := users.get(UUID(data[SESSION_KEY]))) is not None
        and not user.must_change_password
        and constant_time_compare(data[HASH_SESSION_KEY], user.get_session_auth_hash())
    }


def _principal(row: Any) -> Principal:
    """Return the caller of a row of users, joined with a token or not."""
    user_id, username, role, is_service, memberships = row[:5]
    if isinstance(memberships, str):
        memberships = json.loads(memberships)
    return make_principal(
        user_id=user_id,
        username=username,
        role=role,
        is_service=is_service,
        memberships={UUID(project): (name, inside) for project, name, inside in memberships},
        token=_limits(*row[5:8]) if len(row) > 5 else None,
    )


def _limits(token_id: UUID, role: str | None, expires_at: datetime | None) -> TokenLimits:
    return TokenLimits(token_id, Role(role) if role else None, expires_at)


def tokens_of(principal: Principal) -> QuerySet[Token]:
    """Return the tokens that the caller may list and revoke, without revoked ones.

    These are all tokens of the user, but with a limited token only itself and those derived from
    it.
    """
    own = live_tokens(principal.user_id)
    if not principal.is_limited() or principal.token_id is None:
        return own
    return own.filter(pk__in=[principal.token_id, *derived_tokens(principal.token_id)])


def derived_tokens(token_id: UUID) -> list[UUID]:
    """Return the ids of the tokens that a limited token has created, directly or not."""
    return [row[0] for row in fetch_rows(_DERIVED, [token_id])]


def live_tokens(user_id: UUID) -> QuerySet[Token]:
    """Return the tokens of a user that are not revoked."""
    return Token.objects.filter(user_id=user_id, revoked_at__isnull=True)


def sessions_of(user_id: UUID) -> QuerySet[BrowserSession]:
    """Return the sessions of a user that have not ended."""
    live = Session.objects.filter(expire_date__gt=timezone.now()).values("session_key")
    return BrowserSession.objects.filter(user_id=user_id, session_key__in=live)


def users() -> QuerySet[User]:
    """Return all users with their memberships."""
    rows = Membership.objects.select_related("project").order_by("project__name")
    return User.objects.prefetch_related(Prefetch("memberships", rows))


def user_by(key: str) -> User:
    """Return a user by id or name, with the memberships.

    Raises
    ------
    NotFoundError : there is no such user.
    """
    user = users().filter(_by_id_or(key, "username")).first()
    if user is None:
        raise NotFoundError(f"There is no user {key}.")
    return user


def visible_projects(principal: Principal) -> QuerySet[Project]:
    """Return the projects of the caller; all for operators."""
    rows = Project.objects.all()
    if principal.sees_everything():
        return rows
    return rows.filter(pk__in=list(principal.projects))


def project_by(principal: Principal, key: str) -> Project:
    """Return a project by id or name.

    Raises
    ------
    NotFoundError : there is none, or the caller may not see it.
    """
    project = visible_projects(principal).filter(_by_id_or(key, "name")).first()
    if project is None:
        raise NotFoundError(f"There is no project {key}.")
    return project


def share_of(project: Project) -> ProjectShare | None:
    """Return the stored share of a project; None without fair share, or before the first one."""
    if settings.FAIR_SHARE_HALF_LIFE_S <= 0.0:
        return None
    share: ProjectShare | None = getattr(project, "share", None)
    return share


def archived_projects(ids: Iterable[UUID]) -> set[UUID]:
    """Return which of these projects are archived."""
    rows = Project.objects.filter(pk__in=list(ids), archived_at__isnull=False)
    return set(rows.values_list("pk", flat=True))


def members_of(project: Project) -> QuerySet[Membership]:
    """Return the memberships of a project with their users."""
    return Membership.objects.filter(project=project).select_related("user")


def blocked_sign_ins() -> QuerySet[SignInFailures]:
    """Return the accounts and addresses that have to wait now."""
    rows = SignInFailures.objects.select_related("user")
    return rows.filter(blocked_until__gt=database_now())


def sign_in_failures_of(user: User) -> QuerySet[SignInFailures]:
    """Return the failed sign-ins of a user."""
    return SignInFailures.objects.filter(user=user)


def _by_id_or(key: str, name: str) -> Q:
    try:
        return Q(pk=UUID(key)) | Q(**{name: key})
    except ValueError:
        return Q(**{name: key})


def holds(user: Any, role: Role) -> bool:
    """Return True if a user, signed in or not, has a role in the whole cluster."""
    held = getattr(user, "role", None)
    return bool(user.is_authenticated and held and includes(held, role))


def audit_entries() -> QuerySet[AuditEntry]:
    """Return the audit log."""
    return AuditEntry.objects.all()
