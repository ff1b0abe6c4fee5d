"""The event stream process (uvicorn): `controlplane.asgi:stream`."""

import os

from django.core.asgi import get_asgi_application

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "controlplane.settings.dev")

application = get_asgi_application()

# Models must be loaded before the stream imports them.
from apps.operations.api.stream import application as stream  # noqa: E402

__all__ = ["application", "stream"]
