"""Writes of classification: matrix revisions, profiles, overrides."""

from apps.classification.services.overrides import (
    NewOverride,
    check_overrides,
    set_overrides,
    withdraw_overrides,
)
from apps.classification.services.profiles import (
    InferredProfile,
    classify,
    fold_pending,
    request_all_folds,
    request_folds,
    request_profiles,
    requeue_waiting_jobs,
)
from apps.classification.services.pruning import prune_prediction_errors, prune_profiles
from apps.classification.services.reclassification import (
    begin_reclassification,
    open_reclassification,
    reclassify_if_due,
)
from apps.classification.services.revisions import complete_revision, retrain, store_library

__all__ = [
    "InferredProfile",
    "NewOverride",
    "begin_reclassification",
    "check_overrides",
    "classify",
    "complete_revision",
    "fold_pending",
    "open_reclassification",
    "prune_prediction_errors",
    "prune_profiles",
    "reclassify_if_due",
    "request_all_folds",
    "request_folds",
    "request_profiles",
    "requeue_waiting_jobs",
    "retrain",
    "set_overrides",
    "store_library",
    "withdraw_overrides",
]
