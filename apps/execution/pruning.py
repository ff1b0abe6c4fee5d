"""What is deleted of finished history, and how much of it is kept."""

from datetime import timedelta
from typing import Final

from django.conf import settings
from django.utils import timezone

from apps.classification.services import prune_prediction_errors, prune_profiles
from apps.inventory.models import ClusterFrame
from apps.inventory.selectors import cluster_now
from apps.inventory.services import prune_changes
from apps.scheduling.selectors import profiles_named

FRAMES_KEPT_S: Final = 14 * 86_400.0  # cluster seconds


def prune() -> None:
    """Delete what is older than the settings keep; each part in batches of its own.

    Prediction errors go before profiles, which stay as long as one of theirs does.
    """
    prune_frames()
    prune_prediction_errors(keep=settings.BERTH_PREDICTION_ERRORS_KEPT)
    prune_profiles(keep=settings.BERTH_PROFILES_KEPT, named=profiles_named)
    prune_changes(before=timezone.now() - timedelta(days=settings.BERTH_CHANGE_DAYS))


def prune_frames() -> int:
    """Delete frames older than two weeks of cluster time; returns how many."""
    return ClusterFrame.objects.filter(cluster_s__lt=cluster_now() - FRAMES_KEPT_S).delete()[0]
