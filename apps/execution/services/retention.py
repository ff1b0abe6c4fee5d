"""The kinds of history that execution and the apps below it own, by the limits in the settings."""

from collections.abc import Callable
from datetime import datetime

from django.conf import settings

from apps.classification.services import prune_prediction_errors, prune_profiles
from apps.common.infrastructure.deletion import delete_before
from apps.execution.services.samples import HOUR_S, MINUTE_S, Interval, average_samples
from apps.inventory.selectors import cluster_now
from apps.inventory.services import prune_changes
from apps.operations.services.retention import Kind, cutoff
from apps.scheduling.selectors import profiles_with_decisions
from apps.scheduling.services.checkpoints import INTERVAL
from apps.scheduling.services.shadows import prune_shadows
from apps.workloads.services.retention import workload_kinds

DAY_S = 86_400.0


def execution_kinds() -> list[Kind]:
    """Return the kinds of history, those with most rows first.

    Prediction errors are deleted before profiles: a profile is kept while it has some.
    """
    return [
        Kind("samples_minute", lambda: _average(MINUTE_S, settings.BERTH_SAMPLE_HOURS / 24.0)),
        Kind("samples_hour", lambda: _average(HOUR_S, settings.BERTH_SAMPLE_MINUTE_DAYS)),
        Kind(
            "samples",
            lambda: delete_before(
                "execution_jobsample", "cluster_s", _cutoff_s(settings.BERTH_SAMPLE_DAYS)
            ),
        ),
        *workload_kinds(),
        Kind(
            "frames",
            lambda: delete_before(
                "inventory_clusterframe", "cluster_s", _cutoff_s(settings.BERTH_FRAME_DAYS)
            ),
        ),
        Kind(
            "prediction_errors",
            lambda: _if(
                settings.BERTH_PREDICTION_ERRORS_KEPT,
                lambda keep: prune_prediction_errors(keep=keep),
            ),
        ),
        Kind(
            "profiles",
            lambda: _if(
                settings.BERTH_PROFILES_KEPT,
                lambda keep: prune_profiles(keep=keep, referenced=profiles_with_decisions),
            ),
        ),
        Kind(
            "system_samples",
            lambda: delete_before(
                "operations_systemsample", "at", cutoff(settings.BERTH_SYSTEM_DAYS)
            ),
        ),
        Kind(
            "start_estimates",
            lambda: delete_before(
                "scheduling_startestimate", "at", cutoff(settings.BERTH_SYSTEM_DAYS)
            ),
        ),
        Kind(
            "preemption_proposals",
            lambda: delete_before(
                "execution_preemptionproposal", "at", cutoff(settings.BERTH_JOB_DAYS)
            ),
        ),
        Kind("shadows", lambda: prune_shadows(before=cutoff(settings.BERTH_SHADOW_DAYS))),
        Kind("changes", lambda: prune_changes(before=_earlier(_of_changes(), _of_checkpoints()))),
        Kind(
            "decision_batches",
            lambda: delete_before(
                "scheduling_decisionbatch", "at", cutoff(settings.BERTH_REPLAY_DAYS)
            ),
        ),
        Kind(
            "checkpoints",
            lambda: delete_before("scheduling_clustercheckpoint", "at", _of_checkpoints()),
        ),
    ]


def _of_changes() -> datetime | None:
    return cutoff(settings.BERTH_CHANGE_DAYS)


def _of_checkpoints() -> datetime | None:
    """Return the time before which no replay needs a checkpoint, or the change log since it."""
    before = cutoff(settings.BERTH_REPLAY_DAYS)
    return None if before is None else before - 2 * INTERVAL


def _earlier(one: datetime | None, other: datetime | None) -> datetime | None:
    """Return the earlier time; None: never."""
    return None if one is None or other is None else min(one, other)


def _if(kept: int, prune: Callable[[int], int]) -> int:
    """Return the number that ``prune`` deletes; 0 if the setting says to keep all."""
    return prune(kept) if kept > 0 else 0


def _cutoff_s(days: float) -> float | None:
    """Return the cluster time before which history of this age is deleted; None: never."""
    return cluster_now() - DAY_S * days if days > 0 else None


def _average(width_s: float, days: float) -> int:
    before_s = _cutoff_s(days)
    if before_s is None:
        return 0
    name = "samples_minute" if width_s == MINUTE_S else "samples_hour"
    return average_samples(Interval(name, width_s, before_s))
