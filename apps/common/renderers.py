"""JSON out."""

import json
from typing import Any

from rest_framework.renderers import BaseRenderer


class PlainJSONRenderer(BaseRenderer):
    """JSON of values that are plain already: representations hold no objects left to encode."""

    media_type = "application/json"
    format = "json"
    charset = None

    def render(
        self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None
    ) -> bytes:
        """Return the body; empty where there is none."""
        return b"" if data is None else encode(data)


def encode(data: Any) -> bytes:
    """JSON bytes, compact, NaN refused."""
    return json.dumps(data, separators=(",", ":"), ensure_ascii=False, allow_nan=False).encode()
