"""Create, rename and delete preference sets."""

from dataclasses import dataclass
from typing import Any
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from apps.accounts.services import Act, record_act
from apps.common.core.errors import ConflictError, FieldProblem, InvalidInputError
from apps.common.core.preconditions import require_generation
from apps.operations.core.states import Topic
from apps.operations.services import NewEvent, record_events
from apps.placement.models import PreferenceSet
from apps.placement.selectors.preferences import FrontPicking


@dataclass(frozen=True, slots=True)
class NewPreferenceSet:
    """A preference set to create."""

    name: str
    note: str
    picking: FrontPicking
    parent_id: UUID | None = None


def create_preference_set(new: NewPreferenceSet, *, by: UUID) -> PreferenceSet:
    """Store picks and the weights they give.

    Raises
    ------
    InvalidInputError : names every invalid screen, pick and value.
    ConflictError : the name is taken.
    """
    derived = new.picking.derive_weights(is_final=True).weights
    if new.parent_id and not PreferenceSet.objects.filter(pk=new.parent_id).exists():
        raise InvalidInputError(
            [FieldProblem("/parent", "unknown", "there is no such preference set")]
        )
    picking = new.picking.input
    row = PreferenceSet(
        name=new.name,
        note=new.note,
        parent_id=new.parent_id,
        version=new.picking.version,
        rule=picking.rule,
        picks={screen: list(points) for screen, points in picking.picks.items()},
        rejected=list(picking.rejected),
        wanted=dict(picking.wanted),
        bounds=dict(picking.bounds),
        weights=dict(derived.weights),
        spread=dict(derived.spread),
        floored=list(derived.floored),
        idle=list(derived.idle),
        created_by_id=by,
    )
    with transaction.atomic():
        _save(row, is_new=True)
        record_act(_act("preference_set.created", row, after=_state(row)), by=by)
        record_events([_event(row, "preference_set.created")])
    return row


def update_preference_set(
    set_id: UUID, *, name: str | None, note: str | None, expected: int | None
) -> PreferenceSet:
    """Change the name or the note of a preference set.

    Raises
    ------
    ChangedMeanwhileError : it does not have the expected generation.
    ConflictError : the name is taken.
    """
    with transaction.atomic():
        row = PreferenceSet.objects.select_for_update().get(pk=set_id)
        require_generation(expected, row.generation)
        before = row.name, _state(row)
        row.name = row.name if name is None else name
        row.note = row.note if note is None else note
        row.generation += 1
        _save(row, is_new=False)
        act = Act("preference_set.updated", str(row.pk), before[0], before[1], _state(row))
        record_act(act)
        record_events([_event(row, "preference_set.updated")])
    return row


def delete_preference_set(set_id: UUID, *, expected: int | None) -> None:
    """Delete a preference set that was never in force and has no plans.

    Raises
    ------
    ChangedMeanwhileError : it does not have the expected generation.
    ConflictError : it was in force, or plans were created with it.
    """
    with transaction.atomic():
        row = PreferenceSet.objects.select_for_update().get(pk=set_id)
        require_generation(expected, row.generation)
        event = _event(row, "preference_set.deleted")
        act = _act("preference_set.deleted", row, before=_state(row))
        try:
            row.delete()
        except ProtectedError as error:
            detail = f"{row.name} was in force or has plans, so it cannot be deleted."
            raise ConflictError(detail) from error
        record_act(act)
        record_events([event])


def _save(row: PreferenceSet, *, is_new: bool) -> None:
    try:
        with transaction.atomic():
            row.save(force_insert=is_new)
    except IntegrityError as error:
        if PreferenceSet.objects.filter(name=row.name).exclude(pk=row.pk).exists():
            raise ConflictError(f"A preference set named {row.name} already exists.") from error
        raise


def _act(action: str, row: PreferenceSet, **states: Any) -> Act:
    return Act(action, str(row.pk), row.name, **states)


def _state(row: PreferenceSet) -> dict[str, Any]:
    return {"name": row.name, "note": row.note, "weights": row.weights}


def _event(row: PreferenceSet, kind: str) -> NewEvent:
    data = {"name": row.name, "weights": row.weights}
    return NewEvent(topic=Topic.FRONTS, kind=kind, subject=str(row.pk), data=data)
