"""Credentials of the agents: enrolment of a machine, rotation and revocation.

A secret is shown once; only its SHA-256 is stored. The secret of an agent is no token of a user:
no other route accepts it.
"""

import secrets
from datetime import timedelta
from typing import Final, NamedTuple

from django.db import transaction

from apps.accounts.models import User
from apps.accounts.selectors import token_digest
from apps.accounts.services import Act, record_act
from apps.common.core.errors import ConflictError, NotFoundError
from apps.common.infrastructure.database import database_now
from apps.execution.models import EnrolmentToken, ServerAgent
from apps.inventory.core.backends import AGENT
from apps.inventory.models import Server

CREDENTIAL_PREFIX: Final = "berthagent_"
ENROLMENT_PREFIX: Final = "berthenrol_"
ENROLMENT_S: Final = 3600.0  # wall seconds


class NewEnrolment(NamedTuple):
    """An enrolment token and its secret, which is not stored."""

    token: EnrolmentToken
    secret: str


class NewCredential(NamedTuple):
    """An agent and its secret, which is not stored."""

    agent: ServerAgent
    secret: str


def create_enrolment(
    *, server_name: str, user: User, lifetime_s: float = ENROLMENT_S
) -> NewEnrolment:
    """Permit one machine to enrol as a server.

    Raises
    ------
    ConflictError : a server of another backend has the name.
    """
    secret = ENROLMENT_PREFIX + secrets.token_urlsafe(32)
    with transaction.atomic():
        if Server.objects.filter(name=server_name).exclude(backend=AGENT).exists():
            raise ConflictError(f"The server {server_name} has no agent; choose another name.")
        token = EnrolmentToken.objects.create(
            server_name=server_name,
            digest=token_digest(secret),
            created_by=user,
            expires_at=database_now() + timedelta(seconds=lifetime_s),
        )
        expires_at = token.expires_at.isoformat()
        record_act(
            Act("agent.permitted", str(token.pk), server_name, after={"expires_at": expires_at})
        )
    return NewEnrolment(token, secret)


def enrol(secret: str) -> NewCredential:
    """Exchange an enrolment token for the credential of its server.

    An older credential of the server is replaced, and its agent is fenced.

    Raises
    ------
    NotFoundError : the token is unknown, used or expired.
    """
    with transaction.atomic():
        now = database_now()
        token = EnrolmentToken.objects.select_for_update().filter(digest=token_digest(secret))
        permitted = token.filter(used_at=None, expires_at__gt=now).first()
        if permitted is None:
            raise NotFoundError("The enrolment token is unknown, used or expired.")
        permitted.used_at = now
        permitted.save(update_fields=["used_at"])
        new = CREDENTIAL_PREFIX + secrets.token_urlsafe(32)
        agent, is_new = ServerAgent.objects.get_or_create(
            name=permitted.server_name, defaults={"digest": token_digest(new)}
        )
        if not is_new:
            agent.digest, agent.next_digest, agent.revoked_at = token_digest(new), None, None
            agent.epoch += 1
            agent.save(update_fields=["digest", "next_digest", "revoked_at", "epoch"])
        record_act(Act("agent.enrolled", str(agent.pk), agent.name, after={"is_new": is_new}))
    return NewCredential(agent, new)


def agent_of(secret: str) -> ServerAgent | None:
    """Return the agent with a credential; None if it is unknown or revoked.

    The first use of a new credential ends the one before.
    """
    if not secret.startswith(CREDENTIAL_PREFIX):
        return None
    digest, live = token_digest(secret), ServerAgent.objects.filter(revoked_at=None)
    agent = live.select_related("server").filter(digest=digest).first()
    if agent is not None:
        return agent
    rotated = live.filter(next_digest=digest).update(digest=digest, next_digest=None)
    return live.select_related("server").get(digest=digest) if rotated else None


def rotate(agent_id: int) -> str:
    """Return a new secret for an agent; the present one is valid until the new one is used."""
    secret = CREDENTIAL_PREFIX + secrets.token_urlsafe(32)
    with transaction.atomic():
        agent = ServerAgent.objects.select_for_update().get(pk=agent_id)
        agent.next_digest = token_digest(secret)
        agent.save(update_fields=["next_digest"])
        record_act(Act("agent.rotated", str(agent.pk), agent.name))
    return secret


def revoke(name: str) -> None:
    """End the credential of a server's agent; the agent stops its jobs when its lease ends.

    Enrolment tokens of the server that were not used yet end with it.

    Raises
    ------
    NotFoundError : the server has no agent with a valid credential.
    """
    with transaction.atomic():
        agents = ServerAgent.objects.select_for_update().filter(name=name, revoked_at=None)
        agent = agents.first()
        if agent is None:
            raise NotFoundError(f"No agent with a valid credential is enrolled for {name}.")
        agent.revoked_at = database_now()
        agent.save(update_fields=["revoked_at"])
        tokens = EnrolmentToken.objects.filter(server_name=name, used_at=None)
        tokens.filter(expires_at__gt=agent.revoked_at).update(expires_at=agent.revoked_at)
        record_act(Act("agent.revoked", str(agent.pk), agent.name))
