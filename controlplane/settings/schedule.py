"""What Celery beat starts, how often. Each task only pokes; the rows say what is due."""

from typing import Any

CELERY_BEAT_SCHEDULE: dict[str, dict[str, Any]] = {}
CELERY_TASK_ROUTES: dict[str, dict[str, str]] = {
    "scheduling.agent": {"queue": "agents"},
}
