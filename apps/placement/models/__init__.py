"""Container classes, fronts, preference sets, activated weights, plans and their migrations."""

from apps.placement.models.fronts import (
    Activation,
    ContainerClass,
    CurveObjective,
    Front,
    FrontSource,
    FrontVersion,
    MetricThreshold,
    PreferenceSet,
    WeightRule,
)
from apps.placement.models.plans import (
    NAMED_CAUSES,
    PLAN_STATES,
    LoopMode,
    MigrationPurpose,
    Plan,
    PlanCause,
    PlannedMigration,
    PlannedMigrationState,
    RebalancingLoop,
)

__all__ = [
    "NAMED_CAUSES",
    "PLAN_STATES",
    "Activation",
    "ContainerClass",
    "CurveObjective",
    "Front",
    "FrontSource",
    "FrontVersion",
    "LoopMode",
    "MetricThreshold",
    "MigrationPurpose",
    "Plan",
    "PlanCause",
    "PlannedMigration",
    "PlannedMigrationState",
    "PreferenceSet",
    "RebalancingLoop",
    "WeightRule",
]
