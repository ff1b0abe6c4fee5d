"""Apply a policy to the cluster; agents follow before their next decision."""

from typing import Final

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from apps.accounts.models import User
from apps.accounts.services import Act, record_act
from apps.common.core.errors import FieldProblem, InvalidInputError
from apps.common.core.preconditions import require_generation
from apps.inventory.models import DefaultPolicy
from apps.inventory.selectors import lock_applied_policy
from apps.operations.core.states import Topic
from apps.operations.services import NewEvent, record_events
from apps.scheduling.core.registry import POLICIES, make

EVENT: Final = "cluster.policy_changed"


def apply_policy(
    policy: str, *, reason: str, by: User | None, expected: int | None = None
) -> DefaultPolicy:
    """Make a policy the one of the cluster.

    Parameters
    ----------
    policy : name in the registry; empty = the setting BERTH_POLICY decides again

    Raises
    ------
    InvalidInputError : there is no such policy.
    PolicyFailedError : it cannot be made.
    ChangedMeanwhileError : somebody else changed it since ``expected``.
    """
    if policy and policy not in POLICIES:
        detail = f"must be one of {', '.join(sorted(POLICIES))}, not {policy!r}"
        raise InvalidInputError([FieldProblem("/policy", "unknown_value", detail)])
    if policy:
        make(policy)
    with transaction.atomic():
        row = lock_applied_policy()
        require_generation(expected, row.generation)
        before = _state(row.policy)
        row.policy, row.reason, row.changed_by, row.changed_at = policy, reason, by, timezone.now()
        row.generation += 1
        row.save()
        after = _state(policy)
        act = "policy.applied" if policy else "policy.reset"
        record_act(Act(act, "1", policy or settings.DEFAULT_POLICY, before, after, message=reason))
        data = {**after, "generation": row.generation}
        record_events([NewEvent(topic=Topic.CLUSTER, kind=EVENT, subject="1", data=data)])
    return row


def _state(applied: str) -> dict[str, str | bool]:
    return {"policy": applied or settings.DEFAULT_POLICY, "is_applied": bool(applied)}
