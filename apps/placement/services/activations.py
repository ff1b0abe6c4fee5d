"""Weights coming into force, being taken back, and the guard that takes them back by itself."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from django.db import transaction

from apps.common.core.errors import ConflictError
from apps.common.core.preconditions import require_generation
from apps.inventory.models import Rack
from apps.inventory.selectors import cluster_now
from apps.operations.core.states import Topic
from apps.operations.services import NewEvent, record_events
from apps.placement.models import Activation, PreferenceSet
from apps.placement.selectors.preferences import (
    activation,
    before,
    share_of_targets_met,
    weights_in_force,
)
from apps.placement.services.locks import Lock, hold

_HAIR: Final = 1e-9


@dataclass(frozen=True, slots=True)
class Guard:
    """When weights are taken back by themselves.

    Attributes
    ----------
    drop : of the share of targets met, since they came into force; in (0, 1]
    seconds : for so many cluster seconds on end
    """

    drop: float
    seconds: float


def activate(
    set_id: UUID,
    *,
    message: str,
    racks: Sequence[Rack] = (),
    guard: Guard | None = None,
    expected: int | None,
    by: UUID,
) -> Activation:
    """Bring the weights of a set into force.

    Parameters
    ----------
    racks : only there at first; none = everywhere
    expected : generation of the set that was looked at; None = whatever it is

    Raises
    ------
    ChangedMeanwhileError : the set is at another generation: it was edited, or activated.
    """
    with transaction.atomic():
        hold(Lock.WEIGHTS)
        chosen = PreferenceSet.objects.select_for_update().get(pk=set_id)
        require_generation(expected, chosen.generation)
        chosen.generation += 1
        chosen.save(update_fields=["generation"])
        made = Activation.objects.create(
            preference_set=chosen,
            weights=chosen.weights,
            message=message,
            racks=[rack.pk for rack in racks],
            created_by_id=by,
            cluster_s=cluster_now(),
            met_before=share_of_targets_met(),
            **({} if guard is None else {"guard_drop": guard.drop, "guard_s": guard.seconds}),
        )
        record_events([_event(made, "weights.activated")])
    return activation(made.pk)


def revert(activation_id: int, *, message: str, by: UUID) -> Activation:
    """Bring into force what was before; that is an activation, too, and can be reverted itself.

    Raises
    ------
    ConflictError : it is no longer in force, or nothing was before it.
    """
    with transaction.atomic():
        hold(Lock.WEIGHTS)
        current = weights_in_force()
        if current is None or current.pk != activation_id:
            now = "nothing is" if current is None else f"activation {current.pk} is"
            raise ConflictError(f"Activation {activation_id} is not in force; {now}.")
        earlier = before(current)
        if earlier is None:
            raise ConflictError(f"Nothing was in force before activation {activation_id}.")
        chosen = PreferenceSet.objects.select_for_update().get(pk=earlier.preference_set_id)
        chosen.generation += 1
        chosen.save(update_fields=["generation"])
        made = Activation.objects.create(
            preference_set=chosen,
            weights=earlier.weights,
            message=message,
            racks=earlier.racks,
            reverts=current,
            created_by_id=by,
            cluster_s=cluster_now(),
            met_before=share_of_targets_met(),
        )
        record_events([_event(made, "weights.reverted", reverts=current.pk)])
    return activation(made.pk)


def watch_guards(now_s: float) -> Activation | None:
    """Look whether the weights in force do harm; returns the activation that takes them back.

    Parameters
    ----------
    now_s : cluster seconds
    """
    if (guarded := weights_in_force()) is None or guarded.guard_drop is None:
        return None  # most often, and without a lock
    with transaction.atomic():
        hold(Lock.WEIGHTS)
        current = weights_in_force()
        if current is None or current.guard_drop is None or current.met_before is None:
            return None
        met = share_of_targets_met()
        is_low = met is not None and current.met_before - met >= current.guard_drop - _HAIR
        since_s = current.low_since_s if current.low_since_s is not None else now_s
        low_since_s = since_s if is_low else None
        if low_since_s != current.low_since_s:
            Activation.objects.filter(pk=current.pk).update(low_since_s=low_since_s)
        if not is_low or now_s - since_s < current.guard_s or before(current) is None:
            return None
        message = (
            f"Guard: the share of targets met fell from {100 * current.met_before:.1f} % to"
            f" {100 * (met or 0.0):.1f} % for {now_s - since_s:.0f} s."
        )
        return revert(current.pk, message=message, by=current.created_by_id)


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
