"""The test suite: development settings, cheap passwords, tasks only when a worker runs them."""

from controlplane.settings.dev import *  # noqa: F403  (settings extend the base by design)

SECRET_KEY = "test"
DEBUG = False
ALLOWED_HOSTS = ["*"]
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
CACHES = {"default": {"BACKEND": "django.core.cache.backends.locmem.LocMemCache"}}
WHITENOISE_AUTOREFRESH = True
