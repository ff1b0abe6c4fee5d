"""The JSON renderer."""

import json
from typing import Any

from rest_framework.renderers import BaseRenderer


class PlainJSONRenderer(BaseRenderer):
    """Renders plain values: representations contain no objects that need encoding."""

    media_type = "application/json"
    format = "json"
    charset = None

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None
    ) -> bytes:
        """Return the body; empty for None."""
        return b"" if data is None else encode(data)


def encode(data: Any) -> bytes:
    """Return compact JSON; NaN raises ValueError."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
