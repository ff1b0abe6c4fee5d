"""Decisions, allocations, admission, start estimates and shadows."""

from apps.scheduling.models.admission import (
    AdmissionState,
    SizingAllowance,
    SpeedRatio,
    StartEstimate,
)
from apps.scheduling.models.allocations import Allocation, Reservation
from apps.scheduling.models.decisions import ClusterCheckpoint, Decision, DecisionBatch, Outcome
from apps.scheduling.models.shadows import MAX_ERROR, Shadow, ShadowDecision, ShadowEnd

__all__ = [
    "MAX_ERROR",
    "AdmissionState",
    "Allocation",
    "ClusterCheckpoint",
    "Decision",
    "DecisionBatch",
    "Outcome",
    "Reservation",
    "Shadow",
    "ShadowDecision",
    "ShadowEnd",
    "SizingAllowance",
    "SpeedRatio",
    "StartEstimate",
]
