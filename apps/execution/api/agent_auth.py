"""Authentication of agents: a credential permits the agent routes of one server only."""

from typing import Any

from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed
from rest_framework.permissions import BasePermission
from rest_framework.request import Request

from apps.execution.models import ServerAgent
from apps.execution.services.agent_credentials import agent_of


class AgentCaller:
    """The ``request.user`` of an agent; the agent itself is ``request.auth``."""

    is_authenticated = True
    is_active = True
    is_anonymous = False

    def __init__(self, agent: ServerAgent) -> None:
        self.pk = self.id = f"agent-{agent.pk}"
        self.username = f"agent of {agent.name}"


class AgentAuthentication(BaseAuthentication):
    """Authenticates ``Authorization: Bearer berthagent_...`` with one query."""

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        """Return the agent, or None without a bearer token."""
        scheme, _, secret = request.META.get("HTTP_AUTHORIZATION", "").partition(" ")
        if scheme.lower() != "bearer":
            return None
        agent = agent_of(secret.strip())
        if agent is None:
            raise AuthenticationFailed("The credential is unknown or revoked.")
        return AgentCaller(agent), agent

    def authenticate_header(self, request: Request) -> str:
        """Return the challenge of a 401."""
        return 'Bearer realm="berth agents"'


class IsAgent(BasePermission):
    """Admits agents."""

    def has_permission(self, request: Request, view: Any) -> bool:
        """Return True if an agent calls."""
        return isinstance(request.auth, ServerAgent)
