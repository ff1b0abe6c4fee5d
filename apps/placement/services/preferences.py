"""Preference sets: written once, named, noted, forgotten while nothing came of them."""

from dataclasses import dataclass
from uuid import UUID

from django.db import IntegrityError, transaction
from django.db.models import ProtectedError

from apps.common.core.errors import ConflictError, FieldProblem, InvalidInputError
from apps.common.core.preconditions import require_generation
from apps.operations.core.states import Topic
from apps.operations.services import NewEvent, record_events
from apps.placement.models import PreferenceSet
from apps.placement.selectors.preferences import Picked


@dataclass(frozen=True, slots=True)
class NewSet:
    """A preference set to keep."""

    name: str
    note: str
    picked: Picked
    parent_id: UUID | None = None


def keep_set(wanted: NewSet, *, by: UUID) -> PreferenceSet:
    """Keep picks and the weights they give.

    Raises
    ------
    InvalidInputError : names every screen, pick and value that cannot be.
    ConflictError : the name is taken.
    """
    made = wanted.picked.derived(is_final=True).weights
    if wanted.parent_id and not PreferenceSet.objects.filter(pk=wanted.parent_id).exists():
        raise InvalidInputError([FieldProblem("/parent", "unknown", "there is no such set")])
    picking = wanted.picked.picking
    row = PreferenceSet(
        name=wanted.name,
        note=wanted.note,
        parent_id=wanted.parent_id,
        version=wanted.picked.version,
        rule=picking.rule,
        picks={screen: list(points) for screen, points in picking.picks.items()},
        rejected=list(picking.rejected),
        wanted=dict(picking.wanted),
        weights=dict(made.weights),
        spread=dict(made.spread),
        floored=list(made.floored),
        idle=list(made.idle),
        created_by_id=by,
    )
    with transaction.atomic():
        _save(row, is_new=True)
        record_events([_event(row, "preference_set.created")])
    return row


def rename_set(
    set_id: UUID, *, name: str | None, note: str | None, expected: int | None
) -> PreferenceSet:
    """Give a set another name or note; what it says stays.

    Raises
    ------
    ChangedMeanwhileError : it is no longer at the generation expected.
    ConflictError : the name is taken.
    """
    with transaction.atomic():
        row = PreferenceSet.objects.select_for_update().get(pk=set_id)
        require_generation(expected, row.generation)
        row.name = row.name if name is None else name
        row.note = row.note if note is None else note
        row.generation += 1
        _save(row, is_new=False)
        record_events([_event(row, "preference_set.updated")])
    return row


def forget_set(set_id: UUID, *, expected: int | None) -> None:
    """Delete a set that was never in force and that no plan came from.

    Raises
    ------
    ChangedMeanwhileError : it is no longer at the generation expected.
    ConflictError : it was in force, or plans were made by it: it is history.
    """
    with transaction.atomic():
        row = PreferenceSet.objects.select_for_update().get(pk=set_id)
        require_generation(expected, row.generation)
        event = _event(row, "preference_set.deleted")
        try:
            row.delete()
        except ProtectedError as error:
            detail = f"{row.name} was in force, or plans were made by it: it is history."
            raise ConflictError(detail) from error
        record_events([event])


def _save(row: PreferenceSet, *, is_new: bool) -> None:
    try:
        with transaction.atomic():
            row.save(force_insert=is_new)
    except IntegrityError as error:
        if PreferenceSet.objects.filter(name=row.name).exclude(pk=row.pk).exists():
            raise ConflictError(f"There is a preference set {row.name} already.") from error
        raise


def _event(row: PreferenceSet, kind: str) -> NewEvent:
    data = {"name": row.name, "weights": row.weights}
    return NewEvent(topic=Topic.FRONTS, kind=kind, subject=str(row.pk), data=data)
