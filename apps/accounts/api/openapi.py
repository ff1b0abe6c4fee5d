"""OpenAPI descriptions of the two authentication schemes."""

from typing import Any

from drf_spectacular.extensions import OpenApiAuthenticationExtension


class BearerScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # untyped base
    """Tokens."""

    target_class = "apps.accounts.api.authentication.TokenAuthentication"
    name = "bearer"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        """Return the scheme."""
        return {"type": "http", "scheme": "bearer"}


class SessionScheme(OpenApiAuthenticationExtension):  # type: ignore[no-untyped-call]  # untyped base
    """Browser sessions."""

    target_class = "apps.accounts.api.authentication.BrowserAuthentication"
    name = "session"

    def get_security_definition(self, auto_schema: Any) -> dict[str, Any]:
        """Return the scheme."""
        return {"type": "apiKey", "in": "cookie", "name": "sessionid"}
