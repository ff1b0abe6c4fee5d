"""OpenAPI description of the authentication of agents."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension


class AgentScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # untyped base
    """Credentials of agents."""

    target_class = "apps.execution.api.agent_auth.AgentAuthentication"
    name = "agent"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        """Return the scheme."""
        return {"type": "http", "scheme": "bearer"}
