"""Reads of classification: revisions, what is known of each cell, profiles."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any
from uuid import UUID

import numpy as np
from django.db.models import QuerySet

from apps.classification.core.assemble import Library, model_of
from apps.classification.core.cells import (
    Cells,
    KnownCell,
    Source,
    SourceCode,
    read,
    training,
)
from apps.classification.core.estimators import DEFAULT
from apps.classification.core.known import Reading, known_cells
from apps.classification.core.matrix import MatrixName
from apps.classification.core.profile import HALF_WIDTH_90, Profile
from apps.classification.models import MatrixRevision, Override, Revision
from apps.classification.models import Profile as ProfileRow
from apps.inventory.models import Platform
from apps.profiling.models import Measurement


class NoLibraryError(ValueError):
    """No matrix revision to classify by."""


# ---- revisions ----


def current_number() -> int | None:
    """Find the number of the revision in force; None before the first."""
    return Revision.objects.filter(is_current=True).values_list("number", flat=True).first()


def current_library() -> Library:
    """Rows to learn from of the revision in force; read once per revision and process.

    Raises
    ------
    NoLibraryError : there is no revision yet.
    """
    return _library(*_current())


def warm_up() -> None:
    """Read the revision in force and fit its estimators, so that the next fold need not."""
    if current_number() is not None:
        for name, matrix in current_library().matrices.items():
            if matrix.rows:
                model_of(DEFAULT, name.scale, matrix.rows_at(matrix.columns))


def current_columns() -> dict[MatrixName, tuple[str, ...]]:
    """Column labels of each matrix of the revision in force.

    Raises
    ------
    NoLibraryError : there is no revision yet.
    """
    return {name: matrix.columns for name, matrix in current_library().matrices.items()}


def unprofiled_platforms() -> list[str]:
    """Platforms of the cluster of which the current library knows nothing; best first."""
    is_known = current_number() is not None
    columns = current_columns()[MatrixName.HETEROGENEITY] if is_known else ()
    platforms = Platform.objects.order_by("rank").values_list("name", flat=True)
    return [platform for platform in platforms if platform not in columns]


@dataclass(frozen=True, slots=True)
class LibraryRows:
    """The offline library as it is stored in the revision in force.

    Attributes
    ----------
    rows : known cells of each application of it, by name
    platforms : highest-end first
    """

    number: int
    rows: Mapping[str, Sequence[KnownCell]]
    platforms: tuple[str, ...]


def library_rows() -> LibraryRows:
    """Read the offline library back from the revision in force.

    Raises
    ------
    NoLibraryError : there is no revision yet.
    """
    number, _ = _current()
    rows: dict[str, list[KnownCell]] = {}
    platforms: tuple[str, ...] = ()
    for stored in MatrixRevision.objects.filter(revision_id=number):
        name = MatrixName(stored.matrix)
        if name is MatrixName.HETEROGENEITY:
            platforms = tuple(stored.columns)
        cells = cells_in(stored)[: stored.library_rows]
        for application, row in zip(stored.rows, cells, strict=False):
            rows.setdefault(application, []).extend(_known(name, stored.columns, row))
    return LibraryRows(number, rows, platforms)


def live_rows() -> dict[str, list[KnownCell]]:
    """Read what is known of every application that was measured, by name."""
    readings: dict[str, list[Reading]] = defaultdict(list)
    measured = Measurement.objects.select_related("application").order_by("id")
    for row in measured.iterator(chunk_size=5000):
        readings[row.application.name].append(_reading(row))
    by_hand: dict[str, list[KnownCell]] = defaultdict(list)
    for override in _overrides().select_related("application"):
        by_hand[override.application.name].append(_by_hand(override))
    return {name: known_cells(rows, by_hand[name]) for name, rows in readings.items()}


def cells_in(stored: MatrixRevision) -> Cells:
    """(rows, columns) cells of a stored matrix."""
    return read(bytes(stored.cells), len(stored.rows), len(stored.columns))


def _current() -> tuple[int, datetime]:
    found = Revision.objects.filter(is_current=True).values_list("number", "created_at").first()
    if found is None:
        raise NoLibraryError(
            "there is no library of profiled applications: "
            "make one with `manage.py profile_library`"
        )
    return found


@lru_cache(maxsize=2)
def _library(number: int, created_at: datetime) -> Library:
    """Read a revision; its time tells it from one of the same number before a reset."""
    stored = {row.matrix: row for row in MatrixRevision.objects.filter(revision_id=number)}
    matrices = {}
    for name in MatrixName:
        row = stored[name.value]
        matrices[name] = training(name, row.rows, row.columns, cells_in(row))
    return Library(number, matrices)


def _known(name: MatrixName, columns: Sequence[str], row: Cells) -> list[KnownCell]:
    return [
        KnownCell(
            name,
            column,
            float(cell["value"]),
            float(cell["standard_error"]),
            SourceCode(int(cell["source"])).source,
            int(cell["samples"]),
            float(cell["measured_s"]),
        )
        for column, cell in zip(columns, row, strict=True)
        if cell["samples"]
    ]


# ---- what is known of one application ----


def known_cells_of(application_id: UUID) -> list[KnownCell]:
    """Read what is known of an application: measurements combined, overrides on top."""
    rows = Measurement.objects.filter(application_id=application_id).order_by("id")
    by_hand = _overrides().filter(application_id=application_id)
    return known_cells(map(_reading, rows), map(_by_hand, by_hand))


def _overrides() -> QuerySet[Override]:
    return Override.objects.filter(withdrawn_at__isnull=True).order_by("created_at")


def _reading(row: Measurement) -> Reading:
    return Reading(
        MatrixName(row.matrix),
        row.column,
        row.value,
        row.standard_error,
        row.samples,
        row.cluster_s,
        row.source,
    )


def _by_hand(row: Override) -> KnownCell:
    return KnownCell(
        MatrixName(row.matrix), row.column, row.value, 0.0, Source.OVERRIDE, 1, row.cluster_s
    )


# ---- profiles ----


def current_profile_ids(application_ids: Iterable[UUID]) -> dict[UUID, UUID]:
    """Id of the current profile of each application that has one."""
    rows = ProfileRow.objects.filter(application_id__in=list(application_ids), is_current=True)
    return dict(rows.values_list("application_id", "id"))


def profiles(profile_ids: Iterable[UUID]) -> dict[UUID, Profile]:
    """Profiles by id, as values."""
    rows = ProfileRow.objects.filter(id__in=list(profile_ids)).select_related("application")
    return {row.id: from_row(row) for row in rows}


def profile_named(application: str) -> Profile | None:
    """Find the current profile of an application by name; None before it was ever profiled."""
    rows = ProfileRow.objects.select_related("application")
    row = rows.filter(application__name=application, is_current=True).first()
    return None if row is None else from_row(row)


_PARTS = {
    # matrix: (attribute of the value, of its ends, of the marks)
    MatrixName.HETEROGENEITY: ("platform_speed", "platform", "platform_measured"),
    MatrixName.SCALE_UP: ("scale_up", "scale_up", "scale_up_measured"),
    MatrixName.SCALE_OUT: ("scale_out", "scale_out", "scale_out_measured"),
    MatrixName.TOLERATED: ("tolerated", "tolerated", "tolerated_measured"),
    MatrixName.CAUSED: ("caused", "caused", "caused_measured"),
}


def cells_of(
    profile: Profile,
    known: Iterable[KnownCell],
    columns: Mapping[MatrixName, tuple[str, ...]],
) -> dict[str, Any]:
    """JSON of a profile, per matrix one list for each of these, all as long as ``columns``.

    ``value``, ``low``, ``high`` (90 % interval), ``measured`` (a value is known, not inferred),
    ``source``, and of known cells, else null: ``standard_error``, ``samples``, ``at_s``.
    """
    rates = np.array([profile.base_rate, profile.bytes_rate])
    errors = np.array([profile.base_rate_se, profile.bytes_rate_se])
    wide = np.exp(HALF_WIDTH_90 * errors)
    parts = {MatrixName.BASE_RATE: (rates, rates / wide, rates * wide)} | {
        name: (
            getattr(profile, value),
            getattr(profile, f"{ends}_low"),
            getattr(profile, f"{ends}_high"),
        )
        for name, (value, ends, _) in _PARTS.items()
    }
    found = {(cell.matrix, cell.column): cell for cell in known}
    cells: dict[str, Any] = {}
    for name, arrays in parts.items():
        of_row = [found.get((name, column)) for column in columns[name]]
        cells[name.value] = {
            "columns": list(columns[name]),
            **dict(zip(("value", "low", "high"), (a.tolist() for a in arrays), strict=True)),
            "measured": [cell is not None for cell in of_row],
            **_provenance(of_row),
        }
    # the rates' errors are read back exactly, not from the rounded ends
    cells[MatrixName.BASE_RATE.value]["log_error"] = errors.tolist()
    return cells


def _provenance(cells: Sequence[KnownCell | None]) -> dict[str, list[Any]]:
    return {
        "source": [cell.source if cell else Source.INFERRED for cell in cells],
        "standard_error": [cell.standard_error if cell else None for cell in cells],
        "samples": [cell.samples if cell else 0 for cell in cells],
        "at_s": [cell.at_s if cell else None for cell in cells],
    }


def from_row(row: ProfileRow) -> Profile:
    """Read a stored profile."""
    cells = row.cells
    rate = cells[MatrixName.BASE_RATE.value]
    parts: dict[str, Any] = {}
    for name, (value, ends, marks) in _PARTS.items():
        part = cells[name.value]
        parts[value] = np.array(part["value"], dtype=np.float64)
        parts[f"{ends}_low"] = np.array(part["low"], dtype=np.float64)
        parts[f"{ends}_high"] = np.array(part["high"], dtype=np.float64)
        parts[marks] = np.array(part["measured"], dtype=np.bool_)
    return Profile(
        application=row.application.name,
        kind=row.application.kind,
        revision=row.revision,
        platforms=tuple(cells[MatrixName.HETEROGENEITY.value]["columns"]),
        base_rate=rate["value"][0],
        base_rate_se=rate["log_error"][0],
        bytes_rate=rate["value"][1],
        bytes_rate_se=rate["log_error"][1],
        **parts,
    )
