"""Append to the audit log."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import connection, transaction
from django.utils import timezone

from apps.accounts.infrastructure.actor import Via, current_actor
from apps.accounts.models import AuditEntry, Token, User
from apps.common.infrastructure.request_id import current_request_id

MAX_NAME = 253


class NotInTransactionError(RuntimeError):
    """An act and its entry would not be committed together."""


@dataclass(frozen=True, slots=True)
class Act:
    """An administrative act.

    Attributes
    ----------
    action : object and verb, such as "plan.approved"; the object is the kind of the object
    object_id, object_name : the object; the name is the one before a change of it
    before, after : changed fields, plain JSON; None if there is no state to show
    message : the reason that the caller gave
    """

    action: str
    object_id: str
    object_name: str = ""
    before: Mapping[str, Any] | None = None
    after: Mapping[str, Any] | None = None
    message: str = ""

    @property
    def object_kind(self) -> str:
        """Kind of the object."""
        return self.action.partition(".")[0]


def record_act(act: Act, *, by: UUID | None = None) -> None:
    """Append an act of the current actor to the audit log, in the transaction of the act.

    Parameters
    ----------
    by : the user of an act that a worker performs later; ignored during a request

    Raises
    ------
    NotInTransactionError : there is no transaction.
    """
    if not connection.in_atomic_block:
        raise NotInTransactionError(f"{act.action} is recorded outside of a transaction")
    actor = current_actor()
    user_id, username = actor.user_id, actor.username
    if user_id is None and by is not None and actor.via is Via.SYSTEM:
        names = User.objects.filter(pk=by).values_list("username", flat=True)
        user_id, username = by, names.first() or ""
    AuditEntry.objects.create(
        at=timezone.now(),
        action=act.action,
        via=actor.via,
        user_id=user_id,
        username=username,
        token_id=actor.token_id,
        token_name=_token_name(actor.token_id),
        object_kind=act.object_kind,
        object_id=act.object_id,
        object_name=act.object_name[:MAX_NAME],
        before=None if act.before is None else dict(act.before),
        after=None if act.after is None else dict(act.after),
        message=act.message,
        request_id=current_request_id(),
        address=actor.address,
    )


def record_export(format_name: str, filters: Mapping[str, str]) -> None:
    """Record that the current actor exports the audit log."""
    with transaction.atomic():
        record_act(Act("audit.exported", format_name, after=dict(filters)))


def _token_name(token_id: UUID | None) -> str:
    if token_id is None:
        return ""
    return Token.objects.filter(pk=token_id).values_list("name", flat=True).first() or ""
