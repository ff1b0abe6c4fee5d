"""Sign in and out by password; failures delay the next attempt."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Final
from uuid import UUID

from django.contrib.auth import authenticate
from django.contrib.sessions.models import Session
from django.db import transaction
from django.db.models import Max, Q

from apps.accounts.core.sign_in import FORGET_S, Subject, account_key, delay_s
from apps.accounts.models import BrowserSession, SignInFailures, User
from apps.accounts.services.audit import Act, record_act
from apps.common.core.addresses import network_of
from apps.common.core.errors import NotFoundError
from apps.common.infrastructure.database import database_now

_FORGET: Final = timedelta(seconds=FORGET_S)


@dataclass(frozen=True, slots=True)
class Verified:
    """The password is right."""

    user: User


@dataclass(frozen=True, slots=True)
class Rejected:
    """User name or password is wrong, or the account cannot sign in."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """Too many failures: the password was not verified."""

    wait_s: float


def verify_password(
    username: str, password: str, *, address: str
) -> Verified | Rejected | Blocked:
    """Verify a password unless the account or the address has to wait.

    The attempt counts as a failure before the password is verified, so that attempts at the same
    time cannot exceed the limit. An account that does not exist is treated like one that does.
    """
    if (known_s := _known_wait_s(username, address)) > 0:
        return Blocked(known_s)
    with transaction.atomic():
        counters = _locked_counters(username, address)
        now = database_now()
        wait_s = max((row.blocked_until - now).total_seconds() for row in counters)
        if wait_s > 0:
            return Blocked(wait_s)
        for row in counters:
            is_recent = now - row.failed_at < _FORGET
            row.failures = row.failures + 1 if is_recent else 1
            row.failed_at = now
            row.blocked_until = now + _delay(row)
            row.save(update_fields=["failures", "failed_at", "blocked_until"])
    user = authenticate(username=username, password=password)
    if isinstance(user, User):
        _forgive(username, address)
        return Verified(user)
    with transaction.atomic():
        _record_failure(counters)
    return Rejected()


def begin_session(user: User, *, session_key: str, address: str, user_agent: str) -> None:
    """Record that a user has signed in with a browser."""
    with transaction.atomic():
        BrowserSession.objects.create(
            user=user, session_key=session_key, address=address, user_agent=user_agent[:200]
        )
        record_act(Act("sign_in.succeeded", str(user.pk), user.username), by=user.pk)


def end_session(session_key: str) -> None:
    """Record that a user has signed out; the caller deletes the session's data."""
    with transaction.atomic():
        row = BrowserSession.objects.select_related("user").filter(session_key=session_key).first()
        if row is not None:
            row.delete()
            record_act(Act("sign_in.ended", str(row.user_id), row.user.username), by=row.user_id)


def end_sessions(user: User, *, keep: str | None = None) -> int:
    """End the sessions of a user, except the one with the key ``keep``; returns their number."""
    rows = BrowserSession.objects.filter(user=user)
    if keep is not None:
        rows = rows.exclude(session_key=keep)
    with transaction.atomic():
        keys = list(rows.values_list("session_key", flat=True))
        Session.objects.filter(session_key__in=keys).delete()
        BrowserSession.objects.filter(session_key__in=keys).delete()
    return len(keys)


def revoke_session(user_id: UUID, session_id: UUID) -> None:
    """End one session of a user.

    Raises
    ------
    NotFoundError : the user has no such session.
    """
    with transaction.atomic():
        rows = BrowserSession.objects.select_related("user").filter(user_id=user_id)
        row = rows.filter(pk=session_id).first()
        if row is None:
            raise NotFoundError("You have no such session.")
        Session.objects.filter(session_key=row.session_key).delete()
        before = {"address": row.address, "user_agent": row.user_agent}
        row.delete()
        record_act(Act("session.revoked", str(session_id), row.user.username, before))


def rename_session(old_key: str, new_key: str) -> None:
    """Follow a session to its new key."""
    BrowserSession.objects.filter(session_key=old_key).update(session_key=new_key)


def unblock_sign_in(counter_id: UUID) -> None:
    """Let an account or an address sign in again immediately.

    Raises
    ------
    NotFoundError : there are no failures of this id.
    """
    with transaction.atomic():
        rows = SignInFailures.objects.select_for_update(of=("self",)).select_related("user")
        row = rows.filter(pk=counter_id).first()
        if row is None:
            raise NotFoundError(f"There is no blocked sign-in {counter_id}.")
        name = row.user.username if row.user else row.key
        before = {"subject": row.subject, "failures": row.failures}
        row.delete()
        record_act(Act("sign_in.unblocked", str(counter_id), name, before))


def prune_sign_ins() -> int:
    """Delete forgotten failures and ended sessions; returns the number of rows."""
    now = database_now()
    failures = SignInFailures.objects.filter(failed_at__lt=now - _FORGET, blocked_until__lt=now)
    deleted = failures.delete()[0]
    deleted += Session.objects.filter(expire_date__lt=now).delete()[0]
    live = Session.objects.values("session_key")
    return deleted + BrowserSession.objects.exclude(session_key__in=live).delete()[0]


def _known_wait_s(username: str, address: str) -> float:
    """Return how long an attempt has to wait; stores nothing, as a client may try many names."""
    keys = _keys(username, address)
    rows = SignInFailures.objects.filter(
        Q(*(Q(subject=subject, key=key) for subject, key in keys.items()), _connector=Q.OR)
    )
    until = rows.aggregate(latest=Max("blocked_until"))["latest"]
    return 0.0 if until is None else float((until - database_now()).total_seconds())


def _keys(username: str, address: str) -> dict[Subject, str]:
    keys = {Subject.ACCOUNT: account_key(username)}
    if address:
        keys[Subject.ADDRESS] = network_of(address)
    return keys


def _locked_counters(username: str, address: str) -> Sequence[SignInFailures]:
    """Return the locked counters of an account and an address, new ones if needed."""
    user = User.objects.filter(username__iexact=username).first()
    now = database_now()
    keys = _keys(username, address)
    SignInFailures.objects.bulk_create(
        [
            SignInFailures(
                subject=subject,
                key=key,
                user=user if subject is Subject.ACCOUNT else None,
                failed_at=now,
                blocked_until=now,
            )
            for subject, key in keys.items()
        ],
        ignore_conflicts=True,
    )
    return [
        SignInFailures.objects.select_for_update().get(subject=subject, key=key)
        for subject, key in keys.items()
    ]


def _delay(row: SignInFailures) -> timedelta:
    return timedelta(seconds=delay_s(Subject(row.subject), row.failures))


def _forgive(username: str, address: str) -> None:
    """Delete the failures of an account, and take back the attempt of the address.

    The earlier failures of the address stay: an attacker may own one account.
    """
    with transaction.atomic():
        for row in _locked_counters(username, address):
            if row.subject == Subject.ACCOUNT or row.failures <= 1:
                row.delete()
                continue
            row.failures -= 1
            row.blocked_until = database_now()
            row.save(update_fields=["failures", "blocked_until"])


def _record_failure(counters: Sequence[SignInFailures]) -> None:
    """Record a failed attempt; the name only of an account that exists."""
    account = counters[0]
    user = account.user
    record_act(
        Act(
            "sign_in.failed",
            str(user.pk) if user else "",
            user.username if user else "",
            after={
                "failures": account.failures,
                "wait_s": max(_delay(row).total_seconds() for row in counters),
            },
            message="" if user else "There is no user of this name.",
        )
    )
