"""The policy that an administrator applied."""

from apps.common.infrastructure.database import fetch_prepared
from apps.inventory.models import DefaultPolicy


def applied_policy() -> DefaultPolicy:
    """Return the policy that an administrator applied; one that is empty before the first."""
    found = DefaultPolicy.objects.select_related("changed_by").filter(pk=1).first()
    return found or DefaultPolicy()


def applied_policy_name() -> str:
    """Return the name of `applied_policy`, empty before the first; agents read it in each turn."""
    rows = fetch_prepared("SELECT policy FROM inventory_defaultpolicy WHERE id = 1", ())
    return str(rows[0][0]) if rows else ""


def lock_applied_policy() -> DefaultPolicy:
    """Lock the row of the applied policy; created on first use."""
    DefaultPolicy.objects.get_or_create(pk=1)
    return DefaultPolicy.objects.select_for_update().get(pk=1)
