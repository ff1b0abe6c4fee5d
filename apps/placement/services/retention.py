"""The kinds of history that placement owns, by the limits in the settings."""

from django.conf import settings

from apps.operations.services.retention import Kind, cutoff
from apps.placement.services.front.fronts import prune_fronts, prune_versions
from apps.placement.services.monitoring import prune_classes
from apps.placement.services.rebalancing.plans import prune_plans, prune_proposals


def placement_kinds() -> list[Kind]:
    """Return the kinds of history."""
    return [
        Kind("container_classes", prune_classes),
        Kind("fronts", lambda: prune_fronts(before=cutoff(settings.BERTH_FRONT_DAYS))),
        Kind("front_versions", prune_versions),
        Kind("proposals", lambda: prune_proposals(before=cutoff(settings.BERTH_EVENT_DAYS))),
        Kind("plans", lambda: prune_plans(before=cutoff(settings.BERTH_PLAN_DAYS))),
    ]
