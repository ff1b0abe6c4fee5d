"""Writes of classification: revisions of the matrices, profiles, corrections."""

from apps.classification.services.folding import (
    Drawn,
    classify,
    classify_again,
    fold_pending,
    repair_waiting,
    request_folds,
    request_profiles,
)
from apps.classification.services.overrides import (
    NewOverride,
    check_overrides,
    set_overrides,
    withdraw_overrides,
)
from apps.classification.services.pruning import prune_prediction_errors, prune_profiles
from apps.classification.services.reclassification import (
    begin_reclassification,
    open_reclassification,
    reclassify_if_due,
)
from apps.classification.services.revisions import complete_revision, retrain, store_library

__all__ = [
    "Drawn",
    "NewOverride",
    "begin_reclassification",
    "check_overrides",
    "classify",
    "classify_again",
    "complete_revision",
    "fold_pending",
    "open_reclassification",
    "prune_prediction_errors",
    "prune_profiles",
    "reclassify_if_due",
    "repair_waiting",
    "request_folds",
    "request_profiles",
    "retrain",
    "set_overrides",
    "store_library",
    "withdraw_overrides",
]
