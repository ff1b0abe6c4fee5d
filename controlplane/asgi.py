"""The stream process (uvicorn): `controlplane.asgi:stream` serves events and waiting agents."""

import os
from typing import Any

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.dev")

application = get_asgi_application()

# Models must be loaded before the streams import them.
from apps.execution.api import order_stream  # noqa: E402
from apps.operations.api import stream as event_stream  # noqa: E402


async def stream(scope: dict[str, Any], receive: Any, send: Any) -> None:
    """Serve the stream that a path names (ASGI 3)."""
    is_agent = scope.get("path") == order_stream.PATH
    await (order_stream if is_agent else event_stream).application(scope, receive, send)


__all__ = ["application", "stream"]
