"""Writes of people, projects and tokens."""

import secrets
from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone

from apps.accounts.core.roles import RANK, Role
from apps.accounts.models import Membership, Project, Token, User
from apps.accounts.selectors import token_digest
from apps.common.core.errors import (
    ConflictError,
    FieldProblem,
    InvalidInputError,
    NotFoundError,
)

TOKEN_PREFIX: Final = "berth_"  # noqa: S105 - lets scanners recognise a leaked token
SHOWN: Final = len(TOKEN_PREFIX) + 6
DEFAULT_PROJECT: Final = "default"


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token just made; the only moment its secret is known."""

    token: Token
    secret: str


def create_token(
    *,
    user: User,
    name: str,
    role: Role | None = None,
    limit: Role | None = None,
    expires_at: datetime | None = None,
) -> NewToken:
    """Make a token for a user.

    Parameters
    ----------
    role : the most the token may do; None = all the user may do
    limit : limit of the token that asks for this one, which the new one must not exceed

    Raises
    ------
    InvalidInputError : the expiry is past, or the role is above the limit.
    """
    role = role or limit
    problems = []
    if expires_at is not None and expires_at <= timezone.now():
        problems.append(FieldProblem("/expires_at", "in_the_past", "must be in the future"))
    if role is not None and limit is not None and RANK[role] > RANK[limit]:
        problems.append(
            FieldProblem("/role", "too_high", f"must not be above that of this token, {limit}")
        )
    if problems:
        raise InvalidInputError(problems)
    secret = TOKEN_PREFIX + secrets.token_urlsafe(32)
    token = Token.objects.create(
        user=user,
        name=name,
        prefix=secret[:SHOWN],
        digest=token_digest(secret),
        role=role.value if role else None,
        expires_at=expires_at,
    )
    return NewToken(token=token, secret=secret)


def revoke_token(*, user_id: UUID, token_id: UUID) -> None:
    """Make a token of a user useless, at once and for good.

    Raises
    ------
    NotFoundError : the user has no such working token.
    """
    revoked = Token.objects.filter(pk=token_id, user_id=user_id, revoked_at__isnull=True).update(
        revoked_at=timezone.now()
    )
    if not revoked:
        raise NotFoundError("You have no such token.")


def note_token_use(token_id: UUID) -> None:
    """Remember that a token was used just now; called at most once a minute per token."""
    Token.objects.filter(pk=token_id).update(last_used_at=timezone.now())


def create_user(*, username: str, password: str | None, role: Role, service: bool = False) -> User:
    """Add a person or a service account and make it a member of the default project."""
    with transaction.atomic():
        user = User(
            username=username, role=role.value, is_service=service, is_staff=role is Role.ADMIN
        )
        user.set_password(password)  # None: cannot sign in with a password
        user.save()
        join_project(user=user, project=ensure_project(DEFAULT_PROJECT))
    return user


@dataclass(frozen=True, slots=True)
class NewUser:
    """Somebody who was just added, and how to get in; no password for a service account."""

    user: User
    password: str | None
    token: str


def add_user(*, username: str, role: Role, service: bool = False) -> NewUser:
    """Add a person or a service account with a random password and a token.

    Raises
    ------
    InvalidInputError : no user can have that name.
    ConflictError : somebody has it already.
    """
    try:
        User(username=username).clean_fields(exclude={"password"})
    except ValidationError as error:
        raise InvalidInputError(
            [FieldProblem("/username", "invalid", " ".join(error.messages))]
        ) from error
    password = None if service else secrets.token_urlsafe(12)
    try:
        with transaction.atomic():
            user = create_user(username=username, password=password, role=role, service=service)
            token = create_token(user=user, name="first").secret
    except IntegrityError as error:
        raise ConflictError(f"there is a user {username} already") from error
    return NewUser(user=user, password=password, token=token)


def ensure_project(name: str) -> Project:
    """Return the project of that name, made on first use."""
    project, _ = Project.objects.get_or_create(name=name)
    return project


def join_project(*, user: User, project: Project, role: Role | None = None) -> Membership:
    """Make a user a member of a project; by default with the user's own role."""
    membership, _ = Membership.objects.update_or_create(
        user=user, project=project, defaults={"role": (role or Role(user.role)).value}
    )
    return membership


@dataclass(frozen=True, slots=True)
class AdminAccess:
    """How to get in as the first admin; None where that was told before."""

    user: User
    password: str | None
    token: str | None


def ensure_admin(*, username: str, new_token: bool) -> AdminAccess:
    """Make the first admin with a random password; afterwards only a token on request.

    Safe to call at every start, also by two processes at once: the row lock on the default project
    orders them.
    """
    with transaction.atomic():
        project = ensure_project(DEFAULT_PROJECT)
        Project.objects.select_for_update().get(pk=project.pk)
        user = User.objects.filter(username=username).first()
        password = None
        if user is None:
            password = secrets.token_urlsafe(12)
            user = create_user(username=username, password=password, role=Role.ADMIN)
        token = None
        if new_token or password is not None:
            token = create_token(user=user, name="launcher").secret
    return AdminAccess(user=user, password=password, token=token)
