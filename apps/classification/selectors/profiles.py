"""Stored profiles, converted to values and back."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

import numpy as np

from apps.classification.core.cells import KnownCell, Source
from apps.classification.core.estimates import HALF_WIDTH_90, Estimates
from apps.classification.core.matrix import MatrixName
from apps.classification.core.profile import Profile
from apps.classification.models import Profile as ProfileRow
from apps.common.infrastructure.database import fetch_rows, number_array


def current_profile_ids(application_ids: Iterable[UUID]) -> dict[UUID, UUID]:
    """Return the id of the current profile of each application that has one."""
    return dict(fetch_rows(_CURRENT, [number_array(application_ids)]))


_CURRENT: Final = """
SELECT application_id, id FROM classification_profile
WHERE application_id = ANY(%s::uuid[]) AND is_current
"""


def profiles(profile_ids: Iterable[UUID]) -> dict[UUID, Profile]:
    """Return profiles as values, by id."""
    rows = ProfileRow.objects.filter(id__in=list(profile_ids)).select_related("application")
    return {row.id: from_row(row) for row in rows}


def profile_named(application: str) -> Profile | None:
    """Return the current profile of an application; None before its first profile."""
    rows = ProfileRow.objects.select_related("application")
    row = rows.filter(application__name=application, is_current=True).first()
    return None if row is None else from_row(row)


_FIELDS: Final = {
    MatrixName.HETEROGENEITY: "platform_speed",
    MatrixName.SCALE_UP: "scale_up",
    MatrixName.SCALE_OUT: "scale_out",
    MatrixName.FRAMEWORK: "framework",
    MatrixName.TOLERATED: "tolerated",
    MatrixName.CAUSED: "caused",
}


def cells_of(
    profile: Profile,
    known: Iterable[KnownCell],
    columns: Mapping[MatrixName, tuple[str, ...]],
) -> dict[str, Any]:
    """Return the JSON of a profile: for each matrix one list per field, as long as ``columns``.

    Fields: ``value``, ``low``, ``high`` (90 % interval), ``measured`` (known, not inferred),
    ``source``; and for known cells, else null: ``standard_error``, ``samples``, ``at_s``.
    """
    rates = np.array([profile.base_rate, profile.bytes_rate])
    errors = np.array([profile.base_rate_se, profile.bytes_rate_se])
    wide = np.exp(HALF_WIDTH_90 * errors)
    parts = {MatrixName.BASE_RATE: (rates, rates / wide, rates * wide)} | {
        name: row.ends for name, row in profile.estimates.items()
    }
    by_key = {(cell.matrix, cell.column): cell for cell in known}
    cells: dict[str, Any] = {}
    for name, arrays in parts.items():
        of_row = [by_key.get((name, column)) for column in columns[name]]
        cells[name.value] = {
            "columns": list(columns[name]),
            **dict(zip(("value", "low", "high"), (a.tolist() for a in arrays), strict=True)),
            "measured": [cell is not None for cell in of_row],
            **_provenance(of_row),
        }
    # stored separately, because the ends of the interval are rounded
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
    parts: dict[str, Any] = {
        field: _read(cells[name.value]) for name, field in _FIELDS.items() if name.value in cells
    }
    return Profile(
        application=row.application.name,
        kind=row.application.kind,
        revision=row.revision,
        platforms=tuple(cells[MatrixName.HETEROGENEITY.value]["columns"]),
        base_rate=rate["value"][0],
        base_rate_se=rate["log_error"][0],
        bytes_rate=rate["value"][1],
        bytes_rate_se=rate["log_error"][1],
        flags=tuple(row.flags),
        settings=tuple(cells.get(MatrixName.FRAMEWORK.value, {}).get("columns", ())),
        **parts,
    )


def _read(part: Mapping[str, Any]) -> Estimates:
    value, low, high = (np.array(part[key], dtype=np.float64) for key in ("value", "low", "high"))
    return Estimates(value, low, high, np.array(part["measured"], dtype=np.bool_))
