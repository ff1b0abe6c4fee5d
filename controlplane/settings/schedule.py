"""What Celery beat starts, how often. Each task only pokes; the rows say what is due."""

from typing import Any

CELERY_BEAT_SCHEDULE: dict[str, dict[str, Any]] = {
    # wall seconds
    "operations.prune": {"task": "operations.prune", "schedule": 3600.0},
    "operations.sweep": {"task": "operations.sweep", "schedule": 10.0},
}
CELERY_TASK_ROUTES: dict[str, dict[str, str]] = {
    "scheduling.agent": {"queue": "agents"},
}
