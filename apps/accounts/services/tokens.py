"""Create, use and revoke tokens."""

import secrets
from base64 import urlsafe_b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from django.db import transaction
from django.db.models.functions import Now
from django.utils import timezone
from django.utils.crypto import salted_hmac

from apps.accounts.core.principal import Principal
from apps.accounts.core.roles import RANK, Role
from apps.accounts.models import Token, User
from apps.accounts.selectors import derived_tokens, token_digest
from apps.accounts.services.audit import Act, record_act
from apps.common.core.errors import (
    ConflictError,
    FieldProblem,
    InvalidInputError,
    NotFoundError,
)
from apps.common.core.ids import uuid7
from apps.common.infrastructure.database import database_now

TOKEN_PREFIX: Final = "berth_"  # noqa: S105 - lets scanners recognise a leaked token
SHOWN: Final = len(TOKEN_PREFIX) + 6


@dataclass(frozen=True, slots=True)
class NewToken:
    """A new token with its secret, which is not stored."""

    token: Token
    secret: str


def create_token(
    *,
    user: User,
    name: str,
    role: Role | None = None,
    expires_at: datetime | None = None,
    by: Principal | None = None,
    key: str = "",
) -> NewToken:
    """Create a token for a user.

    Parameters
    ----------
    role : role limit of the token; None for no limit
    by : the caller; a token created with a limited token has at least its limits, and is revoked
        with it
    key : the Idempotency-Key of the request; the secret then follows from it, see `secret_of`

    Raises
    ------
    InvalidInputError : the expiry is in the past, or the token exceeds the limits of the caller.
    ConflictError : the token of the caller has been revoked meanwhile.
    """
    if by is not None:
        role, expires_at = role or by.limit, expires_at or by.expires_at
    problems = [*_expiry_problems(expires_at, by), *_role_problems(role, by)]
    if problems:
        raise InvalidInputError(problems)
    token_id = uuid7()
    secret = secret_of(token_id, key or secrets.token_urlsafe(32))
    with transaction.atomic():
        token = Token.objects.create(
            id=token_id,
            user=user,
            name=name,
            prefix=secret[:SHOWN],
            digest=token_digest(secret),
            role=role.value if role else None,
            expires_at=expires_at,
            parent_id=None if by is None else _locked_parent(by),
        )
        record_act(_token_act("token.created", token, user.username))
    return NewToken(token=token, secret=secret)


def _expiry_problems(expires_at: datetime | None, by: Principal | None) -> Iterator[FieldProblem]:
    if expires_at is not None and expires_at <= database_now():
        detail = f"must be in the future, not {expires_at.isoformat()}"
        yield FieldProblem("/expires_at", "in_the_past", detail)
    latest = None if by is None else by.expires_at
    if expires_at is not None and latest is not None and expires_at > latest:
        detail = f"must not be after the expiry of this token, {latest.isoformat()}"
        yield FieldProblem("/expires_at", "too_late", detail)


def _role_problems(role: Role | None, by: Principal | None) -> Iterator[FieldProblem]:
    limit = None if by is None else by.limit
    if role is not None and limit is not None and RANK[role] > RANK[limit]:
        detail = f"must not exceed the role of this token, {limit}"
        yield FieldProblem("/role", "too_high", detail)


def _locked_parent(by: Principal) -> UUID | None:
    """Return the limited token of the caller, locked so that it cannot be revoked meanwhile."""
    if by.token_id is None or not by.is_limited():
        return None
    tokens = Token.objects.select_for_update().filter(pk=by.token_id, revoked_at__isnull=True)
    if not tokens:
        raise ConflictError("This token has been revoked.")
    return by.token_id


def secret_of(token_id: UUID, key: str) -> str:
    """Return the secret of a token that was created with a key.

    A repeat of a request with an Idempotency-Key computes it again, so that it need not be stored.
    It is as hard to guess as SECRET_KEY, or as a random key.
    """
    salt = "apps.accounts.services.tokens"
    digest = salted_hmac(salt, f"{token_id} {key}", algorithm="sha256").digest()
    return TOKEN_PREFIX + urlsafe_b64encode(digest).decode().rstrip("=")


def revoke_token(*, user_id: UUID, token_id: UUID) -> None:
    """Revoke a token of a user and the tokens derived from it, immediately and permanently.

    Raises
    ------
    NotFoundError : the user has no such token, or it is revoked.
    """
    with transaction.atomic():
        # Locked first: a token that is being derived from it is committed by then, or fails.
        live = Token.objects.select_for_update(of=("self",)).filter(revoked_at__isnull=True)
        token = live.select_related("user").filter(pk=token_id, user_id=user_id).first()
        if token is None:
            raise NotFoundError("You have no such token.")
        _revoke(token)
        derived = live.filter(pk__in=derived_tokens(token_id)).order_by("pk")
        for row in derived.select_related("user"):
            _revoke(row)


def _revoke(token: Token) -> None:
    token.revoked_at = timezone.now()
    token.save(update_fields=["revoked_at"])
    record_act(_token_act("token.revoked", token, token.user.username))


def _token_act(action: str, token: Token, username: str) -> Act:
    expires_at = token.expires_at and token.expires_at.isoformat()
    facts = {"user": username, "role": token.role, "expires_at": expires_at}
    before, after = (None, facts) if action == "token.created" else (facts, None)
    return Act(action, str(token.pk), token.name, before, after)


def record_token_use(token_id: UUID) -> None:
    """Record the use of a token; called at most once a minute per token."""
    Token.objects.filter(pk=token_id).update(last_used_at=Now())
