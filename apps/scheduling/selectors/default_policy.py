"""The policy of the cluster: the one that an administrator applied, or else the setting."""

from django.conf import settings

from apps.inventory.selectors import applied_policy_name
from apps.scheduling.core.registry import POLICIES


def policy_in_use() -> str:
    """Return the policy that decides on jobs that name none.

    An applied policy whose package is no longer installed is ignored, so that jobs are placed.
    """
    applied = applied_policy_name()
    return applied if applied in POLICIES else settings.DEFAULT_POLICY
