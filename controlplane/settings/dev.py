"""One machine over plain HTTP: what `./dev run` serves on the loopback address."""

import os

from controlplane.settings.base import *  # noqa: F403  (settings extend the base by design)

# `./dev run` makes a key of its own and keeps it; this one serves commands outside of it.
SECRET_KEY = os.environ.get("BERTH_SECRET_KEY") or "not-a-secret-used-only-on-this-machine"
DEBUG = os.environ.get("BERTH_DEBUG") == "1"

# No collectstatic step: files are found in static/ and in the apps when the server starts.
STATIC_ROOT = None
WHITENOISE_USE_FINDERS = True
WHITENOISE_AUTOREFRESH = DEBUG
