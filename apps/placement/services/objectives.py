"""Add, weigh and remove custom objectives."""

from uuid import UUID

from django.db import IntegrityError, transaction

from apps.accounts.services import Act, record_act
from apps.common.core.errors import ConflictError, NotFoundError
from apps.common.core.preconditions import require_generation
from apps.operations.core.states import Topic
from apps.operations.services import NewEvent, record_events
from apps.placement.core.problem.curves import MAX_CURVES, Curve
from apps.placement.models import CurveObjective


def add_objective(name: str, curve: Curve, *, weight: float, by: UUID) -> CurveObjective:
    """Add an objective that prices power consumption.

    Raises
    ------
    ConflictError : the name is taken, or the limit of `MAX_CURVES` is reached.
    """
    try:
        with transaction.atomic():
            if CurveObjective.objects.count() >= MAX_CURVES:
                raise ConflictError(
                    f"The limit of {MAX_CURVES} custom objectives is reached: remove one first."
                )
            row = CurveObjective.objects.create(
                name=name,
                label=curve.label,
                unit=curve.unit,
                hours=list(curve.hours),
                curve={rack: list(values) for rack, values in curve.curve.items()},
                weight=weight,
                created_by_id=by,
            )
            record_act(Act("objective.created", name, name, after={"weight": weight}), by=by)
            _record("objective.created", row)
    except IntegrityError as error:
        raise ConflictError(f"An objective named {name!r} already exists.") from error
    return row


def set_objective_weight(
    name: str, weight: float, *, expected: int | None = None
) -> CurveObjective:
    """Change the weight of a custom objective on the running cluster.

    Raises
    ------
    NotFoundError : there is no such objective.
    ChangedMeanwhileError : it does not have the expected generation.
    """
    with transaction.atomic():
        row = _locked(name)
        require_generation(expected, row.generation)
        before, row.weight = row.weight, weight
        row.generation += 1
        row.save(update_fields=["weight", "generation"])
        record_act(Act("objective.updated", name, name, {"weight": before}, {"weight": weight}))
        _record("objective.updated", row)
    return row


def remove_objective(name: str) -> None:
    """Remove a custom objective; the next plan no longer includes it.

    Raises
    ------
    NotFoundError : there is no such objective.
    """
    with transaction.atomic():
        row = _locked(name)
        record_act(Act("objective.removed", name, name, before={"weight": row.weight}))
        _record("objective.removed", row)
        row.delete()


def _locked(name: str) -> CurveObjective:
    row = CurveObjective.objects.select_for_update().filter(name=name).first()
    if row is None:
        raise NotFoundError(f"There is no custom objective {name!r}.")
    return row


def _record(kind: str, row: CurveObjective) -> None:
    data = {"name": row.name, "weight": row.weight}
    record_events([NewEvent(topic=Topic.PLANS, kind=kind, subject=row.name, data=data)])
