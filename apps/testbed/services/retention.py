"""The kinds of history that the testbed owns, by the limits in the settings."""

from django.conf import settings

from apps.operations.services.retention import Kind, cutoff
from apps.testbed.services.lab_requests import prune_comparisons, prune_scenarios
from apps.testbed.services.pair_requests import prune_pairs


def testbed_kinds() -> list[Kind]:
    """Return the kinds of history."""
    return [
        Kind("comparisons", lambda: prune_comparisons(before=cutoff(settings.BERTH_LAB_DAYS))),
        Kind("scenarios", lambda: prune_scenarios(before=cutoff(settings.BERTH_LAB_DAYS))),
        Kind("measured pairs", lambda: prune_pairs(before=cutoff(settings.BERTH_LAB_DAYS))),
    ]
