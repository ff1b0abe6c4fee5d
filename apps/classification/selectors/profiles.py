"""Profiles: stored beliefs about applications, to values and back."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

import numpy as np

from apps.classification.core.cells import KnownCell, Source
from apps.classification.core.matrix import MatrixName
from apps.classification.core.profile import HALF_WIDTH_90, Profile
from apps.classification.models import Profile as ProfileRow


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
    MatrixName.FRAMEWORK: ("framework", "framework", "framework_measured"),
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
        if getattr(profile, value).size
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
        if (part := cells.get(name.value)) is None:
            continue  # nothing can be set of it
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
        flags=tuple(row.flags),
        settings=tuple(cells.get(MatrixName.FRAMEWORK.value, {}).get("columns", ())),
        **parts,
    )
