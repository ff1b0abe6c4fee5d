"""Schedule of Celery beat. Tasks read from the database what is due."""

from typing import Any

# An unclaimed message expires by the broker's clock, as the next one follows.
_FRESH = {"expires": 5.0}
# Short tasks that must not wait for long ones.
_UPKEEP = {"expires": 5.0, "queue": "upkeep"}
_NEXT_RUN = {"expires": 300.0}

# One process sends; others stand by.
CELERY_BEAT_SCHEDULER = "controlplane.beat:StandbyScheduler"
CELERY_BEAT_SCHEDULE: dict[str, dict[str, Any]] = {
    # wall seconds
    "scheduling.agent": {
        "task": "scheduling.agent",
        "schedule": 1.0,
        "options": {"expires": 1.0, "queue": "agents"},
    },
    "scheduling.estimate_starts": {
        "task": "scheduling.estimate_starts",
        "schedule": 5.0,
        "options": _FRESH,
    },
    "scheduling.checkpoint": {
        "task": "scheduling.checkpoint",
        "schedule": 5.0,
        "options": _FRESH,
    },
    "scheduling.shadow": {
        "task": "scheduling.shadow",
        "schedule": 5.0,
        "options": {"expires": 5.0, "queue": "placement"},
    },
    "scheduling.fair_shares": {
        "task": "scheduling.fair_shares",
        "schedule": 5.0,
        "options": _FRESH,
    },
    "execution.sample_system": {
        "task": "execution.sample_system",
        "schedule": 10.0,
        "options": _UPKEEP,
    },
    "execution.frame": {"task": "execution.frame", "schedule": 1.0, "options": _UPKEEP},
    "classification.reclassify": {
        "task": "classification.reclassify",
        "schedule": 5.0,
        "options": _FRESH,
    },
    "execution.classify": {"task": "execution.classify", "schedule": 2.0, "options": _FRESH},
    "execution.feedback": {"task": "execution.feedback", "schedule": 15.0, "options": _FRESH},
    "execution.preempt": {"task": "execution.preempt", "schedule": 5.0, "options": _FRESH},
    "workloads.fold_counts": {
        "task": "workloads.fold_counts",
        "schedule": 2.0,
        "options": _FRESH,
    },
    "workloads.release_members": {
        "task": "workloads.release_members",
        "schedule": 5.0,
        "options": _FRESH,
    },
    "execution.sweep": {"task": "execution.sweep", "schedule": 5.0, "options": _UPKEEP},
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
    "testbed.lab": {
        "task": "testbed.lab",
        "schedule": 5.0,
        "options": {"expires": 5.0, "queue": "placement"},
    },
    "testbed.sampling": {
        "task": "testbed.sampling",
        "schedule": 5.0,
        "options": {"expires": 5.0, "queue": "placement"},
    },
    "testbed.pairs": {
        "task": "testbed.pairs",
        "schedule": 2.0,
        "options": {"expires": 2.0, "queue": "placement"},
    },
    "operations.sweep": {"task": "operations.sweep", "schedule": 10.0, "options": _UPKEEP},
    "accounts.prune": {"task": "accounts.prune", "schedule": 3600.0},
    "operations.prune": {
        "task": "operations.prune",
        "schedule": 300.0,
        "options": {"expires": 300.0},
    },
    "execution.prune": {
        "task": "execution.prune",
        "schedule": 300.0,
        "options": {"expires": 300.0},
    },
    "placement.prune": {
        "task": "placement.prune",
        "schedule": 300.0,
        "options": {"expires": 300.0},
    },
    "testbed.prune": {"task": "testbed.prune", "schedule": 300.0, "options": {"expires": 300.0}},
}
CELERY_TASK_ROUTES: dict[str, dict[str, str]] = {
    "scheduling.agent": {"queue": "agents"},
    "scheduling.shadow": {"queue": "placement"},
    "placement.fronts": {"queue": "placement"},
    "testbed.lab": {"queue": "placement"},
    "testbed.sampling": {"queue": "placement"},
    "testbed.pairs": {"queue": "placement"},
    "execution.frame": {"queue": "upkeep"},
    "execution.sample_system": {"queue": "upkeep"},
    "execution.sweep": {"queue": "upkeep"},
    "operations.sweep": {"queue": "upkeep"},
}
