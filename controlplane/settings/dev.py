"""Settings of `./dev run`: plain HTTP on the loopback address."""

import os

from controlplane.settings.base import *  # noqa: F403  (settings extend the base by design)

# `./dev run` creates and stores its own key; this one is for other commands.
SECRET_KEY = os.environ.get("BERTH_SECRET_KEY") or "not-a-secret-used-only-on-this-machine"
DEBUG = os.environ.get("BERTH_DEBUG") == "1"

# No collectstatic: the server finds static files in static/ and the apps.
STATIC_ROOT = None
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG
