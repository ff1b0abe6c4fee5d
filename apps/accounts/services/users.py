"""Create users and the first administrator; change roles, passwords and access."""

import secrets
from base64 import urlsafe_b64encode
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django.contrib.auth.password_validation import validate_password
from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils.crypto import salted_hmac

from apps.accounts.core.roles import Role, includes
from apps.accounts.models import Project, User
from apps.accounts.services.audit import Act, record_act
from apps.accounts.services.projects import (
    DEFAULT_PROJECT,
    ensure_project,
    join_project,
    lower_memberships,
)
from apps.accounts.services.sign_in import end_sessions
from apps.accounts.services.tokens import create_token
from apps.common.core.errors import ConflictError, FieldProblem, InvalidInputError, NotFoundError
from apps.common.core.ids import uuid7
from apps.common.core.preconditions import require_generation

_PASSWORD_BYTES: Final = 12  # random bytes of a one-time password


def create_user(
    *,
    username: str,
    password: str | None,
    role: Role,
    service: bool = False,
    projects: Sequence[str] = (DEFAULT_PROJECT,),
    user_id: UUID | None = None,
) -> User:
    """Create a person or a service account as a member of projects.

    Parameters
    ----------
    user_id : None for a new one
    password : a one-time password; None disables sign-in by password
    projects : names; the default project is created if needed
    """
    with transaction.atomic():
        user = User(
            id=user_id or uuid7(),
            username=username,
            role=role.value,
            is_service=service,
            is_staff=role is Role.ADMIN,
            must_change_password=password is not None,
        )
        user.set_password(password)
        user.save()
        for name in projects:
            named = ensure_project(name) if name == DEFAULT_PROJECT else None
            join_project(user=user, project=named or Project.objects.get(name=name))
        after = {"role": role.value, "is_service": service, "projects": list(projects)}
        record_act(Act("user.created", str(user.pk), username, after=after))
    return user


@dataclass(frozen=True, slots=True)
class NewUser:
    """A new user and its credentials; a service account has no password."""

    user: User
    password: str | None
    token: str
    token_id: UUID


def add_user(
    *,
    username: str,
    role: Role,
    service: bool = False,
    projects: Sequence[str] = (DEFAULT_PROJECT,),
    key: str = "",
) -> NewUser:
    """Add a person or a service account with a one-time password and a token.

    Parameters
    ----------
    key : the Idempotency-Key of the request; the secrets then follow from it, see
        `one_time_password` and `secret_of`

    Raises
    ------
    InvalidInputError : the name is not valid, or a project does not exist.
    ConflictError : the name is taken.
    """
    try:
        User(username=username).clean_fields(exclude={"password"})
    except ValidationError as error:
        raise InvalidInputError(
            [FieldProblem("/username", "invalid", " ".join(error.messages))]
        ) from error
    known = set(Project.objects.filter(name__in=projects).values_list("name", flat=True))
    unknown = [name for name in projects if name not in known | {DEFAULT_PROJECT}]
    if unknown:
        detail = f"there is no project {', '.join(unknown)}"
        raise InvalidInputError([FieldProblem("/projects", "unknown", detail)])
    user_id, key = uuid7(), key or secrets.token_urlsafe(32)
    password = None if service else one_time_password(user_id, key)
    try:
        with transaction.atomic():
            user = create_user(
                username=username,
                password=password,
                role=role,
                service=service,
                projects=projects,
                user_id=user_id,
            )
            token = create_token(user=user, name="first", key=key)
    except IntegrityError as error:
        raise ConflictError(f"The user name {username} is taken.") from error
    return NewUser(user=user, password=password, token=token.secret, token_id=token.token.pk)


def update_user(
    user_id: UUID,
    *,
    role: Role | None = None,
    is_active: bool | None = None,
    by: UUID,
    expected: int | None = None,
) -> User:
    """Change the role of a user, or whether the user may sign in.

    Deactivating ends all sessions; tokens are refused until the user is active again. A lower role
    also lowers the memberships above it, which would keep what it takes away.

    Raises
    ------
    ChangedMeanwhileError : the user's generation is no longer ``expected``.
    ConflictError : nobody could administer Berth afterwards, or users deactivate themselves.
    """
    with transaction.atomic():
        admins = _locked_admins()
        user = _locked(user_id)
        require_generation(expected, user.generation)
        before = user.editable_fields()
        if role is not None:
            user.role, user.is_staff = role.value, role is Role.ADMIN
        if is_active is not None:
            user.is_active = is_active
        if not user.is_active and user.pk == by:
            raise ConflictError("You cannot deactivate your own account.")
        keeps_access = user.is_active and user.role == Role.ADMIN
        if not keeps_access and admins == {user.pk}:
            raise ConflictError(f"{user.username} is the only active administrator.")
        after = user.editable_fields()
        if after != before:
            user.save(update_fields=["role", "is_staff", "is_active"])
            record_act(Act("user.updated", str(user.pk), user.username, before, after))
        if not includes(user.role, before["role"]):
            lower_memberships(user)
        if not user.is_active:
            end_sessions(user)
    return user


def reset_password(user_id: UUID, *, key: str = "") -> str:
    """Replace the password of a person by a one-time password, which is returned once.

    Ends all sessions of the user; tokens stay valid.

    Parameters
    ----------
    key : the password follows from it, see `one_time_password`; empty for a random one

    Raises
    ------
    ConflictError : a service account has no password.
    """
    password = one_time_password(user_id, key or secrets.token_urlsafe(32))
    with transaction.atomic():
        user = _locked(user_id)
        if user.is_service:
            raise ConflictError(f"{user.username} is a service account: it has no password.")
        user.set_password(password)
        user.must_change_password = True
        user.save(update_fields=["password", "must_change_password"])
        end_sessions(user)
        record_act(Act("user.password_reset", str(user.pk), user.username))
    return password


def change_password(user_id: UUID, new: str, *, keep_session: str | None) -> User:
    """Set the password that a user has chosen, and end the user's other sessions.

    Parameters
    ----------
    keep_session : key of the session that stays

    Raises
    ------
    InvalidInputError : the password is too weak, or not new.
    """
    with transaction.atomic():
        user = _locked(user_id)
        problems = _password_problems(new, user)
        if problems:
            raise InvalidInputError(problems)
        user.set_password(new)
        user.must_change_password = False
        user.save(update_fields=["password", "must_change_password"])
        end_sessions(user, keep=keep_session)
        record_act(Act("user.password_changed", str(user.pk), user.username))
    return user


@dataclass(frozen=True, slots=True)
class AdminAccess:
    """Credentials of the first administrator; None if they were returned before."""

    user: User
    password: str | None
    token: str | None


def ensure_admin(*, username: str, new_token: bool) -> AdminAccess:
    """Create the first administrator with a one-time password; later calls create tokens only.

    Safe to call at every start, also by two processes at once: the row lock on the default project
    orders them.
    """
    with transaction.atomic():
        project = ensure_project(DEFAULT_PROJECT)
        Project.objects.select_for_update().get(pk=project.pk)
        user = User.objects.filter(username=username).first()
        password = None
        if user is None:
            password = secrets.token_urlsafe(_PASSWORD_BYTES)
            user = create_user(username=username, password=password, role=Role.ADMIN)
        token = None
        if new_token or password is not None:
            token = create_token(user=user, name="launcher").secret
    return AdminAccess(user=user, password=password, token=token)


def one_time_password(user_id: UUID, key: str) -> str:
    """Return the one-time password of a user that was set with a key.

    A repeat of a request with an Idempotency-Key computes it again, so that it need not be stored.
    It is as hard to guess as SECRET_KEY, or as a random key.
    """
    salt = "apps.accounts.services.users"
    digest = salted_hmac(salt, f"{user_id} {key}", algorithm="sha256").digest()
    return urlsafe_b64encode(digest[:_PASSWORD_BYTES]).decode()


def _locked(user_id: UUID) -> User:
    user = User.objects.select_for_update().filter(pk=user_id).first()
    if user is None:
        raise NotFoundError(f"There is no user {user_id}.")
    return user


def _locked_admins() -> set[UUID]:
    """Return the active people with the role admin, locked in the order of their ids."""
    rows = User.objects.select_for_update().filter(
        role=Role.ADMIN.value, is_active=True, is_service=False
    )
    return set(rows.order_by("pk").values_list("pk", flat=True))


def _password_problems(new: str, user: User) -> list[FieldProblem]:
    if user.check_password(new):
        detail = "must differ from the current password"
        return [FieldProblem("/new_password", "unchanged", detail)]
    try:
        validate_password(new, user)
    except ValidationError as error:
        return [FieldProblem("/new_password", "too_weak", text) for text in error.messages]
    return []
