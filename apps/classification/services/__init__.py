"""Writes of classification: revisions of the matrices, profiles, corrections."""

from apps.classification.services.folding import (
    classify,
    classify_again,
    fold_pending,
    repair_waiting,
    request_folds,
)
from apps.classification.services.overrides import set_overrides, withdraw_overrides
from apps.classification.services.revisions import (
    evaluate_revision,
    reclassify,
    store_library,
)

__all__ = [
    "classify",
    "classify_again",
    "evaluate_revision",
    "fold_pending",
    "reclassify",
    "repair_waiting",
    "request_folds",
    "set_overrides",
    "store_library",
    "withdraw_overrides",
]
