"""The actor whose acts this thread performs, for the audit log."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final
from uuid import UUID


class Via(StrEnum):
    """How an actor acts."""

    SESSION = "session"  # a signed-in browser
    TOKEN = "token"  # noqa: S105 - the kind of credential, not a secret
    COMMAND = "command"  # a management command on the host
    SYSTEM = "system"  # Berth itself: agents, sweeps, guards


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts, with which credential and from where.

    Attributes
    ----------
    user_id : None if nobody is signed in
    address : IP address of the client; empty outside of a request
    """

    via: Via = Via.SYSTEM
    user_id: UUID | None = None
    username: str = ""
    token_id: UUID | None = None
    address: str = ""


_SYSTEM: Final = Actor()
_CURRENT: ContextVar[Actor] = ContextVar("actor", default=_SYSTEM)


def current_actor() -> Actor:
    """Return the actor of this thread; Berth itself outside of requests and commands."""
    return _CURRENT.get()


def identify_actor(user_id: UUID, username: str, token_id: UUID | None = None) -> None:
    """Add who calls to a request whose address is known."""
    via = Via.TOKEN if token_id else Via.SESSION
    actor = replace(_CURRENT.get(), via=via, user_id=user_id, username=username, token_id=token_id)
    _CURRENT.set(actor)


@contextmanager
def acting_as(actor: Actor) -> Iterator[None]:
    """Attribute the acts inside to an actor."""
    before = _CURRENT.set(actor)
    try:
        yield
    finally:
        _CURRENT.reset(before)
