"""Settings shared by all deployments, read from the environment."""

import os
from pathlib import Path
from typing import Any

from apps.common.core.addresses import read_networks
from apps.scheduling.core.admission.types import Control
from apps.scheduling.core.preemption.limits import PreemptionMode
from apps.scheduling.core.reservations.modes import Backfill
from controlplane.settings.addresses import broker_url, client_url, database_from_url, listed

# Settings in separate files.
from controlplane.settings.agents import *  # noqa: F403
from controlplane.settings.rest import *  # noqa: F403
from controlplane.settings.retention import *  # noqa: F403
from controlplane.settings.schedule import *  # noqa: F403
from controlplane.settings.values import choice, number, parsed, whole

BASE_DIR = Path(__file__).resolve().parent.parent.parent

DEBUG = False
SECRET_KEY = os.environ.get("BERTH_SECRET_KEY", "")
ALLOWED_HOSTS = listed(os.environ.get("BERTH_ALLOWED_HOSTS") or "localhost,127.0.0.1,[::1]")
CSRF_TRUSTED_ORIGINS = listed(os.environ.get("BERTH_TRUSTED_ORIGINS", ""))

# Addresses and networks of the proxies whose X-Forwarded-For is trusted.
BERTH_TRUSTED_PROXIES = parsed(
    "BERTH_TRUSTED_PROXIES", "", read_networks, "addresses and networks, comma separated"
)

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.postgres",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "drf_spectacular_sidecar",
    "apps.common",
    "apps.accounts",
    "apps.operations",
    "apps.inventory",
    "apps.workloads",
    "apps.profiling",
    "apps.classification",
    "apps.emulation",
    "apps.scheduling",
    "apps.execution",
    "apps.placement",
    "apps.testbed",
    "apps.dashboard",
    "controlplane",
]

MIDDLEWARE = [
    "apps.common.api.middleware.RequestIdMiddleware",
    "apps.common.api.middleware.CompressionMiddleware",
    "apps.common.api.middleware.ApiProblemMiddleware",
    "apps.common.api.middleware.SecurityHeadersMiddleware",
    "apps.common.api.middleware.InputMiddleware",
    "apps.accounts.api.middleware.ActorMiddleware",
    "controlplane.probes.ProbeMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
]

ROOT_URLCONF = "controlplane.urls"
WSGI_APPLICATION = "controlplane.wsgi.application"

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
            ],
        },
    },
]

DATABASE_URL = os.environ.get("DATABASE_URL", "postgresql:///berth")
DATABASES = {
    "default": database_from_url(DATABASE_URL, conn_max_age_s=whole("BERTH_CONN_MAX_AGE", 60))
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REDIS_URL = client_url(os.environ.get("REDIS_URL", "redis://127.0.0.1:6379/0"))
CACHES: dict[str, dict[str, Any]] = {
    "default": {
        "BACKEND": "django.core.cache.backends.redis.RedisCache",
        "LOCATION": REDIS_URL,
        "KEY_PREFIX": "berth",
    }
}

# Results are stored in our tables. With acks_late, the message of a dead worker is redelivered;
# services claim rows conditionally, so tasks may run twice.
CELERY_BROKER_URL = broker_url(os.environ.get("REDIS_URL", "redis://127.0.0.1:6379/0"))
CELERY_BROKER_TRANSPORT_OPTIONS = {"visibility_timeout": 300}
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_TASK_DEFAULT_QUEUE = "default"
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_TIMEZONE = "UTC"

BERTH_VERSION = "0.1.0"  # same as in pyproject.toml, checked by a test
# The matrices are retrained after this number of new measured applications, or after this number
# of wall seconds if there is at least one.
BERTH_RECLASSIFY_ROWS = whole("BERTH_RECLASSIFY_ROWS", 20, low=1)
BERTH_RECLASSIFY_SECONDS = number("BERTH_RECLASSIFY_SECONDS", 600)
# Default placement policy.
DEFAULT_POLICY = os.environ.get("BERTH_POLICY", "expected")
# Policies that jobs may name (empty: all), and the largest R, candidates per unit.
JOB_POLICIES = listed(os.environ.get("BERTH_JOB_POLICIES", ""))
MAX_SAMPLE = whole("BERTH_MAX_SAMPLE", 32, low=1)
JOB_LIMITS = "apps.scheduling.core.tarcil.job_sampling.job_limits"
# Largest number of members of a job array.
MAX_ARRAY = whole("BERTH_MAX_ARRAY", 10_000, low=1)
# Which waiting jobs get reservations: gangs after so many cluster seconds (easy), or all refused
# jobs (conservative); and reservations at once.
BACKFILL = choice("BERTH_BACKFILL", "easy", Backfill)
RESERVE_AFTER_S = number("BERTH_RESERVE_AFTER_S", 600)
# Half-life of the use that orders the waiting jobs of projects, cluster seconds; 0: by age.
FAIR_SHARE_HALF_LIFE_S = number("BERTH_FAIR_SHARE_HALF_LIFE_S", 0)
# Longest wait of a job for better units while others are free, cluster seconds; 0: none waits.
PATIENCE_S = number("BERTH_PATIENCE_S", 300)
ADMISSION = choice("BERTH_ADMISSION", "none", Control)
ADMISSION_MAX_WAIT_S = number("BERTH_ADMISSION_MAX_WAIT_S", 600)
MAX_RESERVATIONS = whole("BERTH_RESERVATIONS", 4)
# Policies in the shadow (docs/policies.md): at once; share of the decisions of each; share of a
# core that all may use.
MAX_SHADOWS = whole("BERTH_SHADOWS", 2)
MAX_SHADOW_SHARE = number("BERTH_SHADOW_SHARE", 1, high=1)
SHADOW_CPU = number("BERTH_SHADOW_CPU", 0.1, high=1)
# off, previewed or automatic; preemptions of and for a job, victims per cluster hour, and cluster
# seconds until a job may be preempted again.
PREEMPTION = choice("BERTH_PREEMPTION", "off", PreemptionMode)
PREEMPTIONS_PER_JOB = whole("BERTH_PREEMPTIONS_PER_JOB", 3)
PREEMPTIONS_PER_HOUR = whole("BERTH_PREEMPTIONS_PER_HOUR", 60)
PREEMPTION_COOLDOWN_S = number("BERTH_PREEMPTION_COOLDOWN_S", 600)
# Wall seconds after which an agent that hears nothing stops its jobs, and how long the jobs of a
# machine that is lost wait: at least some heartbeats, at most a week.
AGENT_LEASE_S = number("BERTH_AGENT_LEASE_S", 90, low=15, high=604_800)
# Profiling of commands by agents: stressors (empty = the default ones), wall seconds that a copy
# may run and may wait for cores, and how often it is started.
PROBE_STRESSORS = listed(os.environ.get("BERTH_PROBE_STRESSORS", ""))
PROBE_LIMIT_S = number("BERTH_PROBE_LIMIT_S", 900, low=1)
PROBE_WAIT_S = number("BERTH_PROBE_WAIT_S", 300)
PROBE_ATTEMPTS = whole("BERTH_PROBE_ATTEMPTS", 3)
PROBE_PAUSE_S = number("BERTH_PROBE_PAUSE_S", 3600)
# Emulated servers and applications are drawn from this world: measured or paper.
EMULATED_WORLD = choice("BERTH_WORLD", "measured", ("measured", "paper"))

AUTH_USER_MODEL = "accounts.User"
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {
        "NAME": "django.contrib.auth.password_validation.MinimumLengthValidator",
        "OPTIONS": {"min_length": 10},
    },
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
LOGIN_URL = "/login/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/login/"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"

TIME_ZONE = "UTC"
USE_TZ = True
USE_I18N = False

STATIC_URL = "/static/"
STATIC_ROOT: Path | None = BASE_DIR / "staticfiles"
STATICFILES_DIRS = [BASE_DIR / "static"]

SECURE_CONTENT_TYPE_NOSNIFF = True
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"

LOG_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
LOGGING_CONFIG = "apps.common.infrastructure.log_records.configure_logging"
LOGGING = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {"format": "{asctime} {levelname} {name}: {message}", "style": "{"},
    },
    "filters": {
        "refusals": {"()": "apps.common.infrastructure.log_records.RefusalsWithoutTraceback"},
    },
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "loggers": {"django.request": {"filters": ["refusals"]}},
    "root": {"handlers": ["console"], "level": choice("BERTH_LOG_LEVEL", "INFO", LOG_LEVELS)},
}
