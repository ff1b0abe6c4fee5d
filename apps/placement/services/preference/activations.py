"""Activate and revert weights, by a user or by the guard."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.db import transaction

from apps.accounts.services import Act, record_act
from apps.common.core.errors import ConflictError
from apps.common.core.preconditions import require_generation
from apps.common.infrastructure.advisory_locks import AdvisoryLock, acquire
from apps.inventory.models import Rack
from apps.inventory.selectors import cluster_now
from apps.operations.core.states import Topic
from apps.operations.services import NewEvent, record_events
from apps.placement.models import Activation, PreferenceSet
from apps.placement.selectors.preferences import (
    activation,
    previous_activation,
    share_of_targets_met,
    weights_in_force,
)

_TOLERANCE: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Guard:
    """Condition for reverting weights automatically.

    Attributes
    ----------
    drop : minimum drop in the share of targets met since the activation, in (0, 1]
    seconds : cluster seconds the drop must last
    """

    drop: float
    seconds: float


def activate(  # noqa: PLR0913 - three have defaults
    set_id: UUID,
    *,
    message: str,
    racks: Sequence[Rack] = (),
    guard: Guard | None = None,
    accepted_warnings: Sequence[str] = (),
    expected: int | None,
    by: UUID,
) -> Activation:
    """Bring the weights of a preference set into force.

    Parameters
    ----------
    racks : limit the weights to these racks; empty = all
    accepted_warnings : shown to the user before, and stored in the audit log
    expected : generation of the set the caller has seen; None = any

    Raises
    ------
    ChangedMeanwhileError : the set has another generation: it was edited or activated.
    """
    with transaction.atomic():
        acquire(AdvisoryLock.ACTIVATION)
        chosen = PreferenceSet.objects.select_for_update().get(pk=set_id)
        require_generation(expected, chosen.generation)
        before = weights_in_force()
        chosen.generation += 1
        chosen.save(update_fields=["generation"])
        row = Activation.objects.create(
            preference_set=chosen,
            weights=chosen.weights,
            message=message,
            racks=[rack.pk for rack in racks],
            created_by_id=by,
            cluster_s=cluster_now(),
            met_before=share_of_targets_met(),
            **({} if guard is None else {"guard_drop": guard.drop, "guard_s": guard.seconds}),
        )
        act = _act("weights.activated", before, row, accepted_warnings)
        record_act(act, by=by)
        record_events([_event(row, "weights.activated")])
    return activation(row.pk)


def revert(activation_id: int, *, message: str, by: UUID, is_guard: bool = False) -> Activation:
    """Activate the previous weights again; the new activation can be reverted, too.

    Parameters
    ----------
    is_guard : the guard of the activation reverts it, not the user

    Raises
    ------
    ConflictError : the activation is not in force, or it is the first.
    """
    with transaction.atomic():
        acquire(AdvisoryLock.ACTIVATION)
        current = weights_in_force()
        if current is None or current.pk != activation_id:
            in_force = "no activation is" if current is None else f"activation {current.pk} is"
            raise ConflictError(f"Activation {activation_id} is not in force; {in_force}.")
        earlier = previous_activation(current)
        if earlier is None:
            raise ConflictError(f"No weights were in force before activation {activation_id}.")
        chosen = PreferenceSet.objects.select_for_update().get(pk=earlier.preference_set_id)
        chosen.generation += 1
        chosen.save(update_fields=["generation"])
        row = Activation.objects.create(
            preference_set=chosen,
            weights=earlier.weights,
            message=message,
            racks=earlier.racks,
            reverts=current,
            created_by_id=by,
            cluster_s=cluster_now(),
            met_before=share_of_targets_met(),
        )
        record_act(_act("weights.reverted", current, row), by=None if is_guard else by)
        record_events([_event(row, "weights.reverted", reverts=current.pk)])
    return activation(row.pk)


def check_guard(now_s: float) -> Activation | None:
    """Revert the weights in force if their guard triggers; returns the new activation.

    Parameters
    ----------
    now_s : cluster seconds
    """
    if (guarded := weights_in_force()) is None or guarded.guard_drop is None:
        return None  # the usual case needs no lock
    with transaction.atomic():
        acquire(AdvisoryLock.ACTIVATION)
        current = weights_in_force()
        if current is None or current.guard_drop is None or current.met_before is None:
            return None
        met = share_of_targets_met()
        is_low = met is not None and current.met_before - met >= current.guard_drop - _TOLERANCE
        since_s = current.low_since_s if current.low_since_s is not None else now_s
        low_since_s = since_s if is_low else None
        if low_since_s != current.low_since_s:
            Activation.objects.filter(pk=current.pk).update(low_since_s=low_since_s)
        if not is_low or now_s - since_s < current.guard_s or previous_activation(current) is None:
            return None
        message = (
            f"Guard: the share of targets met dropped from {100 * current.met_before:.1f} % to"
            f" {100 * (met or 0.0):.1f} % for {now_s - since_s:.0f} s."
        )
        return revert(current.pk, message=message, by=current.created_by_id, is_guard=True)


def _act(
    action: str, before: Activation | None, after: Activation, warnings: Sequence[str] = ()
) -> Act:
    return Act(
        action,
        object_id=str(after.pk),
        object_name=after.preference_set.name,
        before=None if before is None else _state(before),
        after=_state(after) | ({"accepted_warnings": list(warnings)} if warnings else {}),
        message=after.message,
    )


def _state(row: Activation) -> dict[str, Any]:
    return {
        "activation": row.pk,
        "set": row.preference_set.name,
        "weights": row.weights,
        "racks": row.racks,
    }


def _event(row: Activation, kind: str, **more: Any) -> NewEvent:
    data = {
        "name": row.preference_set.name,
        "weights": row.weights,
        "message": row.message,
        "racks": row.racks,
        "by": str(row.created_by_id),
        **more,
    }
    return NewEvent(topic=Topic.PLANS, kind=kind, subject=str(row.pk), data=data)
