"""What Celery beat starts, how often. Each task only looks: the rows say what is due."""

from typing import Any

# A message nobody took within this time is worth nothing: the next one is on its way.
_FRESH = {"expires": 5.0}

CELERY_BEAT_SCHEDULE: dict[str, dict[str, Any]] = {
    # wall seconds
    "scheduling.agent": {
        "task": "scheduling.agent",
        "schedule": 1.0,
        "options": {"expires": 1.0, "queue": "agents"},
    },
    "execution.frame": {"task": "execution.frame", "schedule": 1.0, "options": {"expires": 1.0}},
    "classification.reclassify": {
        "task": "classification.reclassify",
        "schedule": 5.0,
        "options": _FRESH,
    },
    "execution.classify": {"task": "execution.classify", "schedule": 2.0, "options": _FRESH},
    "execution.feedback": {"task": "execution.feedback", "schedule": 15.0, "options": _FRESH},
    "execution.sweep": {"task": "execution.sweep", "schedule": 5.0, "options": _FRESH},
    "placement.carry_out": {
        "task": "placement.carry_out",
        "schedule": 1.0,
        "options": {"expires": 1.0},
    },
    "placement.watch": {"task": "placement.watch", "schedule": 5.0, "options": _FRESH},
    "placement.loop": {"task": "placement.loop", "schedule": 1.0, "options": {"expires": 1.0}},
    "placement.make_plans": {
        "task": "placement.make_plans",
        "schedule": 5.0,
        "options": _FRESH,
    },
    "placement.fronts": {
        "task": "placement.fronts",
        "schedule": 5.0,
        "options": {"expires": 5.0, "queue": "placement"},
    },
    "operations.sweep": {"task": "operations.sweep", "schedule": 10.0, "options": _FRESH},
    "operations.prune": {"task": "operations.prune", "schedule": 3600.0},
    "execution.prune": {"task": "execution.prune", "schedule": 3600.0},
    "placement.prune": {"task": "placement.prune", "schedule": 3600.0},
}
CELERY_TASK_ROUTES: dict[str, dict[str, str]] = {
    "scheduling.agent": {"queue": "agents"},
    "placement.fronts": {"queue": "placement"},
}
