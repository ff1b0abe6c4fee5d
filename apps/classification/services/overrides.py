"""Overrides: cells set by hand, which replace measurements."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from apps.accounts.services import Act, record_act
from apps.classification import selectors
from apps.classification.core.matrix import MatrixName, Scale
from apps.classification.models import Override
from apps.classification.services.profiles import request_folds
from apps.common.core.errors import FieldProblem, InvalidInputError
from apps.inventory.selectors import cluster_now
from apps.operations.services import NewEvent, record_events
from apps.profiling.services import lock_applications
from apps.workloads.core.framework import HAS_SETTINGS
from apps.workloads.models import Application

# far outside all measurements; products of cells must stay finite
_RATES: Final = (1e-6, 1e18)
_RATIOS: Final = (1e-6, 1e6)
_SCORES: Final = (0.0, 100.0)


@dataclass(frozen=True, slots=True)
class NewOverride:
    """A cell to override; ``value`` is in the unit of its matrix."""

    matrix: MatrixName
    column: str
    value: float


def set_overrides(
    application_id: UUID, cells: Sequence[NewOverride], *, reason: str, by: UUID
) -> list[Override]:
    """Override cells; an earlier override of the same cell is withdrawn.

    Requests a new profile; an application without one uses the overrides in its first profile.

    Raises
    ------
    InvalidInputError : lists each invalid cell.
    NoLibraryError : there is no revision yet.
    """
    with transaction.atomic():
        (application,) = lock_applications([application_id])
        check_overrides(cells, kind=application.kind)
        now_s = cluster_now()
        replaced = _values(
            row
            for cell in cells
            for row in _in_force(application).filter(matrix=cell.matrix, column=cell.column)
        )
        for cell in cells:
            _in_force(application).filter(matrix=cell.matrix.value, column=cell.column).update(
                withdrawn_at=timezone.now()
            )
        created = Override.objects.bulk_create(
            Override(
                application=application,
                matrix=cell.matrix.value,
                column=cell.column,
                value=cell.value,
                cluster_s=now_s,
                reason=reason,
                created_by_id=by,
            )
            for cell in cells
        )
        target = str(application.pk), application.name
        record_act(Act("override.set", *target, replaced, _values(created), reason), by=by)
        _changed(application, "application.overridden", created, by=by, reason=reason)
    return created


def withdraw_overrides(
    application_id: UUID, override_ids: Sequence[UUID], *, by: UUID | None = None
) -> int:
    """Withdraw overrides; return the number that were in force."""
    with transaction.atomic():
        (application,) = lock_applications([application_id])
        withdrawn = list(_in_force(application).filter(id__in=list(override_ids)).order_by("id"))
        if withdrawn:
            ids = [row.pk for row in withdrawn]
            Override.objects.filter(id__in=ids).update(withdrawn_at=timezone.now())
            target = str(application.pk), application.name
            record_act(Act("override.withdrawn", *target, before=_values(withdrawn)), by=by)
            _changed(application, "application.override_withdrawn", withdrawn, by=by)
    return len(withdrawn)


def check_overrides(cells: Sequence[NewOverride], *, kind: str) -> None:
    """Reject columns that the kind does not have, and values out of range.

    Raises
    ------
    InvalidInputError : one problem for each such cell.
    NoLibraryError : there is no revision yet.
    """
    columns = {
        name: labels
        for name, labels in selectors.current_columns().items()
        if name is not MatrixName.FRAMEWORK or kind in HAS_SETTINGS
    }
    problems = [
        FieldProblem(f"/cells/{i}/{field}", code, detail)
        for i, cell in enumerate(cells)
        for field, code, detail in _problems(cell, columns)
    ]
    places = [(cell.matrix, cell.column) for cell in cells]
    problems += [
        FieldProblem(f"/cells/{i}", "duplicate", f"{matrix}[{column}] appears twice")
        for i, (matrix, column) in enumerate(places)
        if (matrix, column) in places[:i]
    ]
    if problems:
        raise InvalidInputError(problems)


def _problems(
    cell: NewOverride, columns: Mapping[MatrixName, tuple[str, ...]]
) -> list[tuple[str, str, str]]:
    problems = []
    if cell.matrix not in columns:
        return [("matrix", "unknown", "only analytics applications have framework settings")]
    if cell.column not in columns[cell.matrix]:
        known = ", ".join(columns[cell.matrix])
        problems.append(("column", "unknown", f"must be one of {known}, got {cell.column!r}"))
    low, high = _bounds(cell.matrix)
    if not low <= cell.value <= high:
        problems.append(
            ("value", "out_of_range", f"must be between {low:g} and {high:g}, got {cell.value:g}")
        )
    return problems


def _bounds(matrix: MatrixName) -> tuple[float, float]:
    if matrix is MatrixName.BASE_RATE:
        return _RATES
    return _SCORES if matrix.scale is Scale.SCORE else _RATIOS


def _values(rows: Iterable[Override]) -> dict[str, float]:
    return {f"{row.matrix}[{row.column}]": row.value for row in rows}


def _in_force(application: Application) -> QuerySet[Override]:
    return Override.objects.filter(application=application, withdrawn_at__isnull=True)


def _changed(
    application: Application,
    kind: str,
    rows: Sequence[Override],
    *,
    by: UUID | None,
    reason: str = "",
) -> None:
    if selectors.current_profile_ids([application.id]):
        request_folds([application.id])
    data = {
        "name": application.name,
        "cells": [f"{row.matrix}[{row.column}]" for row in rows],
        "by": None if by is None else str(by),
    }
    if reason:
        data["reason"] = reason
    record_events(
        [NewEvent(topic="applications", kind=kind, subject=str(application.id), data=data)]
    )
