"""Settings of the test suite: development settings with a fast password hasher."""

from controlplane.settings.dev import *  # noqa: F403  (settings extend the base by design)

SECRET_KEY = "test"
DEBUG = False
ALLOWED_HOSTS = ["*"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
# Large enough that no entry is evicted during a run.
CACHES = {
    "default": {
        "BACKEND": "django.core.cache.backends.locmem.LocMemCache",
        "OPTIONS": {"MAX_ENTRIES": 1_000_000},
    }
}
EMULATED_WORLD = "paper"  # its numbers are those that the tests expect
WHITENOISE_AUTOREFRESH = True
# Some modules keep a transaction for all their tests, and one of these may compile for minutes.
DATABASES["default"]["OPTIONS"]["options"] += " -c idle_in_transaction_session_timeout=0"  # noqa: F405
