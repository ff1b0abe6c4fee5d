"""Writes of objectives that somebody adds."""

from uuid import UUID

from django.db import IntegrityError, transaction

from apps.common.core.errors import ConflictError, NotFoundError
from apps.common.core.preconditions import require_generation
from apps.operations.core.states import Topic
from apps.operations.services import NewEvent, record_events
from apps.placement.core.curves import MOST, Curve
from apps.placement.models import CurveObjective


def add_objective(name: str, curve: Curve, *, weight: float, by: UUID) -> CurveObjective:
    """Add an objective that charges watts.

    Raises
    ------
    ConflictError : the name is taken, or there are `MOST` already.
    """
    try:
        with transaction.atomic():
            if CurveObjective.objects.count() >= MOST:
                raise ConflictError(f"There are {MOST} objectives already: remove one first.")
            row = CurveObjective.objects.create(
                name=name,
                label=curve.label,
                unit=curve.unit,
                hours=list(curve.hours),
                curve={rack: list(values) for rack, values in curve.curve.items()},
                weight=weight,
                created_by_id=by,
            )
            _record("objective.created", row)
    except IntegrityError as error:
        raise ConflictError(f"There is an objective {name!r} already.") from error
    return row


def weigh_objective(name: str, weight: float, *, expected: int | None = None) -> CurveObjective:
    """Change what an objective counts on the running cluster.

    Raises
    ------
    NotFoundError : there is none of that name.
    ChangedMeanwhileError : it is not of the generation expected.
    """
    with transaction.atomic():
        row = _locked(name)
        require_generation(expected, row.generation)
        row.weight = weight
        row.generation += 1
        row.save(update_fields=["weight", "generation"])
        _record("objective.updated", row)
    return row


def remove_objective(name: str) -> None:
    """Remove an objective; it counts no more from the next plan on.

    Raises
    ------
    NotFoundError : there is none of that name.
    """
    with transaction.atomic():
        row = _locked(name)
        _record("objective.removed", row)
        row.delete()


def _locked(name: str) -> CurveObjective:
    row = CurveObjective.objects.select_for_update().filter(name=name).first()
    if row is None:
        raise NotFoundError(f"Nobody added an objective {name!r}.")
    return row


def _record(kind: str, row: CurveObjective) -> None:
    facts = {"name": row.name, "weight": row.weight}
    record_events([NewEvent(topic=Topic.PLANS, kind=kind, subject=row.name, data=facts)])
