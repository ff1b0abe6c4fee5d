"""What changed in a plan since it was proposed, for its page."""

from collections.abc import Sequence
from dataclasses import dataclass

from apps.dashboard.selectors.plan import PURPOSES
from apps.placement.models import MigrationPurpose, Plan
from apps.placement.selectors import plans as placement_plans


@dataclass(frozen=True, slots=True)
class ChangedBundle:
    """A bundle that was dropped or rewritten since the plan was proposed."""

    purpose: str
    about: str
    change: str
    reason: str
    gain: float
    at_s: float


@dataclass(frozen=True, slots=True)
class RebaseSummary:
    """What changed since a plan was proposed; ``difference`` is "" if it was never re-based."""

    difference: str
    changes: Sequence[ChangedBundle]


def rebase_summary(plan: Plan) -> RebaseSummary:
    """Return what changed since a plan was proposed."""
    return RebaseSummary(
        difference=placement_plans.difference(plan),
        changes=[
            ChangedBundle(
                purpose=PURPOSES[MigrationPurpose(entry["purpose"])],
                about=entry["about"],
                change=entry["change"],
                reason=entry["reason"],
                gain=entry["gain"],
                at_s=entry["cluster_seconds"],
            )
            for entry in plan.changes
        ],
    )
