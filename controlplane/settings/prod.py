"""Settings of a deployment behind a reverse proxy that terminates TLS."""

import os

from controlplane.settings.base import *  # noqa: F403  (settings extend the base by design)
from controlplane.settings.values import flag, whole

SECRET_KEY = os.environ["BERTH_SECRET_KEY"]
os.environ["DATABASE_URL"]  # no defaults in production: fail if the addresses are missing
os.environ["REDIS_URL"]

SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SECURE_SSL_REDIRECT = flag("BERTH_HTTPS", default=True)
SECURE_HSTS_SECONDS = whole("BERTH_HSTS_SECONDS", 31_536_000)
SECURE_HSTS_INCLUDE_SUBDOMAINS = True
SECURE_HSTS_PRELOAD = True
SESSION_COOKIE_SECURE = SECURE_SSL_REDIRECT
CSRF_COOKIE_SECURE = SECURE_SSL_REDIRECT

STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "whitenoise.storage.CompressedManifestStaticFilesStorage"},
}
